/** Drawing of the dense GPU map. Cells of one colour are filled together: 80,000 cells take some 20 ms. */

import { userCanvasColour } from '../../format';
import { EXTERNAL, FREE, RESERVED, UNHEALTHY, type Cluster } from '../../state/overview';
import { token, type Theme } from '../../state/theme';
import { cellAt, tileAt, type MapLayout, type View } from './layout';

/** Steps of brightness for the busy percentage. */
const LEVELS = 5;
const UNKNOWN_LEVEL = 3;

export interface Drawing {
  cluster: Cluster;
  layout: MapLayout;
  view: View;
  theme: Theme;
  /** Only cells of this user are in full colour. */
  user: string | null;
  /** The device under the pointer or the keyboard. */
  active: number | null;
}

interface Palette {
  free: string;
  hidden: string;
  surface: string;
  text: string;
  muted: string;
  focus: string;
  red: string;
  amber: string;
  purple: string;
}

function palette(): Palette {
  return {
    free: token('--surface-3'),
    hidden: token('--gray'),
    surface: token('--surface'),
    text: token('--text'),
    muted: token('--text-3'),
    focus: token('--focus'),
    red: token('--red'),
    amber: token('--amber'),
    purple: token('--purple'),
  };
}

export function levelOf(busy: number): number {
  return busy < 0 ? UNKNOWN_LEVEL : Math.min(LEVELS - 1, Math.floor((busy / 100) * LEVELS));
}

/** Opacity of a level: an idle GPU is pale, a busy one has its full colour. */
export function opacityOf(level: number): number {
  return 0.32 + (0.68 * level) / (LEVELS - 1);
}

export function draw(canvas: HTMLCanvasElement, drawing: Drawing): void {
  const { layout, view } = drawing;
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(layout.width * ratio);
  const height = Math.round(Math.max(1, layout.height) * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext('2d');
  if (!context) return;
  const colours = palette();
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  context.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.dx, ratio * view.dy);
  const shown = visibleTiles(layout, view);
  const size = layout.cell * view.scale;
  fillCells(context, drawing, colours, shown, size);
  if (size >= 4) drawMarks(context, drawing, colours, shown, size);
  if (layout.label > 0 || size >= 14) drawNames(context, drawing, colours, shown);
  if (drawing.active !== null) outline(context, drawing, colours, drawing.active);
}

function visibleTiles(layout: MapLayout, view: View): [first: number, end: number] {
  const step = layout.tileHeight + layout.tileGap;
  const first = Math.max(0, Math.floor(-view.dy / view.scale / step));
  const last = Math.ceil((layout.height - view.dy) / view.scale / step);
  return [first * layout.perRow, Math.min(layout.nodes.length, (last + 1) * layout.perRow)];
}

function fillCells(
  context: CanvasRenderingContext2D,
  { cluster, layout, theme, user }: Drawing,
  colours: Palette,
  [first, end]: [number, number],
  size: number,
): void {
  const groups = new Map<string, Path2D>();
  const rect = (style: string, x: number, y: number, width: number, height: number) => {
    let path = groups.get(style);
    if (!path) groups.set(style, (path = new Path2D()));
    path.rect(x, y, width, height);
  };
  const { users } = cluster.sections;
  const bases = users.map(({ user_id }) => userCanvasColour(user_id, theme));
  const wanted = users.map(({ user_id }) => user === null || user_id === user);
  const styles = new Map<number, string>();
  const detailed = size >= 10;
  for (let tile = first; tile < end; tile++) {
    const row = layout.nodes[tile] ?? 0;
    const from = cluster.firstDevice[row] ?? 0;
    const to = cluster.firstDevice[row + 1] ?? 0;
    const at = tileAt(layout, tile);
    for (let device = from; device < to; device++) {
      const cell = cellAt(layout, device - from);
      const x = at.x + cell.x;
      const y = at.y + cell.y;
      const holder = cluster.user[device] ?? FREE;
      if (holder === FREE) {
        rect(colours.free, x, y, layout.cell, layout.cell);
        continue;
      }
      const busy = cluster.busy[device] ?? -1;
      const level = levelOf(busy);
      const key = holder * 8 + level;
      let style = styles.get(key);
      if (style === undefined) {
        const dimmed = holder >= 0 ? !wanted[holder] : user !== null;
        const opacity = dimmed ? 0.1 : detailed ? opacityOf(0) : opacityOf(level);
        style = `${holder >= 0 ? (bases[holder] ?? colours.hidden) : colours.hidden}|${opacity}`;
        styles.set(key, style);
      }
      const part = detailed ? Math.max(0.2, cluster.allocated[device] ?? 1) : 1;
      if (part < 1) rect(colours.free, x, y, layout.cell, layout.cell);
      rect(style, x, y, layout.cell * part, layout.cell);
      if (detailed && busy > 0 && !style.endsWith('|0.1')) {
        const high = (layout.cell * busy) / 100;
        rect(`${style.split('|')[0]}|1`, x, y + layout.cell - high, layout.cell * part, high);
      }
    }
  }
  for (const [style, path] of groups) {
    const [colour, opacity] = style.split('|');
    context.globalAlpha = opacity === undefined ? 1 : Number(opacity);
    context.fillStyle = colour ?? '';
    context.fill(path);
  }
  context.globalAlpha = 1;
}

/** States differ by shape: a cross for unhealthy, a triangle for an external process, a frame for reserved. */
function drawMarks(
  context: CanvasRenderingContext2D,
  { cluster, layout, view }: Drawing,
  colours: Palette,
  [first, end]: [number, number],
  size: number,
): void {
  const cross = new Path2D();
  const triangle = new Path2D();
  const frame = new Path2D();
  const edge = layout.cell;
  for (let tile = first; tile < end; tile++) {
    const row = layout.nodes[tile] ?? 0;
    const from = cluster.firstDevice[row] ?? 0;
    const to = cluster.firstDevice[row + 1] ?? 0;
    const at = tileAt(layout, tile);
    for (let device = from; device < to; device++) {
      const state = cluster.state[device];
      if (!state) continue;
      const cell = cellAt(layout, device - from);
      const x = at.x + cell.x;
      const y = at.y + cell.y;
      if (state === UNHEALTHY) {
        cross.moveTo(x + edge * 0.2, y + edge * 0.2);
        cross.lineTo(x + edge * 0.8, y + edge * 0.8);
        cross.moveTo(x + edge * 0.8, y + edge * 0.2);
        cross.lineTo(x + edge * 0.2, y + edge * 0.8);
      } else if (state === EXTERNAL) {
        triangle.moveTo(x + edge / 2, y + edge * 0.2);
        triangle.lineTo(x + edge * 0.85, y + edge * 0.8);
        triangle.lineTo(x + edge * 0.15, y + edge * 0.8);
        triangle.closePath();
      } else if (state === RESERVED) {
        const inset = 0.75 / view.scale;
        frame.rect(x + inset, y + inset, edge - 2 * inset, edge - 2 * inset);
      }
    }
  }
  context.lineWidth = Math.max(1.2, size / 9) / view.scale;
  context.strokeStyle = colours.red;
  context.stroke(cross);
  context.fillStyle = colours.amber;
  context.fill(triangle);
  context.lineWidth = 1.5 / view.scale;
  context.strokeStyle = colours.purple;
  context.stroke(frame);
}

function drawNames(
  context: CanvasRenderingContext2D,
  { cluster, layout, view }: Drawing,
  colours: Palette,
  [first, end]: [number, number],
): void {
  const wide = layout.tileWidth + layout.tileGap - 2;
  // Where the layout has no line for names, they appear in the space that zooming has made.
  const size = layout.label > 0 ? 11 / Math.max(1, view.scale * 0.75) : (layout.tileGap + 1) * 0.8;
  if (size * view.scale < 7) return;
  context.font = `${size}px ${token('--font')}`;
  context.textBaseline = 'alphabetic';
  for (let tile = first; tile < end; tile++) {
    const row = layout.nodes[tile] ?? 0;
    const status = cluster.nodes.status[row];
    const at = tileAt(layout, tile);
    const y = layout.label > 0 ? at.y + layout.label - 4 : at.y - 0.15;
    context.fillStyle = status === 'ready' ? colours.muted : status === 'offline' ? colours.red : colours.amber;
    const mark = status === 'ready' ? '' : status === 'offline' ? '■ ' : '▲ ';
    context.fillText(fitted(context, `${mark}${cluster.nodes.name[row] ?? ''}`, wide), at.x, y);
  }
}

/** The end of a name tells nodes apart: the beginning is cut off. */
function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let kept = text;
  while (kept.length > 1 && context.measureText(`…${kept}`).width > width) kept = kept.slice(1);
  return `…${kept}`;
}

function outline(context: CanvasRenderingContext2D, drawing: Drawing, colours: Palette, device: number): void {
  const { layout, view, cluster } = drawing;
  const row = cluster.nodeOf[device] ?? 0;
  const tile = layout.nodes.indexOf(row);
  if (tile < 0) return;
  const at = tileAt(layout, tile);
  const cell = cellAt(layout, device - (cluster.firstDevice[row] ?? 0));
  const around = 1.5 / view.scale;
  context.lineWidth = 3 / view.scale;
  context.strokeStyle = colours.focus;
  context.strokeRect(at.x + cell.x - around, at.y + cell.y - around, layout.cell + 2 * around, layout.cell + 2 * around);
}
