/** Grid of the tasks of an array: a cell for each task, or for several neighbours where there are too many. */

import type { JobStatus } from '../../api/types';

/** In the order in which they are counted and stacked in a cell. A task's status is kept as its place here. */
export const STATUSES: readonly JobStatus[] = ['running', 'scheduled', 'pending', 'preempted', 'failed', 'cancelled', 'completed'];

export interface Grid {
  count: number;
  /** Tasks of a cell. */
  perCell: number;
  cells: number;
  columns: number;
  /** Edge of a cell, without the gap. */
  cell: number;
  gap: number;
  width: number;
  height: number;
}

const LARGEST = 16;
const SMALLEST = 4;
/** Of several tasks: high enough for parts of it to be seen. */
const SHARED = 10;

/** The largest cells with which `count` tasks fit into the area. If the smallest do not fit, several tasks share a cell. */
export function gridOf(count: number, width: number, height: number): Grid {
  const sized = (cell: number, cells: number, perCell: number): Grid => {
    const gap = cell >= 6 ? 2 : 1;
    const columns = Math.max(1, Math.min(cells, Math.floor((width + gap) / (cell + gap))));
    return { count, perCell, cells, columns, cell, gap, width, height: Math.max(1, Math.ceil(cells / columns)) * (cell + gap) - gap };
  };
  for (let cell = LARGEST; cell >= SMALLEST; cell--) {
    const grid = sized(cell, count, 1);
    if (grid.height <= height) return grid;
  }
  const room = sized(SHARED, count, 1).columns * Math.max(1, Math.floor((height + 2) / (SHARED + 2)));
  const perCell = Math.ceil(count / room);
  return sized(SHARED, Math.ceil(count / perCell), perCell);
}

export function cellOf(grid: Grid, index: number): { x: number; y: number } {
  const size = grid.cell + grid.gap;
  return { x: (index % grid.columns) * size, y: Math.floor(index / grid.columns) * size };
}

/** The cell at a point of the grid; null between and behind the cells. */
export function cellAt(grid: Grid, x: number, y: number): number | null {
  const size = grid.cell + grid.gap;
  const [column, row] = [Math.floor(x / size), Math.floor(y / size)];
  if (x < 0 || y < 0 || column >= grid.columns || x - column * size >= grid.cell || y - row * size >= grid.cell) return null;
  const index = row * grid.columns + column;
  return index < grid.cells ? index : null;
}

/** First and last task of a cell. */
export function tasksOf(grid: Grid, cell: number): [first: number, last: number] {
  return [cell * grid.perCell, Math.min(grid.count, (cell + 1) * grid.perCell) - 1];
}

/** Answer of GET /jobs/{job_id}/task-statuses. */
export interface StatusRuns {
  statuses: JobStatus[];
  runs: [status: number, tasks: number][];
}

/** The status of each task, as its place in STATUSES. */
export function decoded({ statuses, runs }: StatusRuns): Uint8Array {
  const places = statuses.map((status) => STATUSES.indexOf(status));
  const found = new Uint8Array(runs.reduce((sum, [, tasks]) => sum + tasks, 0));
  let at = 0;
  for (const [status, tasks] of runs) found.fill(places[status] ?? 0, at, (at += tasks));
  return found;
}

/** How many tasks from `first` to `last` have each status. */
export function countsOf(statuses: Uint8Array, first: number, last: number): number[] {
  const counts = STATUSES.map(() => 0);
  for (let at = first; at <= Math.min(last, statuses.length - 1); at++) {
    const status = statuses[at] ?? 0;
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

const FAILED = STATUSES.indexOf('failed');

/** Heights of the parts of a cell, in pixels. A failed task is seen even if it is one of thousands. */
export function stacked(counts: readonly number[], height: number): number[] {
  const total = counts.reduce((sum, many) => sum + many, 0);
  if (total === 0) return counts.map(() => 0);
  const least = counts[FAILED] ? Math.min(height, 3) : 0;
  const failed = Math.max(least, ((counts[FAILED] ?? 0) / total) * height);
  const others = total - (counts[FAILED] ?? 0);
  return counts.map((many, status) => (status === FAILED ? failed : others === 0 ? 0 : (many / others) * (height - failed)));
}

/** The index of a task of the array `0-9,20-40:10` by its position; of other jobs the position itself. */
export function indexer(array: string | null): (position: number) => number {
  const ranges = (array ?? '').split(',').flatMap((part) => {
    const [, from, to, step] = /^(\d+)(?:-(\d+)(?::(\d+))?)?$/.exec(part) ?? [];
    if (from === undefined) return [];
    const [first, last, by] = [Number(from), Number(to ?? from), Number(step ?? 1)];
    return [{ first, by, count: Math.floor((last - first) / by) + 1 }];
  });
  return (position) => {
    let left = position;
    for (const { first, by, count } of ranges) {
      if (left < count) return first + left * by;
      left -= count;
    }
    return position;
  };
}
