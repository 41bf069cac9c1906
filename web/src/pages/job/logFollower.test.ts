import { describe, expect, it } from 'vitest';
import { LogFollower, PART, clipped, type FollowerState, type LogPart, type LogQuestion } from './logFollower';

/** A log that grows while it is read. */
class FakeLog {
  constructor(
    public size = 0,
    public attempt: number | null = 1,
    public over = false,
    public removed = 0,
  ) {}
  asked: LogQuestion[] = [];

  read = async (question: LogQuestion): Promise<LogPart> => {
    this.asked.push(question);
    if (this.attempt === null) return { offset: 0, size: 0, chunks: [], attempt: null, complete: false };
    const wanted = question.last !== undefined ? this.size - question.last : (question.offset ?? 0);
    const offset = Math.max(this.removed, Math.min(wanted, this.size), 0);
    const length = Math.min(question.length ?? question.last ?? PART, this.size - offset);
    const chunks = length > 0 ? [{ bytes: new Uint8Array(length).fill(120), time: null }] : [];
    return { offset, size: length, chunks, attempt: this.attempt, complete: this.over && offset + length >= this.size };
  };
}

async function followed(log: FakeLog, change: (turn: number, stop: AbortController) => void, chosen: number | null = null) {
  const seen: string[] = [];
  const states: FollowerState[] = [];
  const stop = new AbortController();
  let turn = 0;
  const follower = new LogFollower(
    log.read,
    {
      output: ({ bytes }) => seen.push(`output ${bytes.length}`),
      skipped: (bytes, why) => seen.push(`skipped ${bytes} ${why}`),
      attempt: (number) => seen.push(`attempt ${number}`),
      state: (state) => states.push(state),
    },
    chosen,
    async () => change(turn++, stop),
  );
  await follower.run(stop.signal, () => !log.over);
  return { seen, states, follower };
}

describe('clipped', () => {
  it('cuts bytes off at both ends and keeps the times of the rest', () => {
    const chunks = [1, 2, 3].map((time) => ({ bytes: new Uint8Array([time, time]), time }));
    expect(clipped(chunks, 3, 5).map(({ bytes, time }) => [bytes.length, time])).toEqual([
      [1, 2],
      [1, 3],
    ]);
    expect(clipped(chunks, -4).length).toBe(3);
    expect(clipped(chunks, 6)).toEqual([]);
  });
});

describe('LogFollower', () => {
  it('begins with the end of the log and goes on as it grows', async () => {
    const log = new FakeLog(1000);
    const { seen, follower } = await followed(log, (turn) => {
      if (turn === 0) log.size = 1010;
      if (turn === 1) log.over = true;
    });
    expect(seen).toEqual(['output 1000', 'output 10']);
    expect(follower.complete).toBe(true);
    expect(log.asked[0]).toEqual({ attempt: null, last: PART });
  });

  it('skips ahead of output that comes faster than it is read, and says how much', async () => {
    const log = new FakeLog(100);
    const { seen, follower } = await followed(log, (turn, stop) => {
      if (turn === 0) log.size += 50_000_000;
      if (turn === 1) stop.abort();
    });
    expect(seen).toEqual(['output 100', `skipped ${50_000_000 - PART} fast`, `output ${PART}`]);
    expect(follower.end).toBe(50_000_100);
  });

  it('reads on without a gap when only a little more than one part is there', async () => {
    const log = new FakeLog(0);
    const { seen } = await followed(log, (turn) => {
      if (turn === 0) log.size = PART + 10;
      if (turn === 1) log.over = true;
    });
    expect(seen).toEqual([`output ${PART}`, 'output 10']);
  });

  it('says that output is gone which was removed before it was read', async () => {
    const log = new FakeLog(10);
    const { seen } = await followed(log, (turn) => {
      if (turn === 0) {
        log.size = 2000;
        log.removed = 1500;
      }
      if (turn === 1) log.over = true;
    });
    expect(seen).toEqual(['output 10', 'skipped 1490 removed', 'output 500']);
  });

  it('follows the next attempt of the task', async () => {
    const log = new FakeLog(10);
    const { seen } = await followed(log, (turn) => {
      if (turn === 0) {
        log.attempt = 2;
        log.size = 3;
      }
      if (turn === 1) log.over = true;
    });
    expect(seen).toEqual(['output 10', 'attempt 2', 'output 3']);
  });

  it('waits for the first attempt', async () => {
    const log = new FakeLog(5, null);
    const { seen, states } = await followed(log, (turn) => {
      if (turn === 0) log.attempt = 1;
      if (turn === 1) log.over = true;
    });
    expect(states).toContain('waiting');
    expect(seen).toEqual(['output 5']);
  });

  it('goes on after an error', async () => {
    const log = new FakeLog(5);
    const read = log.read;
    let broken = true;
    log.read = async (question) => {
      if (broken) throw new Error('away');
      return read(question);
    };
    const { seen, states } = await followed(log, () => {
      broken = false;
      log.over = true;
    });
    expect(states.some((state) => typeof state === 'object')).toBe(true);
    expect(seen).toEqual(['output 5']);
  });
});
