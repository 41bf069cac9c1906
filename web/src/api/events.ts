/** Event stream of the server: one connection for the tab, read over fetch because EventSource sends no headers. */

import { signal } from '@preact/signals';
import { authHeaders, checkHealth, refusal, send } from './client';
import { session } from '../state/session';

/** One server-sent event. */
export interface Frame {
  event: string;
  data: string;
  id: string | null;
}

/** Incremental parser of text/event-stream. Frames may be split anywhere, also within a line ending. */
export class EventParser {
  private rest = '';
  private event = '';
  private data: string[] = [];
  private id: string | null = null;
  private afterCr = false;
  private begun = false;

  /** Frames that end in this chunk. */
  push(chunk: string): Frame[] {
    if (!this.begun && chunk.length > 0) {
      this.begun = true;
      if (chunk.startsWith('\uFEFF')) chunk = chunk.slice(1);
    }
    const frames: Frame[] = [];
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const code = chunk.charCodeAt(at);
      if (code === 10 && this.afterCr) {
        this.afterCr = false;
        start = at + 1;
        continue;
      }
      this.afterCr = code === 13;
      if (code !== 10 && code !== 13) continue;
      const line = this.rest + chunk.slice(start, at);
      this.rest = '';
      start = at + 1;
      const frame = this.line(line);
      if (frame) frames.push(frame);
    }
    this.rest += chunk.slice(start);
    return frames;
  }

  private line(line: string): Frame | null {
    if (line === '') return this.dispatch();
    if (line.startsWith(':')) return null;
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.event = value;
    else if (field === 'id' && !value.includes('\0')) this.id = value;
    return null;
  }

  private dispatch(): Frame | null {
    const { event, data, id } = this;
    this.event = '';
    this.data = [];
    return data.length === 0 ? null : { event: event || 'message', data: data.join('\n'), id };
  }
}

/** An event for subscribers. `resync` goes to all of them: events may have been missed, so load everything again. */
export interface StreamEvent {
  kind: string;
  /** The decoded `data`; of job events a JobEvent. */
  data: unknown;
}

export type Handler = (event: StreamEvent) => void;

export type StreamState =
  /** Before the first connection, or signed out. */
  'idle' | 'connecting' | 'live' | 'reconnecting';

export const RESYNC = 'resync';
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
/** The server sends a heartbeat every 15 s. */
const SILENCE_MS = 40_000;
/** A hidden tab gives up its connection after this long, and loads everything again when it is shown. */
const HIDDEN_MS = 5 * 60_000;

const SWITCH_MS = 50;

/** The pause before the given attempt (1 is the first), between half and all of the exponential step. */
export function backOff(attempt: number, random = Math.random()): number {
  const step = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  return step * (0.5 + random / 2);
}

/** The parts of the outside world, which tests replace. */
export interface StreamPorts {
  open: (path: string, headers: Record<string, string>, signal: AbortSignal) => Promise<Response>;
  /** Called after a refusal; a stream that may not be opened stays closed until `start`. */
  refused: (response: Response) => Promise<void>;
  reconnected: () => void;
  pauseMs: (attempt: number) => number;
}

export class EventStream {
  readonly state = signal<StreamState>('idle');
  private readonly subscribers = new Set<{ kinds: ReadonlySet<string> | null; handler: Handler }>();
  private overviewWanted = 0;
  private hasOverview = false;
  private switching: ReturnType<typeof setTimeout> | undefined;
  private lastId: string | null = null;
  private stop: AbortController | null = null;
  private wake: (() => void) | null = null;

  constructor(private readonly ports: StreamPorts) {}

  /** Calls `handler` for events of these kinds (null: of all), and for `resync`. Returns a function that ends the subscription. */
  subscribe(kinds: readonly string[] | null, handler: Handler): () => void {
    const one = { kinds: kinds && new Set(kinds), handler };
    this.subscribers.add(one);
    return () => this.subscribers.delete(one);
  }

  /** Asks for `overview` events while at least one page wants them. */
  wantOverview(on: boolean): void {
    this.overviewWanted = Math.max(0, this.overviewWanted + (on ? 1 : -1));
    // A page that replaces another one may want the same: the connection changes once both have spoken.
    clearTimeout(this.switching);
    this.switching = setTimeout(() => {
      if (this.stop && this.hasOverview !== this.overviewWanted > 0) this.restart();
    }, SWITCH_MS);
  }

  start(): void {
    if (this.stop) return;
    this.state.value = 'connecting';
    this.stop = new AbortController();
    void this.run(this.stop.signal, false);
  }

  /** Starts again after a pause in which events were missed. */
  resume(): void {
    if (this.stop) return;
    this.state.value = 'reconnecting';
    this.stop = new AbortController();
    void this.run(this.stop.signal, true);
  }

  /** Closes the connection. `forget`: the next one begins with the newest event, after a `resync`. */
  close(forget = false): void {
    this.stop?.abort();
    this.stop = null;
    if (forget) this.lastId = null;
    this.state.value = 'idle';
  }

  /** Ends a pause between attempts: the tab was shown, or the network is back. */
  hurry(): void {
    this.wake?.();
  }

  private restart(): void {
    const before = this.state.value;
    this.stop?.abort();
    this.stop = new AbortController();
    this.state.value = before;
    void this.run(this.stop.signal, this.lastId === null);
  }

  private async run(stop: AbortSignal, resync: boolean): Promise<void> {
    let attempt = 0;
    while (!stop.aborted) {
      const outcome = await this.connect(stop, () => {
        if (attempt > 0) this.ports.reconnected();
        if (resync) this.emit({ kind: RESYNC, data: null });
        attempt = 0;
        resync = false;
      });
      if (stop.aborted) return;
      if (outcome === 'refused') {
        this.stop = null;
        this.state.value = 'idle';
        return;
      }
      resync ||= this.lastId === null; // nothing to continue from
      attempt += 1;
      this.state.value = 'reconnecting';
      await this.rest(this.ports.pauseMs(attempt), stop);
    }
  }

  private rest(ms: number, stop: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        stop.removeEventListener('abort', done);
        this.wake = null;
        resolve();
      };
      const timer = setTimeout(done, ms);
      stop.addEventListener('abort', done);
      this.wake = done;
    });
  }

  /** One connection, until it ends. */
  private async connect(stop: AbortSignal, onOpen: () => void): Promise<'ended' | 'refused'> {
    const own = new AbortController();
    const abort = () => own.abort();
    stop.addEventListener('abort', abort);
    let silence: ReturnType<typeof setTimeout> | undefined;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(abort, SILENCE_MS);
    };
    try {
      heard();
      const headers: Record<string, string> = { Accept: 'text/event-stream' };
      if (this.lastId !== null) headers['Last-Event-ID'] = this.lastId;
      this.hasOverview = this.overviewWanted > 0;
      const path = this.hasOverview ? '/events?overview=true' : '/events';
      const response = await this.ports.open(path, headers, own.signal);
      if (!response.ok || !response.body) {
        await this.ports.refused(response);
        return response.status === 401 || response.status === 403 || response.status === 421 ? 'refused' : 'ended';
      }
      const parser = new EventParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let open = false;
      for (;;) {
        const { done, value } = await reader.read();
        if (done || stop.aborted) return 'ended';
        heard();
        if (!open) {
          open = true;
          this.state.value = 'live';
          onOpen();
        }
        for (const frame of parser.push(value)) this.deliver(frame);
      }
    } catch {
      return 'ended';
    } finally {
      clearTimeout(silence);
      stop.removeEventListener('abort', abort);
      own.abort();
    }
  }

  private deliver(frame: Frame): void {
    if (frame.id) this.lastId = frame.id;
    let data: unknown;
    try {
      data = JSON.parse(frame.data);
    } catch {
      return;
    }
    this.emit({ kind: frame.event, data });
  }

  private emit(event: StreamEvent): void {
    for (const { kinds, handler } of [...this.subscribers]) {
      if (kinds !== null && event.kind !== RESYNC && !kinds.has(event.kind)) continue;
      try {
        handler(event);
      } catch (error) {
        reportError(error);
      }
    }
  }
}

export const events = new EventStream({
  open: (path, headers, signal) =>
    send('GET', path, undefined, { headers: { ...authHeaders(), ...headers }, signal }),
  refused: async (response) => {
    await refusal(response);
  },
  reconnected: () => void checkHealth(),
  pauseMs: backOff,
});

export const subscribe = events.subscribe.bind(events);
export const wantOverview = events.wantOverview.bind(events);
export const streamState = events.state;

/** Keeps the stream open while a user is signed in and the tab is shown, or was until lately. */
export function followSession(): void {
  let hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  let slept = false;
  session.subscribe((value) => {
    if (value.state === 'signed-in') events.start();
    else events.close(true);
  });
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) {
      hiddenTimer = setTimeout(() => {
        slept = true;
        events.close(true);
      }, HIDDEN_MS);
    } else if (session.value.state === 'signed-in') {
      if (slept) events.resume();
      else events.hurry();
      slept = false;
    }
  });
  window.addEventListener('online', () => events.hurry());
}
