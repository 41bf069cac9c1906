/** Reports: what to ask for, and how rows become bars. */

export interface Figures {
  attempts: number;
  jobs: number;
  wait_mean_s: number;
  wait_max_s: number;
  run_s: number;
  cpu_s: number;
  cpu_used_s: number | null;
  gpu_s: number;
  gpu_used_s: number | null;
  gpu_measured_s: number;
  gpu_wasted_s: number | null;
  gpu_hours: number;
  lost_s: number;
  lost_gpu_s: number;
  cost: number | null;
  wait_p50_s: number | null;
  wait_p90_s: number | null;
  failed_s: number | null;
  failed_gpu_s: number | null;
}

export interface ReportRow {
  keys: Record<string, string>;
  figures: Figures;
}

export interface Report {
  since: string | null;
  until: string;
  by: string[];
  covers: string;
  currency: string | null;
  rows: ReportRow[];
  total: Figures;
}

export const GROUPS = [
  { value: 'user', label: 'User' },
  { value: 'tenant', label: 'Tenant' },
  { value: 'pool', label: 'Pool' },
  { value: 'gpu-type', label: 'GPU model' },
  { value: 'class', label: 'Priority class' },
  { value: 'node', label: 'Node' },
  { value: 'cause', label: 'End of attempts' },
  { value: 'day', label: 'Day' },
  { value: 'week', label: 'Week' },
  { value: 'month', label: 'Month' },
] as const;

export const RANGES = [
  { value: '1d', label: '24 h' },
  { value: '7d', label: '7 d' },
  { value: '30d', label: '30 d' },
  { value: '90d', label: '90 d' },
] as const;

/** Whether a key is a time: such rows stay in their order. */
export function isTime(by: string): boolean {
  return by === 'day' || by === 'week' || by === 'month';
}

/** What a row is called; an empty key has no name of its own. */
export function nameOf(row: ReportRow, by: string): string {
  const key = row.keys[by] ?? '';
  if (key !== '') return key;
  return by === 'gpu-type' ? 'without a GPU' : by === 'pool' ? 'node was removed' : '–';
}

export type SortKey = 'name' | keyof Figures;

/** Sorted copies of rows; a value that was not measured comes last. */
export function sorted(rows: readonly ReportRow[], by: string, key: SortKey, descending: boolean): ReportRow[] {
  const sign = descending ? -1 : 1;
  return [...rows].sort((one, other) => {
    if (key === 'name') return sign * nameOf(one, by).localeCompare(nameOf(other, by), 'en', { numeric: true });
    const [a, b] = [one.figures[key], other.figures[key]];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return sign * (a - b) || nameOf(one, by).localeCompare(nameOf(other, by));
  });
}

/** GPU-hours of a row as parts of a bar: used, idle (reserved and not used), lost, failed, and not measured. */
export function hours(figures: Figures): { used: number; idle: number; lost: number; failed: number; unknown: number } {
  const given = figures.gpu_s;
  const lost = Math.min(given, figures.lost_gpu_s);
  const failed = Math.min(given - lost, figures.failed_gpu_s ?? 0);
  const left = given - lost - failed;
  // What was measured may lie in lost or failed attempts, too: the rest is divided in its proportion.
  const measured = Math.min(left, figures.gpu_measured_s);
  const share = figures.gpu_measured_s > 0 ? Math.min(1, (figures.gpu_used_s ?? 0) / figures.gpu_measured_s) : 0;
  const used = measured * share;
  const parts = { used, idle: measured - used, lost, failed, unknown: left - measured };
  return Object.fromEntries(Object.entries(parts).map(([name, seconds]) => [name, seconds / 3600])) as typeof parts;
}
