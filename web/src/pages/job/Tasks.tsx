/** Tasks of a job: a grid of cells by status, and a table of those in one status. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { api, isAbort } from '../../api/client';
import { subscribe } from '../../api/events';
import type { JobEvent, JobStatus } from '../../api/types';
import { StatusBadge } from '../../components/Badge';
import { Panel } from '../../components/Page';
import { Empty, ErrorBox } from '../../components/States';
import { Table, type Column } from '../../components/Table';
import { Duration, Time } from '../../components/Time';
import { number } from '../../format';
import { href, navigate, useQueryParam } from '../../router';
import { theme, token } from '../../state/theme';
import { cellOf, gridOf, taskAt } from './arrayGrid';
import { FINAL, type Job, type Task } from './types';

const PAGE = 1000;
const MOST = 20_000;
const REFRESH_MS = 2000;
const STATUSES: readonly JobStatus[] = ['running', 'scheduled', 'pending', 'preempted', 'failed', 'cancelled', 'completed'];
const COLOURS: Record<JobStatus, string> = {
  pending: '--amber',
  scheduled: '--blue',
  running: '--green',
  preempted: '--purple',
  completed: '--line-strong',
  failed: '--red',
  cancelled: '--surface-3',
};

export function Tasks({ job }: { job: Job }) {
  const { tasks, error, cut } = useTasks(job);
  const [status, setStatus] = useQueryParam('task_status', '');
  const rows = status ? tasks.filter((task) => task.status === status) : tasks;
  return (
    <div class="stack">
      <Panel title={`Tasks (${number(job.tasks)})`} actions={cut && <span class="muted">The first {number(MOST)} are shown.</span>}>
        <div class="stack">
          <div class="row" role="group" aria-label="Filter by status">
            {STATUSES.filter((one) => job.task_counts[one]).map((one) => (
              <button key={one} type="button" class={`task-count ${status === one ? 'task-count-on' : ''}`} aria-pressed={status === one} onClick={() => setStatus(status === one ? '' : one)}>
                <StatusBadge status={one} quiet /> <b>{number(job.task_counts[one])}</b>
              </button>
            ))}
          </div>
          {error !== null && <ErrorBox error={error} />}
          <Cells tasks={tasks} count={Math.min(job.tasks, MOST)} jobId={job.job_id} />
        </div>
      </Panel>
      <Table<Task>
        label="Tasks"
        rows={rows}
        columns={COLUMNS}
        rowKey={(task) => task.task_index}
        rowHref={(task) => href(`/jobs/${job.job_id}`, { tab: 'log', task: task.array_index ?? task.task_index })}
        height="min(50vh, 460px)"
        empty={<Empty title={status ? `No task is ${status}` : 'Loading…'} />}
      />
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

/** All tasks, page after page; pages with tasks that are not over are loaded again after events. */
function useTasks(job: Job): { tasks: readonly Task[]; error: unknown; cut: boolean } {
  const [tasks, setTasks] = useState<readonly Task[]>([]);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const stop = new AbortController();
    const pages: Task[][] = [];
    const load = async (index: number) => {
      const page = await api.get<{ tasks: Task[]; next_cursor: number | null }>(`/jobs/${job.job_id}/tasks`, {
        query: { limit: PAGE, cursor: index === 0 ? null : index * PAGE - 1 },
        signal: stop.signal,
      });
      pages[index] = page.tasks;
      setTasks(pages.flat());
      return page.next_cursor !== null;
    };
    const all = async (again: boolean) => {
      try {
        for (let index = 0; index * PAGE < Math.min(job.tasks, MOST); index++) {
          const known = pages[index];
          if (again && known && known.every((task) => FINAL.includes(task.status))) continue;
          if (!(await load(index))) break;
        }
        setError(null);
      } catch (problem) {
        if (!isAbort(problem)) setError(problem);
      }
    };
    let busy = all(false);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const end = subscribe(null, (event) => {
      if (event.kind !== 'resync' && (event.data as JobEvent | null)?.job_id !== job.job_id) return;
      timer ??= setTimeout(() => {
        busy = busy.then(() => {
          timer = undefined;
          return stop.signal.aborted ? undefined : all(true);
        });
      }, REFRESH_MS);
    });
    return () => {
      end();
      clearTimeout(timer);
      stop.abort();
    };
  }, [job.job_id]);
  return { tasks, error, cut: job.tasks > MOST };
}

function Cells({ tasks, count, jobId }: { tasks: readonly Task[]; count: number; jobId: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState<number | null>(null);
  const shownTheme = theme.value;
  const grid = gridOf(count, Math.max(80, width), 260);
  useEffect(() => {
    const box = canvas.current?.parentElement;
    if (!box) return;
    const resize = new ResizeObserver(() => setWidth(box.clientWidth));
    resize.observe(box);
    return () => resize.disconnect();
  }, []);
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d');
    if (!element || !context || width === 0) return;
    const scale = devicePixelRatio || 1;
    element.width = Math.round(grid.width * scale);
    element.height = Math.round(grid.height * scale);
    context.scale(scale, scale);
    const colours = Object.fromEntries(STATUSES.map((status) => [status, token(COLOURS[status])]));
    const empty = token('--surface-3');
    for (let index = 0; index < count; index++) {
      const status = tasks[index]?.status;
      const { x, y } = cellOf(grid, index);
      context.fillStyle = status ? (colours[status] ?? empty) : empty;
      if ((status === 'pending' || status === 'preempted') && grid.cell >= 6) {
        // An outline: it differs from running tasks also without colour.
        context.strokeStyle = context.fillStyle;
        context.strokeRect(x + 0.75, y + 0.75, grid.cell - 1.5, grid.cell - 1.5);
        continue;
      }
      context.fillRect(x, y, grid.cell, grid.cell);
      if (status === 'failed' && grid.cell >= 8) {
        context.strokeStyle = token('--surface');
        context.beginPath();
        context.moveTo(x + 3, y + 3);
        context.lineTo(x + grid.cell - 3, y + grid.cell - 3);
        context.moveTo(x + grid.cell - 3, y + 3);
        context.lineTo(x + 3, y + grid.cell - 3);
        context.stroke();
      }
    }
    if (over !== null) {
      const { x, y } = cellOf(grid, over);
      context.strokeStyle = token('--text');
      context.lineWidth = 2;
      context.strokeRect(x - 1, y - 1, grid.cell + 2, grid.cell + 2);
    }
  }, [tasks, width, count, over, shownTheme]);
  const at = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    return box ? taskAt(grid, count, event.clientX - box.left, event.clientY - box.top) : null;
  };
  const task = over === null ? undefined : tasks[over];
  const counts = STATUSES.map((status) => [status, tasks.filter((one) => one.status === status).length] as const).filter(([, many]) => many > 0);
  return (
    <div class="cells">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`${count} tasks: ${counts.map(([status, many]) => `${many} ${status}`).join(', ')}. The table below lists them.`}
        style={{ width: `${grid.width}px`, height: `${grid.height}px`, cursor: over === null ? 'default' : 'pointer' }}
        onPointerMove={(event) => setOver(at(event))}
        onPointerLeave={() => setOver(null)}
        onClick={(event) => {
          const index = at(event);
          const chosen = index === null ? undefined : tasks[index];
          if (chosen) navigate(href(`/jobs/${jobId}`, { tab: 'log', task: chosen.array_index ?? chosen.task_index }));
        }}
      />
      <p class="cells-label">
        {task ? (
          <>
            Task {task.array_index ?? task.task_index}: {task.status}
            {task.node_id && ` on ${task.node_id}`}
            {task.reason && ` – ${task.reason}`}
          </>
        ) : (
          <span class="muted">Point at a cell to see its task; click it for its log.</span>
        )}
      </p>
    </div>
  );
}
