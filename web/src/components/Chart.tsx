/** Chart over time on uPlot. It follows the theme and the width of its place. Import it only from lazy pages. */

import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { number } from '../format';
import { theme, token } from '../state/theme';

export interface Series {
  label: string;
  /** One value for each time; null is a gap. */
  values: readonly (number | null)[];
  /** Name of a custom property of tokens.css; one of --chart-1 … --chart-6 by its place unless given. */
  colour?: string;
  /** Filled down to zero. */
  fill?: boolean;
  dashed?: boolean;
}

export interface ChartProps {
  /** What the chart shows, for screen readers: "GPU utilization". */
  label: string;
  /** Seconds since the epoch, ascending. */
  times: readonly number[];
  series: readonly Series[];
  height?: number;
  format?: (value: number) => string;
  /** Bounds of the vertical axis; from the values unless given. */
  min?: number;
  max?: number;
  /** Called with the chosen range (seconds), when the user drags over the chart. */
  onZoom?: (from: number, to: number) => void;
}

export function Chart(props: ChartProps) {
  const { label, times, series, height = 160, format = number } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const shownTheme = theme.value;
  const shape = JSON.stringify([series.map((one) => [one.label, one.colour, one.fill, one.dashed]), props.min, props.max]);

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const chart = new uPlot(options(latest, element.clientWidth, height), data(latest.current), element);
    plot.current = chart;
    const resize = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [shape, height, shownTheme]);

  useEffect(() => plot.current?.setData(data(latest.current)), [times, series]);

  return (
    <figure class="chart">
      <div class="chart-plot" ref={place} aria-hidden="true" style={{ minHeight: `${height}px` }} />
      <figcaption class="sr-only">{summary(label, series, format)}</figcaption>
    </figure>
  );
}

/** "GPU utilization. node-1: now 40, lowest 0, highest 97." */
export function summary(label: string, series: readonly Series[], format: (value: number) => string): string {
  const sentences = series.map((one) => {
    const known = one.values.filter((value) => value !== null);
    const last = known.at(-1);
    if (last === undefined) return `${one.label}: no values.`;
    const [low, high] = known.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [last, last]);
    return `${one.label}: last ${format(last)}, lowest ${format(low)}, highest ${format(high)}.`;
  });
  return [`${label}.`, ...sentences].join(' ');
}

function data({ times, series }: ChartProps): uPlot.AlignedData {
  return [times as number[], ...series.map((one) => one.values as (number | null)[])];
}

function options(latest: { current: ChartProps }, width: number, height: number): uPlot.Options {
  const { series, min, max, onZoom } = latest.current;
  const written = (value: number | null) => (value === null ? '–' : (latest.current.format ?? number)(value));
  const axis: uPlot.Axis = {
    stroke: token('--text-3'),
    font: `11px ${token('--font')}`,
    grid: { stroke: token('--chart-grid'), width: 1 },
    ticks: { show: false },
    gap: 6,
  };
  return {
    width,
    height,
    padding: [8, 18, 0, 0],
    cursor: { y: false, drag: { x: onZoom !== undefined, y: false, setScale: false }, points: { size: 6 } },
    legend: { show: series.length > 0, live: true, markers: { fill: (_self, index) => colourOf(series[index - 1], index - 1), width: 0 } },
    scales: {
      y: {
        range: (_self, low, high) => {
          const top = max ?? (high > low ? high * 1.05 : high + 1);
          return [min ?? Math.min(0, low), top || 1];
        },
      },
    },
    axes: [
      { ...axis, space: 70, values: hourLabels },
      { ...axis, size: 56, space: 32, values: (_self, ticks) => ticks.map((tick) => written(tick)) },
    ],
    series: [
      { label: 'Time', value: (_self, at) => (at === null ? '' : timeLabel(at)) },
      ...series.map((one, index): uPlot.Series => {
        const colour = colourOf(one, index);
        return {
          label: one.label,
          stroke: colour,
          width: 1.5,
          points: { show: false },
          value: (_self, value) => written(value),
          ...(one.fill ? { fill: `color-mix(in srgb, ${colour} 16%, transparent)` } : {}),
          ...(one.dashed ? { dash: [4, 4] } : {}),
        };
      }),
    ],
    hooks: {
      setSelect: [
        (self) => {
          if (self.select.width < 4) return;
          const from = self.posToVal(self.select.left, 'x');
          const to = self.posToVal(self.select.left + self.select.width, 'x');
          self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          latest.current.onZoom?.(from, to);
        },
      ],
    },
  };
}

function colourOf(series: Series | undefined, index: number): string {
  return token(series?.colour ?? `--chart-${(index % 6) + 1}`);
}

function timeLabel(at: number): string {
  return new Date(at * 1000).toLocaleString('en-US', {
    month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23',
  });
}

function hourLabels(_self: uPlot, ticks: number[], _axis: number, _space: number, step: number): string[] {
  let day = '';
  return ticks.map((tick) => {
    const at = new Date(tick * 1000);
    const date = at.toLocaleDateString('en-US', { month: 'short', day: 'numeric' });
    if (step >= 86_400) return date;
    const time = at.toLocaleTimeString('en-US', {
      hour: '2-digit', minute: '2-digit', hourCycle: 'h23', ...(step < 60 ? { second: '2-digit' } : {}),
    });
    const isNewDay = day !== '' && date !== day;
    day = date;
    return isNewDay ? `${time}\n${date}` : time;
  });
}
