/** Follower of a log: asks for one bounded part after the other, and skips ahead when the job writes faster than it reads. */

/** Output that arrived at one time. */
export interface LogChunk {
  bytes: Uint8Array;
  /** Milliseconds since 1970; null: none was recorded. */
  time: number | null;
}

export interface LogPart {
  offset: number;
  size: number;
  chunks: LogChunk[];
  /** Number of the attempt that wrote it; null: there is none yet. */
  attempt: number | null;
  /** Nothing follows. */
  complete: boolean;
}

export interface LogQuestion {
  attempt: number | null;
  offset?: number;
  last?: number;
  length?: number;
  wait?: number;
}

export type ReadLog = (question: LogQuestion, signal: AbortSignal) => Promise<LogPart>;

export interface FollowerEvents {
  output: (chunk: LogChunk) => void;
  /** Output that is not shown: the job writes faster than this page reads, or it is no longer kept. */
  skipped: (bytes: number, why: 'fast' | 'removed') => void;
  /** Another attempt goes on. */
  attempt: (number: number) => void;
  state: (state: FollowerState) => void;
}

export type FollowerState = 'loading' | 'waiting' | 'live' | 'complete' | { error: unknown };

export const PART = 256 * 1024;
const WAIT_S = 15;
/** Between two questions, so that a job that never stops writing costs a bounded rate. */
const PACE_MS = 200;
const RETRY_MS = 2000;

/** The bytes from `from` to `to`, counted from the first one. */
export function clipped(chunks: readonly LogChunk[], from: number, to = Infinity): LogChunk[] {
  let at = 0;
  return chunks.flatMap(({ bytes, time }) => {
    const kept = bytes.subarray(Math.max(0, from - at), Math.max(0, to - at));
    at += bytes.length;
    return kept.length > 0 ? [{ bytes: kept, time }] : [];
  });
}

export class LogFollower {
  /** Where the loaded output begins, and where it ends. */
  begin = 0;
  end = 0;
  attempt: number | null = null;
  complete = false;

  constructor(
    private readonly read: ReadLog,
    private readonly events: FollowerEvents,
    private readonly chosen: number | null,
    private readonly rest: (ms: number, signal: AbortSignal) => Promise<void>,
  ) {}

  /** Until it is aborted, or nothing will follow. `goesOn`: whether the task may still write or begin again. */
  async run(signal: AbortSignal, goesOn: () => boolean): Promise<void> {
    this.events.state('loading');
    while (!signal.aborted) {
      try {
        const full = await this.step(signal);
        if (this.complete && (this.chosen !== null || !goesOn())) return this.events.state('complete');
        // An attempt that is over may be followed by another one; a full part is followed by more at once.
        await this.rest(this.attempt === null || this.complete ? RETRY_MS : full ? PACE_MS : 0, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.events.state({ error });
        await this.rest(RETRY_MS, signal).catch(() => {});
      }
    }
  }

  /** One question; whether more is there already. */
  private async step(signal: AbortSignal): Promise<boolean> {
    if (this.attempt === null) {
      const part = await this.read({ attempt: this.chosen, last: PART }, signal);
      if (part.attempt === null) {
        this.events.state('waiting');
        return false;
      }
      this.start(part);
      return false;
    }
    const part = await this.read({ attempt: this.chosen, offset: this.end, length: PART, wait: this.complete ? 0 : WAIT_S }, signal);
    if (part.attempt !== null && part.attempt !== this.attempt) {
      const latest = await this.read({ attempt: this.chosen, last: PART }, signal);
      this.events.attempt(latest.attempt ?? part.attempt);
      this.start(latest);
      return false;
    }
    if (part.offset > this.end && part.size > 0) this.skip(part.offset, 'removed');
    if (part.size < PART) {
      this.take(part);
      return false;
    }
    // More is waiting than fits into one part: the newest is what the reader wants to see.
    const newest = await this.read({ attempt: this.chosen, last: PART }, signal);
    if (newest.attempt !== this.attempt || newest.offset <= part.offset + part.size) {
      this.take(part);
      return true;
    }
    this.skip(newest.offset, 'fast');
    this.take(newest);
    return true;
  }

  private start(part: LogPart): void {
    this.attempt = part.attempt;
    this.begin = this.end = part.offset;
    this.complete = false;
    this.take(part);
  }

  private skip(to: number, why: 'fast' | 'removed'): void {
    this.events.skipped(to - this.end, why);
    this.end = to;
    // What was skipped cannot be scrolled back to: the loaded output begins behind it.
    if (why === 'removed' && this.begin > this.end) this.begin = this.end;
  }

  private take(part: LogPart): void {
    clipped(part.chunks, this.end - part.offset).forEach(this.events.output);
    this.end = Math.max(this.end, part.offset + part.size);
    this.complete = part.complete;
    this.events.state('live');
  }
}
