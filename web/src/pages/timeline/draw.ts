/** Drawing of the timeline on canvas: axis, grid, blocks, windows and the line of now. */

import { token, type Theme } from '../../state/theme';
import { userCanvasColour } from '../../state/userColours';
import { placeIn, visibleRows, type Block, type NodeData, type Row } from './rows';
import { position, ticks, type Range } from './scale';

export const AXIS_HEIGHT = 34;

export interface Scene {
  nodes: ReadonlyMap<string, NodeData>;
  rows: readonly Row[];
  range: Range;
  now: number;
  theme: Theme;
  scrollTop: number;
  /** The block below the pointer. */
  active: Block | null;
}

interface Colours {
  text: string;
  text3: string;
  line: string;
  surface: string;
  surface2: string;
  accent: string;
  red: string;
  purple: string;
  amber: string;
  font: string;
}

function coloursOf(): Colours {
  return {
    text: token('--text'),
    text3: token('--text-3'),
    line: token('--line'),
    surface: token('--surface'),
    surface2: token('--surface-2'),
    accent: token('--accent-text'),
    red: token('--red'),
    purple: token('--purple'),
    amber: token('--amber'),
    font: token('--font'),
  };
}

/** The context of a canvas of that size in CSS pixels, sharp on every screen. */
export function prepared(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext('2d');
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}

export function drawAxis(context: CanvasRenderingContext2D, scene: Scene, width: number): void {
  const colours = coloursOf();
  const { range, now } = scene;
  context.font = `11px ${colours.font}`;
  context.textBaseline = 'middle';
  const marks = ticks(range, width);
  let shown = '';
  for (const { at, isDay } of marks) {
    const x = Math.round(position(at, range, width)) + 0.5;
    const date = new Date(at).toLocaleDateString('en-US', { weekday: 'short', month: 'short', day: 'numeric' });
    if (date !== shown) {
      context.fillStyle = colours.text;
      context.fillText(date, x + 4, 10);
      shown = date;
    }
    if (!isDay || marks.length < 2 || range.until - range.from < 2 * 86_400_000) {
      context.fillStyle = colours.text3;
      context.fillText(new Date(at).toLocaleTimeString('en-US', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }), x + 4, 25);
    }
    context.fillStyle = colours.line;
    context.fillRect(x - 0.5, isDay ? 0 : 18, 1, AXIS_HEIGHT);
  }
  const x = position(now, range, width);
  if (x < 0 || x > width) return;
  const half = 17;
  const middle = Math.min(width - half, Math.max(half, x));
  context.fillStyle = colours.accent;
  context.beginPath();
  context.roundRect(middle - half, 17, 2 * half, 16, 4);
  context.fill();
  context.fillStyle = colours.surface;
  context.textAlign = 'center';
  context.fillText('now', middle, 25.5);
  context.textAlign = 'left';
}

export function drawRows(context: CanvasRenderingContext2D, scene: Scene, width: number, height: number): void {
  const colours = coloursOf();
  const { range, now, rows, scrollTop } = scene;
  const visible = visibleRows(rows, scrollTop, scrollTop + height);
  for (const row of visible) {
    const top = row.y - scrollTop;
    if (row.device !== null) {
      context.fillStyle = colours.surface2;
      context.fillRect(0, top, width, row.height);
    }
    context.fillStyle = colours.line;
    context.fillRect(0, top + row.height - 1, width, 1);
  }
  for (const { at, isDay } of ticks(range, width)) {
    context.fillStyle = colours.line;
    context.globalAlpha = isDay ? 1 : 0.55;
    context.fillRect(Math.round(position(at, range, width)), 0, 1, height);
  }
  context.globalAlpha = 1;
  const hatched = hatch(context, colours.text3);
  for (const row of visible) {
    const data = scene.nodes.get(row.node_id);
    if (data) drawRow(context, scene, data, row, row.y - scrollTop, width, colours, hatched);
  }
  const x = position(now, range, width);
  if (x >= 0 && x <= width) {
    context.fillStyle = colours.accent;
    context.fillRect(Math.round(x) - 1, 0, 2, height);
  }
}

function drawRow(
  context: CanvasRenderingContext2D,
  scene: Scene,
  data: NodeData,
  row: Row,
  top: number,
  width: number,
  colours: Colours,
  hatched: CanvasPattern | null,
): void {
  const { range, now } = scene;
  const span = (from: number, until: number): [number, number] => {
    const left = Math.max(-2, position(from, range, width));
    return [left, Math.min(width + 2, position(until, range, width)) - left];
  };
  for (const kept of data.windows) {
    const [x, w] = span(Date.parse(kept.from), Date.parse(kept.until));
    const colour = kept.kind === 'maintenance' ? colours.amber : colours.purple;
    context.globalAlpha = 0.14;
    context.fillStyle = colour;
    context.fillRect(x, top, w, row.height - 1);
    context.globalAlpha = 0.8;
    context.fillRect(x, top, w, 2);
    context.globalAlpha = 1;
    if (row.device === null && w > 60) {
      context.font = `11px ${colours.font}`;
      context.textBaseline = 'middle';
      context.fillStyle = colour;
      context.fillText(cut(context, kept.name || kept.kind, w - 10), Math.max(0, x) + 5, top + row.height / 2);
    }
  }
  if (data.node.drained_at !== null) {
    const [x, w] = span(Date.parse(data.node.drained_at), range.until);
    context.fillStyle = colours.amber;
    context.globalAlpha = 0.09;
    context.fillRect(x, top, w, row.height - 1);
    context.globalAlpha = 1;
  }
  if (row.device === null) {
    for (const part of data.load) {
      const [x, w] = span(part.from, part.until);
      const high = Math.max(2, (row.height - 6) * part.share);
      context.fillStyle = colours.text3;
      context.globalAlpha = 0.5;
      context.fillRect(x, top + row.height - 3 - high, Math.max(1, w - 1), high);
      context.globalAlpha = 1;
    }
  }
  for (const block of data.blocks) {
    if (block.until < range.from || block.from > range.until) continue;
    for (const place of placeIn(block, row, data.node)) {
      drawBlock(context, scene, block, { ...place, top: top + place.top }, span, colours, hatched, now, row.device !== null);
    }
  }
}

function drawBlock(
  context: CanvasRenderingContext2D,
  scene: Scene,
  block: Block,
  place: { top: number; height: number },
  span: (from: number, until: number) => [number, number],
  colours: Colours,
  hatched: CanvasPattern | null,
  now: number,
  withText: boolean,
): void {
  const colour = userCanvasColour(block.user, scene.theme);
  const { top, height } = place;
  const isPlanned = block.kind === 'reservation' || block.kind === 'claim';
  const [x, solid] = span(block.from, isPlanned ? block.from : block.certain);
  const radius = Math.min(3, height / 3);
  if (!isPlanned) {
    context.fillStyle = colour;
    context.globalAlpha = block.kind === 'ran' ? 0.85 : 1;
    shape(context, x, top, Math.max(1.5, solid), height, radius);
    context.globalAlpha = 1;
  }
  if (isPlanned || block.until > now) {
    const [ahead, w] = span(isPlanned ? block.from : block.certain, block.until);
    context.globalAlpha = 0.22;
    context.fillStyle = colour;
    shape(context, ahead, top, Math.max(1.5, w), height, radius);
    context.globalAlpha = 1;
    if (isPlanned) {
      if (hatched) {
        context.fillStyle = hatched;
        shape(context, ahead, top, Math.max(1.5, w), height, radius);
      }
      context.strokeStyle = block.kind === 'claim' ? colours.purple : colour;
      context.lineWidth = 1.5;
      context.beginPath();
      context.roundRect(ahead + 0.75, top + 0.75, Math.max(1, w - 1.5), Math.max(1, height - 1.5), radius);
      context.stroke();
    }
  }
  const wide = isPlanned ? span(block.from, block.until)[1] : solid;
  if ((block.failed || block.cause === 'preempted' || isOtherFailure(block.cause)) && wide > 3 && height > 3) {
    context.fillStyle = block.cause === 'preempted' ? colours.purple : colours.red;
    context.fillRect(x + solid - 3, top, 3, height);
    context.fillStyle = colours.surface;
    context.fillRect(x + solid - 4, top, 1, height);
  }
  // A running attempt that began a moment ago has its text in the part that is still ahead.
  const isAhead = isPlanned || (wide <= 34 && block.until > now);
  const [textFrom, room] = isAhead ? span(Math.max(block.from, isPlanned ? 0 : now), block.until) : [x, wide];
  if (withText && height >= 12 && room > 34) {
    const from = Math.max(0, textFrom);
    context.font = `11px ${colours.font}`;
    context.textBaseline = 'middle';
    context.fillStyle = isAhead ? colours.text : isBright(colour) ? '#0e1116' : '#ffffff';
    const text = block.name ? `${block.job_id} ${block.name}` : String(block.job_id);
    context.fillText(cut(context, text, textFrom + room - from - 10), from + 5, top + height / 2 + 0.5);
  }
  if (scene.active && scene.active.label === block.label && scene.active.kind === block.kind) {
    const [left, w] = span(block.from, block.until);
    context.strokeStyle = colours.text;
    context.lineWidth = 1.5;
    context.strokeRect(left - 0.5, top - 0.5, Math.max(3, w) + 1, height + 1);
  }
}

/** Whether dark text is easier to read on this colour (#rrggbb) than white text. */
function isBright(colour: string): boolean {
  const [red, green, blue] = [1, 3, 5].map((at) => (Number.parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.19;
}

/** Causes other than an end by itself, a cancellation or a preemption. */
export function isOtherFailure(cause: string | null): boolean {
  return cause !== null && !['exited', 'cancelled', 'preempted'].includes(cause);
}

function shape(context: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, radius: number): void {
  context.beginPath();
  context.roundRect(x, y, w, h, w > 6 ? radius : 0);
  context.fill();
}

function hatch(context: CanvasRenderingContext2D, colour: string): CanvasPattern | null {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 8;
  const pen = tile.getContext('2d');
  if (!pen) return null;
  pen.strokeStyle = colour;
  pen.globalAlpha = 0.55;
  pen.lineWidth = 1.5;
  for (const shift of [-8, 0, 8]) {
    pen.beginPath();
    pen.moveTo(shift, 8);
    pen.lineTo(shift + 8, 0);
    pen.stroke();
  }
  return context.createPattern(tile, 'repeat');
}

function cut(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (width < 8) return '';
  if (context.measureText(text).width <= width) return text;
  let short = text;
  while (short.length > 0 && context.measureText(`${short}…`).width > width) short = short.slice(0, -1);
  return short ? `${short}…` : '';
}

/** The block at a point of the rows' canvas. Small blocks are found within 2 pixels. */
export function blockAt(scene: Scene, x: number, y: number, width: number): { block: Block; row: Row } | null {
  const at = y + scene.scrollTop;
  const row = visibleRows(scene.rows, at, at).find((one) => at >= one.y && at < one.y + one.height);
  const data = row && scene.nodes.get(row.node_id);
  if (!row || !data) return null;
  for (const block of [...data.blocks].reverse()) {
    if (x < position(block.from, scene.range, width) - 2 || x > position(block.until, scene.range, width) + 2) continue;
    for (const place of placeIn(block, row, data.node)) {
      const top = row.y + place.top;
      if (at >= top - 1 && at <= top + place.height + 1) return { block, row };
    }
  }
  return null;
}
