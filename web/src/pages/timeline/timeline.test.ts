import { describe, expect, test } from 'vitest';
import { heightOf, layLanes, nodesOf, placeIn, rowsOf, visibleRows, type Block } from './rows';
import { bounded, covers, pan, position, recent, ticks, timeAt, toLoad, zoom, LONGEST, SHORTEST } from './scale';
import type { Timeline } from './types';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NOW = Date.parse('2030-01-31T12:00:00Z');
const DAY_RANGE = { from: NOW - DAY, until: NOW };

describe('scale', () => {
  test('a zoom keeps the moment under the pointer where it is', () => {
    for (const share of [0, 0.3, 0.5, 1]) {
      const at = timeAt(share * 1000, DAY_RANGE, 1000);
      const closer = zoom(DAY_RANGE, 2, share, NOW);
      expect(closer.until - closer.from).toBeCloseTo(DAY / 2, -1);
      expect(position(at, closer, 1000)).toBeCloseTo(share * 1000, 1);
    }
  });

  test('a zoom stays within the shortest and the longest range', () => {
    let range = DAY_RANGE;
    for (let times = 0; times < 40; times++) range = zoom(range, 2, 0.5, NOW);
    expect(range.until - range.from).toBe(SHORTEST);
    for (let times = 0; times < 40; times++) range = zoom(range, 0.5, 0.5, NOW);
    expect(range.until - range.from).toBe(LONGEST);
  });

  test('a pan moves by a share of the range, and not beyond what the server answers', () => {
    expect(pan(DAY_RANGE, -0.5, NOW)).toEqual({ from: NOW - 1.5 * DAY, until: NOW - 0.5 * DAY });
    let range = DAY_RANGE;
    for (let times = 0; times < 1000; times++) range = pan(range, 1, NOW);
    expect(range.until).toBe(NOW + 30 * DAY);
    expect(range.until - range.from).toBe(DAY);
    expect(bounded({ from: 0, until: DAY }, NOW).from).toBeGreaterThan(NOW - 400 * DAY);
  });

  test('what is loaded covers the range and small moves of it', () => {
    const loaded = toLoad(DAY_RANGE, NOW);
    expect(covers(loaded, DAY_RANGE)).toBe(true);
    expect(covers(loaded, pan(DAY_RANGE, -0.2, NOW))).toBe(true);
    expect(covers(loaded, pan(DAY_RANGE, -3, NOW))).toBe(false);
    expect(loaded.until - loaded.from).toBeLessThan(2.6 * DAY);
  });

  test('ticks are on full hours or days, inside the range and far enough apart', () => {
    for (const length of [10 * 60_000, HOUR, 6 * HOUR, DAY, 7 * DAY, 50 * DAY]) {
      const range = { from: NOW - length, until: NOW };
      const found = ticks(range, 800);
      expect(found.length).toBeGreaterThan(0);
      expect(found.length).toBeLessThanOrEqual(11);
      for (const tick of found) {
        expect(tick.at).toBeGreaterThanOrEqual(range.from);
        expect(tick.at).toBeLessThanOrEqual(range.until);
        expect(new Date(tick.at).getSeconds()).toBe(0);
      }
    }
  });

  test('the recent range shows the last day and some hours ahead', () => {
    expect(recent(NOW)).toEqual({ from: NOW - DAY, until: NOW + 4 * HOUR });
  });
});

function block(from: number, until: number, devices: number[], more: Partial<Block> = {}): Block {
  return {
    kind: 'ran', job_id: 1, label: '1.0.1', user: 'ann', name: '', node_id: 'n1', devices, from, until, certain: until,
    failed: false, cause: null, gpus: 1, lane: 0, lanes: 1, ...more,
  };
}

describe('rows', () => {
  test('attempts that share a device stand in lanes, others have all of it', () => {
    const blocks = [block(0, 10, [0]), block(5, 15, [0]), block(12, 20, [0]), block(30, 40, [0]), block(0, 40, [1])];
    layLanes(blocks);
    const places = blocks.map(({ from, devices, lane, lanes }) => [from, devices[0], lane, lanes]);
    expect(places).toContainEqual([0, 0, 0, 2]);
    expect(places).toContainEqual([5, 0, 1, 2]);
    expect(places).toContainEqual([12, 0, 0, 2]);
    expect(places).toContainEqual([30, 0, 0, 1]);
    expect(places).toContainEqual([0, 1, 0, 1]);
  });

  test('a block on several devices has the same lane on each of them', () => {
    const wide = block(5, 15, [0, 1]);
    layLanes([block(0, 10, [0]), wide, block(6, 9, [1])]);
    expect(wide.lane).toBe(1);
  });

  test('a planned start has the place of the attempt that ends by then', () => {
    const runs = block(0, 100, [0], { kind: 'runs', certain: 50 });
    const planned = block(100, 200, [0], { kind: 'reservation', certain: 100 });
    layLanes([runs, planned]);
    expect([runs.lane, planned.lane, runs.lanes, planned.lanes]).toEqual([0, 0, 1, 1]);
  });

  const answer: Timeline = {
    since: new Date(NOW - DAY).toISOString(), until: new Date(NOW).toISOString(), now: new Date(NOW).toISOString(),
    nodes: [
      { node_id: 'n1', pool: 'p', status: 'ready', devices: [{ index: 0, model: 'A' }, { index: 1, model: 'A' }], drained_at: null, drain_reason: '' },
      { node_id: 'n2', pool: 'p', status: 'ready', devices: [], drained_at: null, drain_reason: '' },
    ],
    attempts: [
      { attempt_id: '7.0.1', job_id: 7, task_index: 0, user_id: 'ann', tenant_id: 'lab', name: 'x', status: 'running', node_id: 'n1', devices: [0, 1], gpu: 2, since: new Date(NOW - HOUR).toISOString(), ended_at: null, ends_by: null, cause: null, failed: false },
    ],
    planned: [], windows: [], truncated: true, bin_s: 900,
    load: [{ node_id: 'n1', bins: [[2, 5, 900, 0]] }],
    planned_known: true, complete: true, node_count: 2, next_cursor: null,
  };

  test('a running attempt without a limit lasts until now, and sums become shares of the GPUs', () => {
    const [first] = nodesOf(answer, NOW);
    expect(first?.blocks[0]).toMatchObject({ kind: 'runs', until: NOW, devices: [0, 1] });
    expect(first?.load).toEqual([{ from: NOW - DAY + 1_800_000, until: NOW - DAY + 2_700_000, share: 0.5, attempts: 5 }]);
  });

  test('devices are rows of their own while their node is open', () => {
    const nodes = nodesOf(answer, NOW);
    expect(rowsOf(nodes, new Set()).map((row) => row.label)).toEqual(['n1', 'n2']);
    const rows = rowsOf(nodes, new Set(['n1', 'n2']));
    expect(rows.map((row) => row.label)).toEqual(['n1', 'GPU 0', 'GPU 1', 'n2', 'No GPU']);
    expect(heightOf(rows)).toBe(30 + 22 + 22 + 30 + 22);
    expect(visibleRows(rows, 35, 60).map((row) => row.label)).toEqual(['GPU 0', 'GPU 1']);
  });

  test('a block fills the strips of its devices in the row of its node', () => {
    const [first] = nodesOf(answer, NOW);
    const [row] = rowsOf([first!], new Set());
    expect(placeIn(first!.blocks[0]!, row!, first!.node)).toEqual([{ top: 3, height: 24 }]);
  });
});
