import { describe, expect, it } from 'vitest';
import { WHOLE_VIEW, cellAt, clamped, hit, layoutMap, tileAt, zoomed } from './layout';

describe('layoutMap', () => {
  it('fits 80,000 GPUs into a map of 1100 × 600', () => {
    const layout = layoutMap(Array.from({ length: 10_000 }, () => 8), 1100, 600);
    expect(layout.height).toBeLessThanOrEqual(600);
    expect(layout.cell).toBeGreaterThanOrEqual(2);
    expect(layout.label).toBe(0);
  });

  it('shows names where there is room', () => {
    const layout = layoutMap([8, 8, 4, 0], 1100, 600);
    expect(layout.cell).toBe(30);
    expect(layout.label).toBeGreaterThan(0);
    expect(layout.nodes).toEqual([0, 1, 2]);
  });

  it('never breaks on an empty cluster or a narrow place', () => {
    expect(layoutMap([], 300, 600).height).toBe(0);
    expect(layoutMap([62], 10, 600).perRow).toBe(1);
  });
});

describe('hit', () => {
  it('finds every cell by its middle', () => {
    for (const gpus of [1, 2, 8, 16]) {
      const layout = layoutMap(Array.from({ length: 40 }, () => gpus), 700, 400);
      for (const tile of [0, 7, 39]) {
        for (let position = 0; position < gpus; position++) {
          const { x, y } = tileAt(layout, tile);
          const cell = cellAt(layout, position);
          const middle = layout.cell / 2;
          expect(hit(layout, x + cell.x + middle, y + cell.y + middle)).toEqual({ tile, position });
        }
      }
    }
  });

  it('finds nothing beside the tiles', () => {
    const layout = layoutMap([8, 8], 700, 400);
    expect(hit(layout, 690, 5)).toBeNull();
    expect(hit(layout, -1, 5)).toBeNull();
    expect(hit(layout, 5, 399)).toBeNull();
  });
});

describe('zoomed', () => {
  const layout = layoutMap(Array.from({ length: 1000 }, () => 8), 800, 500);

  it('keeps the point under the pointer', () => {
    const view = zoomed(WHOLE_VIEW, 4, 300, 100, layout);
    expect((300 - view.dx) / view.scale).toBeCloseTo(300);
    expect((100 - view.dy) / view.scale).toBeCloseTo(100);
  });

  it('cannot leave the map', () => {
    expect(zoomed(WHOLE_VIEW, 0.1, 300, 200, layout)).toEqual(WHOLE_VIEW);
    expect(clamped({ scale: 2, dx: 50, dy: -99_999 }, layout)).toEqual({ scale: 2, dx: 0, dy: -layout.height });
  });
});
