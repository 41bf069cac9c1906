/** Layout of the dense GPU map: one tile for each node, one cell for each GPU, as large as the place allows. */

export interface MapLayout {
  /** Edge of a cell, and the space around it, in CSS pixels. */
  cell: number;
  cellGap: number;
  /** Columns of cells in a tile. */
  columns: number;
  tileWidth: number;
  tileHeight: number;
  tileGap: number;
  /** Space for the node's name above its cells; 0: no name. */
  label: number;
  perRow: number;
  width: number;
  height: number;
  /** Rows of the cluster that have a tile: nodes without GPUs have none. */
  nodes: readonly number[];
}

const LARGEST_CELL = 30;
const LABEL = 14;
const LABEL_FROM = 12;

/** `gpus`: of each node. The largest cells with which all tiles fit into width and height; at least one pixel. */
export function layoutMap(gpus: readonly number[], width: number, height: number): MapLayout {
  const nodes = gpus.flatMap((count, row) => (count > 0 ? [row] : []));
  const most = nodes.reduce((found, row) => Math.max(found, gpus[row] ?? 0), 1);
  for (let cell = LARGEST_CELL; cell > 1; cell--) {
    const found = withCell(cell, nodes, most, width);
    if (found.height <= height) return found;
  }
  return withCell(1, nodes, most, width);
}

function withCell(cell: number, nodes: readonly number[], most: number, width: number): MapLayout {
  const columns = most <= 4 ? most : most <= 8 ? 4 : Math.ceil(Math.sqrt(most));
  const rows = Math.ceil(most / columns);
  const cellGap = cell >= 5 ? 1 : 0;
  const label = cell >= LABEL_FROM ? LABEL : 0;
  const tileGap = cell >= LABEL_FROM ? 10 : cell >= 5 ? 4 : 1;
  const tileWidth = columns * (cell + cellGap) - cellGap;
  const tileHeight = rows * (cell + cellGap) - cellGap + label;
  const perRow = Math.max(1, Math.floor((width + tileGap) / (tileWidth + tileGap)));
  const lines = Math.ceil(nodes.length / perRow);
  const height = Math.max(0, lines * (tileHeight + tileGap) - tileGap);
  return { cell, cellGap, columns, tileWidth, tileHeight, tileGap, label, perRow, width, height, nodes };
}

/** Left upper corner of the nth tile. */
export function tileAt(layout: MapLayout, tile: number): { x: number; y: number } {
  const { perRow, tileWidth, tileHeight, tileGap } = layout;
  return {
    x: (tile % perRow) * (tileWidth + tileGap),
    y: Math.floor(tile / perRow) * (tileHeight + tileGap),
  };
}

/** Of a cell in its tile: `position` is the place of the GPU on its node. */
export function cellAt(layout: MapLayout, position: number): { x: number; y: number } {
  const step = layout.cell + layout.cellGap;
  return {
    x: (position % layout.columns) * step,
    y: layout.label + Math.floor(position / layout.columns) * step,
  };
}

export interface Hit {
  tile: number;
  position: number;
}

/** The cell at this point; in the space between cells the nearest one of the tile. `null`: no tile is there. */
export function hit(layout: MapLayout, x: number, y: number): Hit | null {
  const { tileWidth, tileHeight, tileGap, perRow, label, columns } = layout;
  if (x < 0 || y < 0) return null;
  const column = Math.floor(x / (tileWidth + tileGap));
  const line = Math.floor(y / (tileHeight + tileGap));
  const tile = line * perRow + column;
  if (column >= perRow || tile >= layout.nodes.length) return null;
  const inX = x - column * (tileWidth + tileGap);
  const inY = y - line * (tileHeight + tileGap);
  if (inX > tileWidth || inY > tileHeight) return null;
  const step = layout.cell + layout.cellGap;
  const rows = Math.round((tileHeight - label + layout.cellGap) / step);
  const cellX = Math.min(columns - 1, Math.floor(inX / step));
  const cellY = Math.min(rows - 1, Math.max(0, Math.floor((inY - label) / step)));
  return { tile, position: cellY * columns + cellX };
}

/** Zoom and pan of the map: a point of the layout is drawn at `x * scale + dx`. */
export interface View {
  scale: number;
  dx: number;
  dy: number;
}

export const WHOLE_VIEW: View = { scale: 1, dx: 0, dy: 0 };
export const LARGEST_SCALE = 24;

/** Zooms around a point of the canvas, and keeps the map in its frame. */
export function zoomed(view: View, factor: number, x: number, y: number, layout: MapLayout): View {
  const scale = Math.min(LARGEST_SCALE, Math.max(1, view.scale * factor));
  const part = scale / view.scale;
  return clamped({ scale, dx: x - (x - view.dx) * part, dy: y - (y - view.dy) * part }, layout);
}

export function clamped(view: View, layout: MapLayout): View {
  const keep = (offset: number, size: number) => Math.min(0, Math.max(size - size * view.scale, offset));
  return { scale: view.scale, dx: keep(view.dx, layout.width), dy: keep(view.dy, layout.height) };
}
