/** Drawing of the dense GPU map. Small cells are written as pixels: 80,000 of them take a few milliseconds, also without
 * a graphics card. Large ones, of which few are visible, show allocation, utilization and state in detail. */

import { userCanvasColour } from '../../state/userColours';
import { EXTERNAL, FREE, RESERVED, UNHEALTHY, type Cluster } from '../../state/overview';
import { token, type Theme } from '../../state/theme';
import { cellAt, tileAt, type MapLayout, type View } from './layout';

/** Steps of brightness for the busy percentage. */
const LEVELS = 5;
const UNKNOWN_LEVEL = 3;
const DIMMED = 0.1;
const DETAILED_FROM = 10;
const HOLDERS_FROM = 44;

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
  const shown = visibleTiles(layout, view);
  const size = layout.cell * view.scale;
  if (size < DETAILED_FROM) paintPixels(context, drawing, colours, shown, ratio);
  context.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.dx, ratio * view.dy);
  if (size >= DETAILED_FROM) {
    fillCells(context, drawing, colours, shown);
    drawMarks(context, drawing, colours, shown, size);
  }
  if (layout.label > 0 || size >= DETAILED_FROM) drawNames(context, drawing, colours, shown);
  if (size >= HOLDERS_FROM) drawHolders(context, drawing, colours, shown);
  if (drawing.active !== null) outline(context, drawing, colours, drawing.active);
}

function visibleTiles(layout: MapLayout, view: View): [first: number, end: number] {
  const step = layout.tileHeight + layout.tileGap;
  const first = Math.max(0, Math.floor(-view.dy / view.scale / step));
  const last = Math.ceil((layout.height - view.dy) / view.scale / step);
  return [first * layout.perRow, Math.min(layout.nodes.length, (last + 1) * layout.perRow)];
}

type Rgb = [red: number, green: number, blue: number];

/** A colour of CSS as numbers. */
function rgb(context: CanvasRenderingContext2D, colour: string): Rgb {
  context.fillStyle = '#000000';
  context.fillStyle = colour;
  const value = Number.parseInt(String(context.fillStyle).slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** An opaque pixel: the colour over the ground with this opacity, as ImageData keeps it. */
function pixel([red, green, blue]: Rgb, [r, g, b]: Rgb, opacity: number): number {
  const mix = (over: number, under: number) => Math.round(over * opacity + under * (1 - opacity));
  return ((255 << 24) | (mix(blue, b) << 16) | (mix(green, g) << 8) | mix(red, r)) >>> 0;
}

function paintPixels(
  context: CanvasRenderingContext2D,
  { cluster, layout, view, theme, user }: Drawing,
  colours: Palette,
  [first, end]: [number, number],
  ratio: number,
): void {
  const { width, height } = context.canvas;
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const ground = rgb(context, colours.surface);
  const solid = (colour: string, opacity = 1) => pixel(rgb(context, colour), ground, opacity);
  const free = solid(colours.free);
  const levels = (colour: string, shown: boolean) =>
    Array.from({ length: LEVELS }, (_, level) => solid(colour, shown ? opacityOf(level) : DIMMED));
  const hidden = levels(colours.hidden, user === null);
  const held = cluster.sections.users.map(({ user_id: name }) => levels(userCanvasColour(name, theme), user === null || name === user));
  const states = [0, solid(colours.red), solid(colours.amber), solid(colours.purple, 0.55)];
  const scale = ratio * view.scale;
  for (let tile = first; tile < end; tile++) {
    const row = layout.nodes[tile] ?? 0;
    const from = cluster.firstDevice[row] ?? 0;
    const to = cluster.firstDevice[row + 1] ?? 0;
    const at = tileAt(layout, tile);
    for (let device = from; device < to; device++) {
      const holder = cluster.user[device] ?? FREE;
      const state = cluster.state[device] ?? 0;
      let colour = free;
      if (state === UNHEALTHY || state === EXTERNAL || (state === RESERVED && holder === FREE)) colour = states[state] ?? free;
      else if (holder !== FREE) colour = (held[holder] ?? hidden)[levelOf(cluster.busy[device] ?? -1)] ?? free;
      const cell = cellAt(layout, device - from);
      const left = Math.max(0, Math.round((at.x + cell.x) * scale + ratio * view.dx));
      const right = Math.min(width, Math.round((at.x + cell.x + layout.cell) * scale + ratio * view.dx));
      const bottom = Math.min(height, Math.round((at.y + cell.y + layout.cell) * scale + ratio * view.dy));
      for (let y = Math.max(0, Math.round((at.y + cell.y) * scale + ratio * view.dy)); y < bottom; y++) {
        if (right > left) pixels.fill(colour, y * width + left, y * width + right);
      }
    }
  }
  context.putImageData(image, 0, 0);
}

function fillCells(
  context: CanvasRenderingContext2D,
  { cluster, layout, view, theme, user }: Drawing,
  colours: Palette,
  [first, end]: [number, number],
): void {
  const groups = new Map<string, Path2D>();
  // A layout of small cells has no space between them: zooming makes some.
  const gap = layout.cellGap > 0 ? 0 : 0.75 / view.scale;
  const edge = layout.cell - gap;
  const rect = (style: string, x: number, y: number, width: number, height: number) => {
    let path = groups.get(style);
    if (!path) groups.set(style, (path = new Path2D()));
    path.rect(x, y, width, height);
  };
  const { users } = cluster.sections;
  const bases = users.map(({ user_id }) => userCanvasColour(user_id, theme));
  const wanted = users.map(({ user_id }) => user === null || user_id === user);
  const styles = new Map<number, string>();
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
        rect(colours.free, x, y, edge, edge);
        continue;
      }
      const busy = cluster.busy[device] ?? -1;
      const level = levelOf(busy);
      const key = holder * 8 + level;
      let style = styles.get(key);
      if (style === undefined) {
        const dimmed = holder >= 0 ? !wanted[holder] : user !== null;
        const opacity = dimmed ? DIMMED : opacityOf(0);
        style = `${holder >= 0 ? (bases[holder] ?? colours.hidden) : colours.hidden}|${opacity}`;
        styles.set(key, style);
      }
      const part = Math.max(0.2, cluster.allocated[device] ?? 1);
      if (part < 1) rect(colours.free, x, y, edge, edge);
      rect(style, x, y, edge * part, edge);
      if (busy > 0 && !style.endsWith(`|${DIMMED}`)) {
        const high = (edge * busy) / 100;
        rect(`${style.split('|')[0]}|1`, x, y + edge - high, edge * part, high);
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
  const wide = layout.tileWidth * view.scale;
  if (wide < 40) return;
  // Names keep their size on the screen. Where the layout has no line for them, they lie on the first cells.
  const size = 10.5 / view.scale;
  const inside = layout.label === 0;
  context.font = `${size}px ${token('--font')}`;
  context.textBaseline = 'alphabetic';
  for (let tile = first; tile < end; tile++) {
    const row = layout.nodes[tile] ?? 0;
    const status = cluster.nodes.status[row];
    const at = tileAt(layout, tile);
    const mark = status === 'ready' ? '' : status === 'offline' ? '■ ' : '▲ ';
    const text = fitted(context, `${mark}${cluster.nodes.name[row] ?? ''}`, layout.tileWidth + (inside ? 0 : layout.tileGap - 2));
    if (inside) {
      context.globalAlpha = 0.85;
      context.fillStyle = colours.surface;
      context.fillRect(at.x, at.y, context.measureText(text).width + size * 0.6, size * 1.35);
      context.globalAlpha = 1;
    }
    context.fillStyle = status === 'ready' ? (inside ? colours.text : colours.muted) : status === 'offline' ? colours.red : colours.amber;
    context.fillText(text, inside ? at.x + size * 0.25 : at.x, inside ? at.y + size : at.y + layout.label - 4);
  }
}

/** Users in cells that are large enough. */
function drawHolders(
  context: CanvasRenderingContext2D,
  { cluster, layout, view }: Drawing,
  colours: Palette,
  [first, end]: [number, number],
): void {
  const size = 10.5 / view.scale;
  context.font = `${size}px ${token('--font')}`;
  context.textBaseline = 'alphabetic';
  for (let tile = first; tile < end; tile++) {
    const row = layout.nodes[tile] ?? 0;
    const from = cluster.firstDevice[row] ?? 0;
    const at = tileAt(layout, tile);
    for (let device = from; device < (cluster.firstDevice[row + 1] ?? 0); device++) {
      const name = cluster.holder(device);
      if (name === null) continue;
      const cell = cellAt(layout, device - from);
      const text = fitted(context, name, layout.cell - size);
      const y = at.y + cell.y + layout.cell - size * 1.6;
      context.globalAlpha = 0.85;
      context.fillStyle = colours.surface;
      context.fillRect(at.x + cell.x, y, context.measureText(text).width + size * 0.6, size * 1.35);
      context.globalAlpha = 1;
      context.fillStyle = colours.text;
      context.fillText(text, at.x + cell.x + size * 0.25, y + size);
    }
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
