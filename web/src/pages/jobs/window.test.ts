import { describe, expect, it } from 'vitest';
import { runBulk } from './bulk';
import { CHUNK, ListWindow, isPlaceholder } from './window';

interface Row {
  id: number;
}

function listOf(total: number) {
  const asked: number[] = [];
  const list: ListWindow<Row> = new ListWindow(
    async (skip, limit, signal) => {
      asked.push(skip);
      await Promise.resolve();
      signal.throwIfAborted();
      const rows = Array.from({ length: Math.max(0, Math.min(limit, total - skip)) }, (_, index) => ({ id: skip + index }));
      return { rows, total, exact: true };
    },
    () => {},
  );
  return { list, asked };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 5));

describe('ListWindow', () => {
  it('has as many rows as the server and loads those in view', async () => {
    const { list, asked } = listOf(100_000);
    list.show(0, 20);
    await settled();
    expect(list.slots.length).toBe(100_000);
    expect(list.slots[0]).toEqual({ id: 0 });
    expect(isPlaceholder(list.slots[50_000]!)).toBe(true);
    list.show(49_990, 50_010);
    await settled();
    expect(list.slots[50_000]).toEqual({ id: 50_000 });
    expect(asked).toEqual([0, 49_900, 50_000]);
  });

  it('loads only what is in view again', async () => {
    const { list, asked } = listOf(1000);
    list.show(0, 10);
    await settled();
    list.show(500, 510);
    await settled();
    asked.length = 0;
    await list.refresh();
    expect(asked).toEqual([500]);
    list.show(0, 10);
    await settled();
    expect(asked).toEqual([500, 0]);
  });

  it('drops questions for rows that were scrolled past', async () => {
    const { list } = listOf(10_000);
    list.show(0, 0);
    await settled();
    list.show(5 * CHUNK, 5 * CHUNK);
    list.show(9 * CHUNK, 9 * CHUNK);
    await settled();
    expect(isPlaceholder(list.slots[5 * CHUNK]!)).toBe(true);
    expect(list.slots[9 * CHUNK]).toEqual({ id: 9 * CHUNK });
  });

  it('keeps an error and loses it with the next answer', async () => {
    let broken = true;
    const list = new ListWindow<Row>(
      async () => {
        if (broken) throw new Error('away');
        return { rows: [], total: 0, exact: true };
      },
      () => {},
    );
    list.show(0, 0);
    await settled();
    expect(list.error).toBeInstanceOf(Error);
    broken = false;
    await list.refresh();
    expect([list.error, list.loaded]).toEqual([null, true]);
  });
});

describe('runBulk', () => {
  it('sends what the server takes at once and adds up the outcome', async () => {
    const sizes: number[] = [];
    const ids = Array.from({ length: 2500 }, (_, index) => index + 1);
    const outcome = await runBulk('retry', ids, undefined, async (_path, body) => {
      const { job_ids } = body as { job_ids: number[] };
      sizes.push(job_ids.length);
      const [first = 0, second = 0, third = 0] = job_ids;
      return {
        retried: [{ job_id: first, new_job_id: first + 10_000, restarted: false }],
        refused: [{ job_id: second, detail: 'no' }],
        not_found: [],
        forbidden: [third],
      };
    });
    expect(sizes).toEqual([1000, 1000, 500]);
    expect(outcome.done).toEqual([1, 1001, 2001]);
    expect(outcome.replaced[0]).toEqual({ job_id: 1, new_job_id: 10_001 });
    expect(outcome.refused.length).toBe(6);
  });
});
