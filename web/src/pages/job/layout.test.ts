import { describe, expect, it } from 'vitest';
import { cellOf, gridOf, taskAt } from './arrayGrid';
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
    expect(small.cell).toBe(16);
    const large = gridOf(10_000, 800, 300);
    expect(large.cell).toBeLessThan(8);
    expect(large.columns * (large.cell + large.gap) - large.gap).toBeLessThanOrEqual(800);
    expect(large.height).toBeLessThanOrEqual(300);
  });

  it('becomes higher when the smallest cells do not fit', () => {
    const grid = gridOf(200_000, 400, 100);
    expect(grid.cell).toBe(3);
    expect(grid.rows * grid.columns).toBeGreaterThanOrEqual(200_000);
  });

  it('finds the task under the pointer', () => {
    const grid = gridOf(1000, 500, 200);
    for (const index of [0, 1, 499, 999]) {
      const { x, y } = cellOf(grid, index);
      expect(taskAt(grid, 1000, x, y)).toBe(index);
      expect(taskAt(grid, 1000, x + grid.cell - 0.5, y + grid.cell - 0.5)).toBe(index);
      expect(taskAt(grid, 1000, x + grid.cell + 0.5, y)).toBe(null);
    }
    expect(taskAt(grid, 1000, -1, 0)).toBe(null);
    expect(taskAt(grid, 1000, 0, 10_000)).toBe(null);
  });
});
