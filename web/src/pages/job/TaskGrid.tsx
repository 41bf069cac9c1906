/** Canvas with the grid of an array's tasks. A click chooses the tasks of a cell. */

import { useEffect, useRef, useState } from 'preact/hooks';
import type { JobStatus } from '../../api/types';
import { number } from '../../format';
import { theme, token } from '../../state/theme';
import { STATUSES, cellAt, cellOf, countsOf, gridOf, stacked, tasksOf, type Grid } from './arrayGrid';

const HIGHEST = 260;
const COLOURS: Record<JobStatus, string> = {
  pending: '--amber',
  scheduled: '--blue',
  running: '--green',
  preempted: '--purple',
  completed: '--line-strong',
  failed: '--red',
  cancelled: '--surface-3',
};

interface TaskGridProps {
  count: number;
  /** Places in STATUSES; null while they are loaded. */
  statuses: Uint8Array | null;
  /** The array index of a task. */
  labelOf: (task: number) => number;
  onChoose: (first: number, last: number) => void;
}

export function TaskGrid({ count, statuses, labelOf, onChoose }: TaskGridProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState<number | null>(null);
  const shownTheme = theme.value;
  const grid = gridOf(count, Math.max(80, width), HIGHEST);
  useEffect(() => {
    const box = canvas.current?.parentElement;
    if (!box) return;
    const resize = new ResizeObserver(() => setWidth(box.clientWidth));
    resize.observe(box);
    return () => resize.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current && width > 0) draw(canvas.current, grid, statuses);
  }, [statuses, width, count, shownTheme]);
  const at = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    return box ? cellAt(grid, event.clientX - box.left, event.clientY - box.top) : null;
  };
  const all = statuses ? words(countsOf(statuses, 0, count - 1)) : 'loading';
  const place = over === null ? null : cellOf(grid, over);
  return (
    <div class="cells">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`${number(count)} tasks: ${all}. The table below lists them.`}
        style={{ width: `${grid.width}px`, height: `${grid.height}px`, cursor: over === null ? 'default' : 'pointer' }}
        onPointerMove={(event) => setOver(at(event))}
        onPointerLeave={() => setOver(null)}
        onClick={(event) => {
          const cell = at(event);
          if (cell !== null) onChoose(...tasksOf(grid, cell));
        }}
      />
      {place && (
        <span class="cells-over" style={{ transform: `translate(${place.x}px, ${place.y}px)`, width: `${grid.cell}px`, height: `${grid.cell}px` }} />
      )}
      <p class="cells-label">
        {over !== null && statuses ? (
          about(grid, statuses, over, labelOf)
        ) : (
          <span class="muted">
            {grid.perCell === 1 ? 'Point at a cell to see its task; click it for its log.' : `A cell stands for ${number(grid.perCell)} tasks; click it to list them.`}
          </span>
        )}
      </p>
    </div>
  );
}

function about(grid: Grid, statuses: Uint8Array, cell: number, labelOf: (task: number) => number): string {
  const [first, last] = tasksOf(grid, cell);
  const counts = countsOf(statuses, first, last);
  if (first === last) return `Task ${labelOf(first)}: ${STATUSES[statuses[first] ?? 0]}`;
  return `Tasks ${number(labelOf(first))} to ${number(labelOf(last))}: ${words(counts)}`;
}

function words(counts: readonly number[]): string {
  return counts.flatMap((many, status) => (many > 0 ? [`${number(many)} ${STATUSES[status]}`] : [])).join(', ');
}

function draw(element: HTMLCanvasElement, grid: Grid, statuses: Uint8Array | null): void {
  const context = element.getContext('2d');
  if (!context) return;
  const began = performance.now();
  const scale = devicePixelRatio || 1;
  element.width = Math.round(grid.width * scale);
  element.height = Math.round(grid.height * scale);
  context.scale(scale, scale);
  const colours = STATUSES.map((status) => token(COLOURS[status]));
  const ground = token('--surface');
  for (let cell = 0; cell < grid.cells; cell++) {
    const { x, y } = cellOf(grid, cell);
    if (!statuses) {
      context.fillStyle = token('--surface-2');
      context.fillRect(x, y, grid.cell, grid.cell);
    } else if (grid.perCell === 1) {
      const status = statuses[cell] ?? 0;
      drawTask(context, x, y, grid.cell, STATUSES[status], colours[status] ?? ground, ground);
    } else {
      let top = y;
      stacked(countsOf(statuses, ...tasksOf(grid, cell)), grid.cell).forEach((height, status) => {
        if (height === 0) return;
        // Tasks that did not start yet are paler, as single ones are only an outline.
        context.globalAlpha = STATUSES[status] === 'pending' || STATUSES[status] === 'preempted' ? 0.4 : 1;
        context.fillStyle = colours[status] ?? ground;
        context.fillRect(x, top, grid.cell, height);
        top += height;
      });
      context.globalAlpha = 1;
    }
  }
  performance.measure('task-grid', { start: began, detail: { tasks: grid.count } });
}

function drawTask(context: CanvasRenderingContext2D, x: number, y: number, size: number, status: JobStatus | undefined, colour: string, ground: string): void {
  if ((status === 'pending' || status === 'preempted') && size >= 6) {
    // An outline: it differs from running tasks also without colour.
    context.strokeStyle = colour;
    context.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
    return;
  }
  context.fillStyle = colour;
  context.fillRect(x, y, size, size);
  if (status !== 'failed' || size < 8) return;
  context.strokeStyle = ground;
  context.beginPath();
  context.moveTo(x + 3, y + 3);
  context.lineTo(x + size - 3, y + size - 3);
  context.moveTo(x + size - 3, y + 3);
  context.lineTo(x + 3, y + size - 3);
  context.stroke();
}
