/** The viewer's own jobs: what runs, and why the others are pending and when they start. */

import { api } from '../../api/client';
import { Prose } from '../../components/Code';
import { StatusBadge } from '../../components/Badge';
import { ButtonLink } from '../../components/Button';
import { Panel } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Duration, Time } from '../../components/Time';
import { capital, count } from '../../format';
import { href } from '../../router';
import { may, user } from '../../state/session';
import { useResource } from '../../state/resource';
import type { JobStatus } from '../../api/types';

interface JobRow {
  job_id: number;
  name: string;
  status: JobStatus;
  gpu_request: number;
  submitted_at: string;
  started_at: string | null;
  assigned_node_id: string | null;
}

interface Why {
  summary: string;
  reasons: { code: string; text: string }[];
  position: number | null;
  starts_at: string | null;
  estimate: string | null;
  start_interval?: { earliest: string; expected: string; latest: string; basis: string } | null;
  advice: { text: string } | null;
}

interface Jobs {
  running: JobRow[];
  pending: { job: JobRow; why: Why | null }[];
  more: boolean;
}

const MOST = 5;

async function load(signal: AbortSignal): Promise<Jobs> {
  const list = (status: string) =>
    api.get<{ jobs: JobRow[]; next_cursor: number | null }>('/jobs', {
      query: { user: 'me', status, limit: MOST },
      signal,
    });
  const [running, pending] = await Promise.all([list('running'), list('pending,scheduled,preempted')]);
  const whys = await Promise.all(
    pending.jobs.map((job) => api.get<Why>(`/jobs/${job.job_id}/why`, { signal, retries: 0 }).catch(() => null)),
  );
  return {
    running: running.jobs,
    pending: pending.jobs.map((job, at) => ({ job, why: whys[at] ?? null })),
    more: running.next_cursor !== null || pending.next_cursor !== null,
  };
}

export function YourJobs() {
  const { data, error, reload } = useResource(load, [], { kinds: null, debounceMs: 1000 });
  const who = user.value?.user_id ?? '';
  const none = data && data.running.length + data.pending.length === 0;
  return (
    <Panel title="Your jobs" actions={<a href={href('/jobs', { user: who })}>All your jobs</a>}>
      {!data && !error && <Skeleton lines={3} />}
      {error ? <ErrorBox error={error} onRetry={reload} /> : null}
      {none && (
        <Empty
          title="No job of yours is pending or running"
          action={may('submit') ? <ButtonLink href={href('/submit')} icon="submit">Submit a job</ButtonLink> : undefined}
        />
      )}
      {data && !none && (
        <ul class="your-jobs">
          {data.pending.map(({ job, why }) => (
            <li key={job.job_id}>
              <JobLine job={job} />
              {why && <Reason why={why} />}
            </li>
          ))}
          {data.running.map((job) => (
            <li key={job.job_id}>
              <JobLine job={job} />
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function JobLine({ job }: { job: JobRow }) {
  return (
    <div class="your-job">
      <StatusBadge status={job.status} quiet />
      <a href={href(`/jobs/${job.job_id}`)} class="your-job-name">
        {job.job_id}
        {job.name && ` · ${job.name}`}
      </a>
      <span class="muted your-job-time">
        {job.gpu_request > 0 && `${count(job.gpu_request, 'GPU')} · `}
        {job.started_at ? (
          <>
            {job.assigned_node_id} · <Duration from={job.started_at} />
          </>
        ) : (
          <>
            waiting for <Duration from={job.submitted_at} />
          </>
        )}
      </span>
    </div>
  );
}

/** "Starts in about 5 min · needs 2 GPUs; ws1 has 1 free". */
function Reason({ why }: { why: Why }) {
  const summary = why.summary.replace(/^waits: /, '');
  const interval = why.start_interval;
  const expected = interval?.expected ?? why.starts_at;
  return (
    <div class="your-job-why">
      {expected && (
        <span class="your-job-start">
          Expected start <Time at={expected} kind="relative" /> (<Time at={expected} kind="short" />)
        </span>
      )}
      {interval && interval.earliest !== interval.latest && (
        <span class="muted" title={`By ${interval.basis}`}>
          Between <Time at={interval.earliest} kind="short" /> and <Time at={interval.latest} kind="short" />
        </span>
      )}
      <span><Prose text={capital(summary)} /></span>
      {why.advice && <span class="muted">Advice: {why.advice.text}</span>}
    </div>
  );
}
