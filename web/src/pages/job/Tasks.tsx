/** Tasks of a job: a grid of all by status, and a table of those in one status or in one cell of the grid. */

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, isAbort } from '../../api/client';
import { subscribe } from '../../api/events';
import type { Job, Task } from '../../api/jobs';
import type { JobEvent } from '../../api/types';
import { StatusBadge } from '../../components/Badge';
import { Button } from '../../components/Button';
import { Panel } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Table, type Column } from '../../components/Table';
import { Duration, Time } from '../../components/Time';
import { number } from '../../format';
import { href, navigate, setQuery, useQueryParam } from '../../router';
import { ListWindow, isPlaceholder, type Slot } from '../jobs/window';
import { STATUSES, decoded, indexer, type StatusRuns } from './arrayGrid';
import { TaskGrid } from './TaskGrid';

const REFRESH_MS = 2000;
/** A page spends at most this part of the time on waiting for the server. */
const REFRESH_SHARE = 10;
/** Browsers draw no element that is much higher than this many rows. */
const MOST_ROWS = 400_000;

export function Tasks({ job }: { job: Job }) {
  const [status, setStatus] = useQueryParam('task_status', '');
  const [range, setRange] = useQueryParam('tasks', '');
  const { statuses, error } = useStatuses(job);
  const labelOf = useMemo(() => indexer(job.array), [job.array]);
  const positions = useMemo(() => positionsOf(statuses, status, range), [statuses, status, range]);
  const list = useTaskList(job, positions, status, range);
  const logOf = (index: number) => href(`/jobs/${job.job_id}`, { tab: 'log', task: index });
  const columns = useMemo(() => COLUMNS.map(withPlaceholders), []);
  const [first, last] = boundsOf(range);
  return (
    <div class="stack">
      <Panel title={`Tasks (${number(job.tasks)})`}>
        <div class="stack">
          <div class="row" role="group" aria-label="Filter by status">
            {STATUSES.filter((one) => job.task_counts[one]).map((one) => (
              <button key={one} type="button" class={`task-count ${status === one ? 'task-count-on' : ''}`} aria-pressed={status === one} onClick={() => setStatus(status === one ? '' : one)}>
                <StatusBadge status={one} quiet /> <b>{number(job.task_counts[one])}</b>
              </button>
            ))}
          </div>
          {error !== null && <ErrorBox error={error} />}
          <TaskGrid
            count={job.tasks}
            statuses={statuses}
            labelOf={labelOf}
            onChoose={(from, to) => (from === to ? navigate(logOf(labelOf(from))) : setQuery({ tasks: `${from}-${to}`, task_status: null }))}
          />
        </div>
      </Panel>
      {range && (
        <div class="row">
          <span>
            Tasks {number(labelOf(first))} to {number(labelOf(last))}
          </span>
          <Button size="small" icon="close" onClick={() => setRange('')}>
            All tasks
          </Button>
        </div>
      )}
      {list.error !== null && <ErrorBox error={list.error} onRetry={() => void list.refresh()} />}
      {statuses === null ? (
        error === null && <Skeleton lines={6} height="22px" />
      ) : (
        <Table<Slot<Task>>
          label="Tasks"
          rows={list.slots}
          columns={columns}
          rowKey={(task) => (isPlaceholder(task) ? -1 - task.index : task.task_index)}
          rowHref={(task) => (isPlaceholder(task) ? href(`/jobs/${job.job_id}`, { tab: 'tasks' }) : logOf(task.array_index ?? task.task_index))}
          onRange={(from, to) => list.show(from, to)}
          height="min(50vh, 460px)"
          empty={positions.length === 0 && <Empty title={`No task is ${status}`} />}
        />
      )}
      {positions.length === MOST_ROWS && <p class="muted">The table has the first {number(MOST_ROWS)} tasks. Filter by status to see others.</p>}
    </div>
  );
}

const COLUMNS: readonly Column<Task>[] = [
  { id: 'index', label: 'Task', width: '80px', cell: (task) => task.array_index ?? task.task_index },
  { id: 'group', label: 'Group', width: '90px', wide: true, cell: (task) => task.group },
  { id: 'status', label: 'Status', width: '116px', cell: (task) => <StatusBadge status={task.status} quiet /> },
  { id: 'node', label: 'Node', width: 'minmax(90px, 1fr)', cell: (task) => task.node_id ?? '–' },
  { id: 'attempts', label: 'Attempts', width: '76px', align: 'right', wide: true, cell: (task) => task.attempt_count },
  { id: 'started', label: 'Started', width: '110px', wide: true, cell: (task) => <Time at={task.started_at} /> },
  { id: 'runtime', label: 'Run time', width: '90px', align: 'right', wide: true, cell: (task) => <Duration from={task.started_at} to={task.ended_at} clock /> },
  { id: 'reason', label: 'Outcome', width: 'minmax(120px, 2fr)', wide: true, cell: (task) => task.reason ?? '', title: (task) => task.reason ?? '' },
];

function withPlaceholders(column: Column<Task>): Column<Slot<Task>> {
  return {
    ...column,
    cell: (row) => (isPlaceholder(row) ? <span class="muted">…</span> : column.cell(row)),
    title: (row) => (isPlaceholder(row) ? '' : (column.title?.(row) ?? '')),
  };
}

function boundsOf(range: string): [first: number, last: number] {
  const [, first, last] = /^(\d+)-(\d+)$/.exec(range) ?? [];
  return first === undefined ? [0, Infinity] : [Number(first), Number(last)];
}

/** The tasks that the table has, by their place in the job. */
function positionsOf(statuses: Uint8Array | null, status: string, range: string): number[] {
  const wanted = STATUSES.findIndex((one) => one === status);
  const [first, last] = boundsOf(range);
  const found: number[] = [];
  for (let at = first; statuses && at <= Math.min(last, statuses.length - 1) && found.length < MOST_ROWS; at++) {
    if (wanted < 0 || statuses[at] === wanted) found.push(at);
  }
  return found;
}

/** The status of every task, loaded again after events of the job. */
function useStatuses(job: Job): { statuses: Uint8Array | null; error: unknown } {
  const [statuses, setStatuses] = useState<Uint8Array | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const stop = new AbortController();
    let tookMs = 0;
    const load = async () => {
      const asked = performance.now();
      try {
        setStatuses(decoded(await api.get<StatusRuns>(`/jobs/${job.job_id}/task-statuses`, { signal: stop.signal })));
        setError(null);
      } catch (problem) {
        if (!isAbort(problem)) setError(problem);
      }
      tookMs = performance.now() - asked;
    };
    let busy = load();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const end = subscribe(null, (event) => {
      if (event.kind !== 'resync' && (event.data as JobEvent | null)?.job_id !== job.job_id) return;
      timer ??= setTimeout(() => {
        busy = busy.then(() => {
          timer = undefined;
          return stop.signal.aborted ? undefined : load();
        });
      }, Math.max(REFRESH_MS, REFRESH_SHARE * tookMs));
    });
    return () => {
      end();
      clearTimeout(timer);
      stop.abort();
    };
  }, [job.job_id]);
  return { statuses, error };
}

/** Rows of the table, loaded as they come into view and again when statuses have changed. */
function useTaskList(job: Job, positions: number[], status: string, range: string): ListWindow<Task> {
  const [, redraw] = useState({});
  const latest = useRef(positions);
  latest.current = positions;
  const list = useMemo(
    () =>
      new ListWindow<Task>(
        async (skip, limit, signal) => {
          const { length } = latest.current;
          const from = latest.current[skip];
          if (from === undefined) return { rows: [], total: length, exact: true };
          const query = { limit: Math.min(limit, length - skip), cursor: from === 0 ? null : from - 1, status };
          const { tasks } = await api.get<{ tasks: Task[] }>(`/jobs/${job.job_id}/tasks`, { query, signal });
          return { rows: tasks, total: length, exact: true };
        },
        () => redraw({}),
      ),
    [job.job_id, status, range],
  );
  useEffect(() => () => list.stop(), [list]);
  useEffect(() => void list.refresh(), [list, positions]);
  return list;
}
