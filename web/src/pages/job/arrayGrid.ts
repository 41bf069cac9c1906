/** Grid of the tasks of an array: the size of its cells, and which task is where. */

export interface Grid {
  columns: number;
  rows: number;
  /** Edge of a cell, without the gap. */
  cell: number;
  gap: number;
  width: number;
  height: number;
}

const LARGEST = 16;
const SMALLEST = 3;

/** The largest cells with which `count` tasks fit into the area; if the smallest do not fit, the grid becomes higher. */
export function gridOf(count: number, width: number, height: number): Grid {
  for (let cell = LARGEST; ; cell--) {
    const gap = cell >= 6 ? 2 : 1;
    const columns = Math.max(1, Math.floor((width + gap) / (cell + gap)));
    const rows = Math.ceil(count / columns);
    if (cell === SMALLEST || rows * (cell + gap) - gap <= height) {
      return { columns: Math.min(columns, Math.max(1, count)), rows, cell, gap, width, height: Math.max(cell, rows * (cell + gap) - gap) };
    }
  }
}

export function cellOf(grid: Grid, index: number): { x: number; y: number } {
  const size = grid.cell + grid.gap;
  return { x: (index % grid.columns) * size, y: Math.floor(index / grid.columns) * size };
}

/** The task at a point of the grid; null between and behind the cells. */
export function taskAt(grid: Grid, count: number, x: number, y: number): number | null {
  const size = grid.cell + grid.gap;
  const [column, row] = [Math.floor(x / size), Math.floor(y / size)];
  if (x < 0 || y < 0 || column >= grid.columns || x - column * size >= grid.cell || y - row * size >= grid.cell) return null;
  const index = row * grid.columns + column;
  return index < count ? index : null;
}
