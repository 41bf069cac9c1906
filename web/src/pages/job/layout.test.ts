import { describe, expect, it } from 'vitest';
import { STATUSES, cellAt, cellOf, countsOf, decoded, gridOf, indexer, stacked, tasksOf } from './arrayGrid';
import { layout } from './graphLayout';

const edge = (from: number, to: number) => ({ from, to, kind: 'afterok' });
const columnOf = (made: ReturnType<typeof layout>) => {
  const columns = [...new Set(made.nodes.map((node) => node.x))].sort((a, b) => a - b);
  return Object.fromEntries(made.nodes.map((node) => [node.id, columns.indexOf(node.x)]));
};

describe('layout', () => {
  it('puts every job to the right of all its dependencies', () => {
    expect(columnOf(layout([1, 2, 3, 4], [edge(1, 2), edge(2, 4), edge(1, 4), edge(3, 4)]))).toEqual({ 1: 0, 2: 1, 3: 0, 4: 2 });
  });

  it('lets no two jobs overlap', () => {
    const ids = Array.from({ length: 60 }, (_, index) => index + 1);
    const made = layout(ids, ids.slice(1).map((id) => edge(Math.ceil(id / 3), id)));
    const places = new Set(made.nodes.map(({ x, y }) => `${x} ${y}`));
    expect(places.size).toBe(60);
    expect(made.nodes.every(({ x, y }) => x >= 0 && y >= 0 && x < made.width && y < made.height)).toBe(true);
  });

  it('avoids crossings that can be avoided', () => {
    const made = layout([1, 2, 3, 4], [edge(1, 4), edge(2, 3)]);
    const y = Object.fromEntries(made.nodes.map((node) => [node.id, node.y])) as Record<number, number>;
    expect((y[1]! - y[2]!) * (y[4]! - y[3]!)).toBeGreaterThan(0);
  });

  it('survives cycles, edges to itself and unknown jobs', () => {
    const made = layout([1, 2], [edge(1, 2), edge(2, 1), edge(1, 1), edge(9, 1)]);
    expect(made.nodes.length).toBe(2);
    expect(made.edges.length).toBe(3);
  });

  it('is empty without jobs', () => {
    expect(layout([], []).nodes).toEqual([]);
  });
});

describe('gridOf', () => {
  it('fits the tasks into the area with the largest cells that do', () => {
    const small = gridOf(20, 800, 300);
    expect([small.cell, small.perCell]).toEqual([16, 1]);
    const large = gridOf(5_000, 800, 300);
    expect(large.cell).toBeLessThan(8);
    expect(large.perCell).toBe(1);
    expect(large.columns * (large.cell + large.gap) - large.gap).toBeLessThanOrEqual(800);
    expect(large.height).toBeLessThanOrEqual(300);
  });

  it.each([20_001, 100_000, 1_000_000])('fits %i tasks by sharing cells', (count) => {
    const grid = gridOf(count, 900, 260);
    expect(grid.height).toBeLessThanOrEqual(260);
    expect(grid.cell).toBeGreaterThanOrEqual(8);
    expect(grid.cells * grid.perCell).toBeGreaterThanOrEqual(count);
    expect(tasksOf(grid, 0)[0]).toBe(0);
    expect(tasksOf(grid, grid.cells - 1)[1]).toBe(count - 1);
  });

  it('finds the cell under the pointer', () => {
    const grid = gridOf(1000, 500, 200);
    for (const index of [0, 1, 499, 999]) {
      const { x, y } = cellOf(grid, index);
      expect(cellAt(grid, x, y)).toBe(index);
      expect(cellAt(grid, x + grid.cell - 0.5, y + grid.cell - 0.5)).toBe(index);
      expect(cellAt(grid, x + grid.cell + 0.5, y)).toBe(null);
    }
    expect(cellAt(grid, -1, 0)).toBe(null);
    expect(cellAt(grid, 0, 10_000)).toBe(null);
  });
});

describe('statuses of an array', () => {
  const statuses = decoded({ statuses: ['completed', 'failed', 'pending'], runs: [[0, 4], [1, 1], [0, 2], [2, 3]] });
  const named = (counts: readonly number[]) => Object.fromEntries(STATUSES.map((status, at) => [status, counts[at]]).filter(([, many]) => many));

  it('are decoded from runs and counted', () => {
    expect([...statuses].map((status) => STATUSES[status]).join(' ')).toBe(
      'completed completed completed completed failed completed completed pending pending pending',
    );
    expect(named(countsOf(statuses, 3, 7))).toEqual({ completed: 3, failed: 1, pending: 1 });
    expect(named(countsOf(statuses, 8, 1000))).toEqual({ pending: 2 });
  });

  it('show one failed task of thousands', () => {
    const heights = named(stacked(STATUSES.map((status) => (status === 'completed' ? 5000 : status === 'failed' ? 1 : 0)), 10));
    expect(heights).toEqual({ completed: 7, failed: 3 });
    expect(named(stacked(STATUSES.map((status) => (status === 'failed' ? 9 : 0)), 10))).toEqual({ failed: 10 });
  });

  it('belong to the indices of the array', () => {
    const index = indexer('1,3,5-9:2,100-199');
    expect([0, 1, 2, 3, 4, 5, 104].map(index)).toEqual([1, 3, 5, 7, 9, 100, 199]);
    expect(indexer(null)(7)).toBe(7);
  });
});
