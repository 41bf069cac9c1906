/** Data of a page: loaded, kept while it is loaded again, and loaded again after events. */

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { isAbort } from '../api/client';
import { subscribe, type StreamEvent } from '../api/events';

export interface Resource<Data> {
  /** The last good answer; null before the first. */
  data: Data | null;
  /** Of the last attempt; null if it succeeded. */
  error: unknown;
  loading: boolean;
  reload: () => void;
}

export interface ResourceOptions {
  /** Kinds of events after which the data is loaded again; null: any event. Left out: never. */
  kinds?: readonly string[] | null;
  /** Of these events, the ones that matter. */
  matters?: (event: StreamEvent) => boolean;
  /** At most one load within this time; 500 ms unless given. */
  debounceMs?: number;
}

/** `load` is called when one of `inputs` changes; an older request is aborted. */
export function useResource<Data>(
  load: (signal: AbortSignal) => Promise<Data>,
  inputs: readonly unknown[],
  options: ResourceOptions = {},
): Resource<Data> {
  const [state, setState] = useState<Omit<Resource<Data>, 'reload'>>({ data: null, error: null, loading: true });
  const [turn, setTurn] = useState(0);
  const latest = useRef({ load, options });
  latest.current = { load, options };
  const reload = useCallback(() => setTurn((value) => value + 1), []);
  const busy = useRef(false);
  const stale = useRef(false);
  const { kinds } = options;

  useEffect(() => {
    const stop = new AbortController();
    busy.current = true;
    stale.current = false;
    setState((before) => ({ ...before, loading: true }));
    latest.current
      .load(stop.signal)
      .then((data) => {
        if (!stop.signal.aborted) setState({ data, error: null, loading: false });
      })
      .catch((error: unknown) => {
        if (!stop.signal.aborted && !isAbort(error)) setState((before) => ({ ...before, error, loading: false }));
      })
      .finally(() => {
        if (stop.signal.aborted) return;
        busy.current = false;
        if (stale.current) reload();
      });
    return () => stop.abort();
  }, [...inputs, turn]);

  useEffect(() => {
    if (kinds === undefined) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const end = subscribe(kinds, (event) => {
      if (event.kind !== 'resync' && latest.current.options.matters?.(event) === false) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        // An answer that takes longer than the events are apart is waited for, or none would ever be shown.
        if (busy.current) stale.current = true;
        else reload();
      }, latest.current.options.debounceMs ?? 500);
    });
    return () => {
      end();
      clearTimeout(timer);
    };
  }, [kinds === undefined ? 'never' : (kinds?.join() ?? 'all')]);

  return { ...state, reload };
}
