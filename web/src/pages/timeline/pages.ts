/** Data of the timeline, page by page: nodes in the order of their names, loaded as they come into view. */

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, isAbort } from '../../api/client';
import { subscribe } from '../../api/events';
import { serverNow } from '../../state/clock';
import { nodesOf, type NodeData } from './rows';
import { covers, toLoad, type Range } from './scale';
import type { Timeline } from './types';

const PAGE = 100;
const AFTER_EVENT_MS = 2000;

interface LoadedPage {
  cursor: string | null;
  answer: Timeline;
  loaded: Range;
  nodes: NodeData[];
  isStale: boolean;
}

export interface Pages {
  first: Timeline | null;
  nodes: NodeData[];
  error: unknown;
  hasMore: boolean;
  isSummed: boolean;
  /** Loads the next page of nodes. */
  more: () => void;
  /** Tells which nodes are in view. */
  show: (first: number, last: number) => void;
  reload: () => void;
}

export function usePages(range: Range, pool: string): Pages {
  const [pages, setPages] = useState<readonly LoadedPage[]>([]);
  const [error, setError] = useState<unknown>(null);
  const [turn, setTurn] = useState(0);
  const latest = useRef({ pages, range });
  latest.current = { pages, range };
  const view = useRef({ first: 0, last: PAGE });
  const busy = useRef(false);
  const stop = useRef(new AbortController());

  const load = async (cursor: string | null): Promise<LoadedPage> => {
    const loaded = toLoad(latest.current.range, serverNow());
    const query = {
      since: new Date(loaded.from).toISOString(),
      until: new Date(loaded.until).toISOString(),
      pool,
      limit: PAGE,
      cursor,
    };
    const answer = await api.get<Timeline>('/timeline', { query, signal: stop.current.signal });
    return { cursor, answer, loaded, nodes: nodesOf(answer, serverNow()), isStale: false };
  };

  /** Brings pages in view up to date, one at a time. */
  const refresh = async () => {
    if (busy.current) return;
    busy.current = true;
    const { signal } = stop.current;
    try {
      for (;;) {
        const { pages: known, range: wanted } = latest.current;
        const at = known.findIndex((page, index) => isInView(known, index) && (page.isStale || !covers(page.loaded, wanted)));
        if (known.length > 0 && at < 0) break;
        const page = await load(known[at]?.cursor ?? null);
        if (signal.aborted) return;
        put(known.length === 0 ? 0 : at, page);
        setError(null);
      }
    } catch (failure) {
      if (!signal.aborted && !isAbort(failure)) setError(failure);
    } finally {
      if (!signal.aborted) busy.current = false;
    }
  };

  const isInView = (known: readonly LoadedPage[], index: number) => {
    const before = known.slice(0, index).reduce((sum, page) => sum + page.nodes.length, 0);
    const size = known[index]?.nodes.length ?? 0;
    return before <= view.current.last && before + size > view.current.first;
  };

  const put = (at: number, page: LoadedPage) => {
    const next = [...latest.current.pages];
    next[at] = page;
    latest.current.pages = next;
    setPages(next);
  };

  useEffect(() => {
    stop.current = new AbortController();
    busy.current = false;
    latest.current.pages = [];
    setPages([]);
    void refresh();
    const { current } = stop;
    return () => current.abort();
  }, [pool]);

  useEffect(() => void refresh(), [range, turn]);

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const end = subscribe(null, () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        markStale();
      }, AFTER_EVENT_MS);
    });
    return () => {
      end();
      clearTimeout(timer);
    };
  }, []);

  const markStale = () => {
    latest.current.pages = latest.current.pages.map((page) => ({ ...page, isStale: true }));
    setPages(latest.current.pages);
    setTurn((value) => value + 1);
  };

  const nodes = useMemo(() => pages.flatMap((page) => page.nodes), [pages]);
  const last = pages.at(-1)?.answer ?? null;
  return {
    first: pages[0]?.answer ?? null,
    nodes,
    error,
    hasMore: last !== null && last.next_cursor !== null,
    isSummed: pages.some((page) => page.answer.truncated),
    more: () => {
      const cursor = latest.current.pages.at(-1)?.answer.next_cursor;
      if (!cursor || busy.current) return;
      busy.current = true;
      const { signal } = stop.current;
      load(cursor)
        .then((page) => {
          if (!signal.aborted) put(latest.current.pages.length, page);
        })
        .catch((failure: unknown) => {
          if (!signal.aborted && !isAbort(failure)) setError(failure);
        })
        .finally(() => {
          if (!signal.aborted) busy.current = false;
        });
    },
    show: (first, until) => {
      view.current = { first, last: until };
      void refresh();
    },
    reload: markStale,
  };
}
