/** Rows of the table of nodes: made from the overview, filtered and sorted. */

import type { Cluster } from '../../state/overview';

export interface NodeTerms {
  labels: Record<string, string>[];
  taints: string[][];
  serves: string[];
  drain_reason: string[];
  drain_by: string[];
  drain_since: (string | null)[];
}

export interface NodeRow {
  row: number;
  name: string;
  pool: string;
  status: string;
  gpus: number;
  gpusAllocated: number;
  /** Average of the busy percentages; null without any. */
  busy: number | null;
  cpuShare: number;
  memShare: number;
  labels: Record<string, string>;
  taints: string[];
  drainReason: string;
}

export interface NodeFilter {
  status: readonly string[];
  pool: readonly string[];
  /** `key`, `key=value` or a part of either. */
  label: string;
  text: string;
}

export function rowsOf(cluster: Cluster, terms: NodeTerms | null): NodeRow[] {
  const { nodes } = cluster;
  return nodes.name.map((name, row) => {
    const from = cluster.firstDevice[row] ?? 0;
    const to = cluster.firstDevice[row + 1] ?? 0;
    let allocated = 0;
    let busy = 0;
    let told = 0;
    for (let device = from; device < to; device++) {
      allocated += cluster.allocated[device] ?? 0;
      const percent = cluster.busy[device] ?? -1;
      if (percent >= 0) {
        busy += percent;
        told += 1;
      }
    }
    return {
      row,
      name,
      pool: nodes.pool[row] ?? '',
      status: nodes.status[row] ?? 'offline',
      gpus: to - from,
      gpusAllocated: Math.round(allocated * 1000) / 1000,
      busy: told > 0 ? busy / told : null,
      cpuShare: share(nodes.cpu_allocated[row], nodes.cpu_total[row]),
      memShare: share(nodes.mem_allocated_mb[row], nodes.mem_total_mb[row]),
      labels: terms?.labels[row] ?? {},
      taints: terms?.taints[row] ?? [],
      drainReason: terms?.drain_reason[row] ?? '',
    };
  });
}

function share(part: number | undefined, whole: number | undefined): number {
  return whole ? (part ?? 0) / whole : 0;
}

export function filtered(rows: readonly NodeRow[], filter: NodeFilter): NodeRow[] {
  const text = filter.text.toLowerCase();
  const label = filter.label.toLowerCase();
  return rows.filter(
    (row) =>
      (filter.status.length === 0 || filter.status.includes(row.status)) &&
      (filter.pool.length === 0 || filter.pool.includes(row.pool)) &&
      (text === '' || row.name.toLowerCase().includes(text) || row.drainReason.toLowerCase().includes(text)) &&
      (label === '' || matchesLabel(row, label)),
  );
}

function matchesLabel(row: NodeRow, wanted: string): boolean {
  return (
    Object.entries(row.labels).some(([key, value]) => `${key}=${value}`.toLowerCase().includes(wanted)) ||
    row.taints.some((taint) => taint.toLowerCase().includes(wanted))
  );
}

const ORDER: Record<string, (row: NodeRow) => string | number> = {
  status: (row) => ['offline', 'draining', 'ready'].indexOf(row.status),
  pool: (row) => row.pool,
  gpus: (row) => row.gpusAllocated,
  busy: (row) => row.busy ?? -1,
  cpu: (row) => row.cpuShare,
  memory: (row) => row.memShare,
};

/** By one column; of equals, and without one, in the natural order of their names. */
export function sorted(rows: readonly NodeRow[], column: string, descending: boolean): NodeRow[] {
  const key = ORDER[column] ?? ((row: NodeRow) => row.row);
  const sign = descending ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    return a < b ? -sign : a > b ? sign : one.row - other.row;
  });
}
