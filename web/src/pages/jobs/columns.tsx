/** Columns of the job table. */

import type { ComponentChildren } from 'preact';
import { StatusBadge } from '../../components/Badge';
import type { Column } from '../../components/Table';
import { Duration, Time } from '../../components/Time';
import { User } from '../../components/User';
import { NONE, amount, fullTime, mebibytes, number } from '../../format';
import { href } from '../../router';
import type { JobRow } from '../../api/jobs';
import { knownReason, shortReason, whyOf } from './why';
import { isPlaceholder, type Slot } from './window';

interface JobColumn {
  id: string;
  label: string;
  cell: (row: JobRow) => ComponentChildren;
  title?: (row: JobRow) => string;
  width: string;
  align?: 'right';
  /** Name of the sort order of the server. */
  sort?: string;
  wide?: boolean;
}

const dash = <span class="muted">{NONE}</span>;

export const COLUMNS: readonly JobColumn[] = [
  { id: 'id', label: 'Job', width: '70px', sort: 'id', cell: (row) => <a href={href(`/jobs/${row.job_id}`)}>{row.job_id}</a> },
  { id: 'status', label: 'Status', width: '106px', sort: 'status', cell: (row) => <Status row={row} /> },
  {
    id: 'name',
    label: 'Name',
    width: 'minmax(140px, 2fr)',
    sort: 'name',
    cell: (row) => <span class="job-name">{row.name || <span class="muted">{row.command ?? NONE}</span>}</span>,
    title: (row) => [row.name, row.command].filter(Boolean).join('\n'),
  },
  { id: 'user', label: 'User', width: 'minmax(84px, 1fr)', sort: 'user', wide: true, cell: (row) => <User name={row.user_id} /> },
  { id: 'tenant', label: 'Tenant', width: 'minmax(90px, 1fr)', sort: 'tenant', wide: true, cell: (row) => row.tenant_id, title: (row) => row.tenant_id },
  {
    id: 'priority',
    label: 'Priority',
    width: '104px',
    sort: 'priority',
    wide: true,
    cell: (row) => (row.priority ? `${row.priority_class} ${row.priority > 0 ? '+' : ''}${row.priority}` : row.priority_class),
  },
  { id: 'gpus', label: 'GPUs', width: '62px', align: 'right', sort: 'gpus', wide: true, cell: (row) => (row.gpus ? amount(row.gpus) : dash) },
  { id: 'cpus', label: 'CPUs', width: '62px', align: 'right', wide: true, cell: (row) => amount(row.cpu_request) },
  { id: 'memory', label: 'Memory', width: '84px', align: 'right', wide: true, cell: (row) => (row.mem_request_mb ? mebibytes(row.mem_request_mb) : dash) },
  { id: 'tasks', label: 'Tasks', width: '88px', align: 'right', sort: 'tasks', wide: true, cell: tasks },
  {
    id: 'node',
    label: 'Node',
    width: 'minmax(90px, 1fr)',
    sort: 'node',
    wide: true,
    cell: (row) => (row.assigned_node_id ? <a href={href(`/nodes/${encodeURIComponent(row.assigned_node_id)}`)}>{row.assigned_node_id}</a> : dash),
    title: (row) => (row.devices.length ? `GPU ${row.devices.join(', ')}` : ''),
  },
  { id: 'submitted', label: 'Submitted', width: '96px', sort: 'submitted', wide: true, cell: (row) => <Time at={row.submitted_at} /> },
  { id: 'started', label: 'Started', width: '104px', sort: 'started', wide: true, cell: (row) => <Time at={row.started_at} /> },
  { id: 'ended', label: 'Ended', width: '104px', sort: 'ended', wide: true, cell: (row) => <Time at={row.ended_at} /> },
  {
    id: 'runtime',
    label: 'Run time',
    width: '80px',
    align: 'right',
    sort: 'run_time',
    wide: true,
    cell: (row) => <Duration from={row.started_at} to={row.ended_at} clock />,
  },
  { id: 'expected', label: 'Expected start', width: '112px', wide: true, cell: (row) => <ExpectedStart row={row} /> },
  { id: 'reason', label: 'Reason', width: 'minmax(160px, 3fr)', wide: true, cell: (row) => <Reason row={row} />, title: reasonText },
  { id: 'attempts', label: 'Attempts', width: '76px', align: 'right', wide: true, cell: (row) => number(row.attempt_count) },
  { id: 'exit', label: 'Exit code', width: '80px', align: 'right', wide: true, cell: (row) => row.exit_code ?? dash },
  { id: 'command', label: 'Command', width: 'minmax(160px, 2fr)', wide: true, cell: (row) => <code>{row.command ?? NONE}</code>, title: (row) => row.command ?? '' },
];

export const DEFAULT_COLUMNS = ['id', 'status', 'name', 'user', 'gpus', 'node', 'submitted', 'runtime', 'expected', 'reason'];

export function tableColumns(ids: readonly string[]): Column<Slot<JobRow>>[] {
  return COLUMNS.filter((column) => ids.includes(column.id)).map((column) => ({
    id: column.sort ?? column.id,
    label: column.label,
    width: column.width,
    align: column.align,
    sortable: column.sort !== undefined,
    wide: column.wide,
    cell: (row) => (isPlaceholder(row) ? <span class="job-loading" /> : column.cell(row)),
    title: column.title && ((row) => (isPlaceholder(row) ? '' : (column.title?.(row) ?? ''))),
  }));
}

function Status({ row }: { row: JobRow }) {
  const mark = row.ended_at ? '' : row.cancel_requested_by ? 'cancelling' : row.held_by ? 'held' : row.suspended_by ? 'suspended' : '';
  return (
    <StatusBadge status={row.status} quiet>
      {mark || undefined}
    </StatusBadge>
  );
}

function tasks(row: JobRow): ComponentChildren {
  if (row.tasks === 1) return dash;
  const over = (row.task_counts?.completed ?? 0) + (row.task_counts?.failed ?? 0) + (row.task_counts?.cancelled ?? 0);
  return `${number(over)}/${number(row.tasks)}`;
}

function reasonText(row: JobRow): string {
  const known = knownReason(row);
  if (known !== null) return known;
  const why = whyOf(row.job_id);
  return why ? shortReason(why.summary) : '';
}

function Reason({ row }: { row: JobRow }) {
  return <span class="job-reason">{reasonText(row)}</span>;
}

function ExpectedStart({ row }: { row: JobRow }) {
  if (row.status !== 'pending' && row.status !== 'preempted') return dash;
  if (row.begin_at && Date.parse(row.begin_at) > Date.now()) return <Time at={row.begin_at} />;
  const interval = row.start_interval;
  if (!row.expected_start) {
    return (
      <span class="muted" title={row.no_expected_start ?? undefined}>
        {NONE}
      </span>
    );
  }
  const title = interval
    ? `Between ${fullTime(Date.parse(interval.earliest))} and ${fullTime(Date.parse(interval.latest))}, by ${interval.basis}`
    : undefined;
  return (
    <span title={title}>
      ≈ <Time at={row.expected_start} />
    </span>
  );
}
