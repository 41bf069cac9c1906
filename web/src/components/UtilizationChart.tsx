/** Utilization over time: what jobs held and what was measured, of the cluster or of one node. Import it only from lazy pages. */

import { useEffect } from 'preact/hooks';
import { api } from '../api/client';
import { useResource } from '../state/resource';
import { Chart, type Series } from './Chart';
import { ErrorBox, Skeleton } from './States';
import { percent } from '../format';

export type ResourceName = 'gpu' | 'cpu' | 'mem_mb';

interface Utilization {
  since: string;
  until: string;
  step_s: number;
  allocated: { gpu: number[]; cpu: number[]; mem_mb: number[] };
  measured: { gpu_busy_percent: (number | null)[]; cpu: (number | null)[]; mem_mb: (number | null)[] };
}

export interface UtilizationChartProps {
  /** How far back: '24h'. */
  since: string;
  resource: ResourceName;
  /** What there is now; parts are shown of it. */
  total: number;
  node?: string;
  label: string;
  height?: number;
}

const RELOAD_MS = 60_000;

export function UtilizationChart({ since, resource, total, node, label, height = 150 }: UtilizationChartProps) {
  const { data, error, reload } = useResource(
    (signal) => api.get<Utilization>('/utilization', { query: { since, node_id: node, points: 144 }, signal }),
    [since, node],
  );
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && reload(), RELOAD_MS);
    return () => clearInterval(timer);
  }, []);
  if (!data) return error ? <ErrorBox error={error} onRetry={reload} /> : <Skeleton lines={1} height={`${height}px`} />;
  return <Chart label={label} height={height} min={0} max={1} format={(value) => percent(value)} {...lines(data, resource, total)} />;
}

/** Shares of the whole, with a last point at the present moment. */
export function lines(data: Utilization, resource: ResourceName, total: number): { times: number[]; series: Series[] } {
  const from = Date.parse(data.since) / 1000;
  const until = Date.parse(data.until) / 1000;
  const held = data.allocated[resource];
  const times = held.map((_, step) => Math.min(from + (step + 1) * data.step_s, until));
  const share = (value: number | null) => (value === null || total <= 0 ? null : Math.min(1, value / total));
  const measured = resource === 'gpu' ? data.measured.gpu_busy_percent.map((value) => (value === null ? null : value / 100)) : data.measured[resource].map(share);
  return {
    times,
    series: [
      { label: 'Allocated', values: held.map(share), fill: true },
      { label: resource === 'gpu' ? 'Busy' : 'Used', values: measured, colour: '--chart-2' },
    ],
  };
}
