/** Timeline of a job: its attempts with their outcome, and every event. */

import type { ComponentChildren } from 'preact';
import type { JobEvent } from '../../api/types';
import { Badge, StatusBadge } from '../../components/Badge';
import { Panel } from '../../components/Page';
import { Duration, Time } from '../../components/Time';
import { duration, mebibytes, shortTime } from '../../format';
import { href } from '../../router';
import { now } from '../../state/clock';
import type { Attempt, Job } from '../../api/jobs';

const MOST_ATTEMPTS = 100;
const MOST_EVENTS = 200;

export function Attempts({ job }: { job: Job }) {
  const attempts = job.attempts ?? [];
  const several = job.tasks > 1;
  if (attempts.length === 0) return null;
  const shown = attempts.slice(-MOST_ATTEMPTS).reverse();
  return (
    <Panel title={`Attempts (${attempts.length})`} flush>
      {!several && <AttemptBars job={job} attempts={attempts} />}
      <div class="scroll-x">
        <table class="plain-table plain-wide">
          <thead>
            <tr>
              {several && <th>Task</th>}
              <th>Attempt</th>
              <th>State</th>
              <th>Node</th>
              <th>Started</th>
              <th>Run time</th>
              <th>CPU time</th>
              <th>Peak memory</th>
              <th>Outcome</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((attempt) => (
              <tr key={attempt.attempt_id}>
                {several && <td>{attempt.task_index}</td>}
                <td>
                  <a href={href(`/jobs/${job.job_id}`, { tab: 'log', attempt: attempt.number, ...(several ? { task: attempt.task_index } : {}) })}>
                    {attempt.number}
                  </a>
                </td>
                <td>
                  <AttemptState attempt={attempt} />
                </td>
                <td>
                  <a href={href(`/nodes/${encodeURIComponent(attempt.node_id)}`)}>{attempt.node_id}</a>
                  {attempt.devices.length > 0 && <span class="muted"> GPU {attempt.devices.join(', ')}</span>}
                </td>
                <td>
                  <Time at={attempt.started_at} />
                </td>
                <td>
                  <Duration from={attempt.started_at} to={attempt.ended_at} />
                </td>
                <td>{attempt.cpu_time_s === null ? '–' : duration(attempt.cpu_time_s)}</td>
                <td>{attempt.peak_memory_mb === null ? '–' : mebibytes(attempt.peak_memory_mb)}</td>
                <td class="plain-text">{attempt.reason ?? <span class="muted">–</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {attempts.length > MOST_ATTEMPTS && <p class="panel-note">The latest {MOST_ATTEMPTS} are shown.</p>}
    </Panel>
  );
}

const MOST_BARS = 12;

/** From submission to the end: when it waited, and when each attempt ran. */
function AttemptBars({ job, attempts }: { job: Job; attempts: readonly Attempt[] }) {
  const begin = Date.parse(job.submitted_at);
  const end = job.ended_at ? Date.parse(job.ended_at) : now.value;
  const length = Math.max(1000, end - begin);
  const share = (at: number) => Math.max(0, Math.min(100, ((at - begin) / length) * 100));
  const shown = attempts.slice(-MOST_BARS);
  return (
    <div class="attempt-bars" role="img" aria-label={`Submitted, then ${attempts.length === 1 ? 'one attempt' : `${attempts.length} attempts`}, over ${duration(length / 1000)}`}>
      {shown.map((attempt, index) => {
        const before = shown[index - 1];
        const from = share(before?.ended_at ? Date.parse(before.ended_at) : begin);
        const start = share(Date.parse(attempt.started_at ?? attempt.assigned_at));
        const stop = share(attempt.ended_at ? Date.parse(attempt.ended_at) : end);
        const good = attempt.status !== 'ended' || (attempt.cause === 'exited' && attempt.exit_code === 0);
        return (
          <div key={attempt.attempt_id} class="attempt-track">
            <span class="attempt-wait" style={{ left: `${from}%`, width: `${Math.max(0, start - from)}%` }} title="Pending" />
            <span
              class={`attempt-run ${attempt.status !== 'ended' ? 'attempt-live' : good ? 'attempt-good' : 'attempt-bad'}`}
              style={{ left: `${start}%`, width: `${Math.max(0.5, stop - start)}%` }}
              title={`Attempt ${attempt.number} on ${attempt.node_id}: ${attempt.reason ?? attempt.status}`}
            />
          </div>
        );
      })}
      <div class="attempt-axis">
        <span>{shortTime(begin, now.value)}</span>
        <span>{duration(length / 1000)}</span>
        <span>{job.ended_at ? shortTime(end, now.value) : 'now'}</span>
      </div>
    </div>
  );
}

function AttemptState({ attempt }: { attempt: Attempt }) {
  if (attempt.status === 'running') return <StatusBadge status="running" quiet />;
  if (attempt.status === 'ended') {
    const good = attempt.cause === 'exited' && attempt.exit_code === 0;
    const cancelled = attempt.cause === 'cancelled';
    return (
      <StatusBadge status={good ? 'completed' : cancelled ? 'cancelled' : 'failed'} quiet>
        {good ? 'exit 0' : (attempt.cause ?? 'ended')}
      </StatusBadge>
    );
  }
  return (
    <StatusBadge status={attempt.status === 'lost' ? 'failed' : 'scheduled'} quiet>
      {attempt.status}
    </StatusBadge>
  );
}

const TEXTS: Record<string, string> = {
  submitted: 'Submitted',
  assigned: 'Assigned to a node',
  started: 'Started',
  succeeded: 'Completed',
  failed: 'Failed',
  cancelled: 'Cancelled',
  requeued: 'Queued again',
  preempted: 'Preempted',
  lost: 'Node lost',
  returned: 'Node came back',
  'cancel-requested': 'Cancellation requested',
  held: 'Held',
  released: 'Released',
  edited: 'Changed',
  'needs-met': 'Dependencies met',
  suspended: 'Suspended',
  resumed: 'Resumed',
  'restart-requested': 'Restart requested',
  'stop-ordered': 'Being stopped',
  dropped: 'Remaining tasks dropped',
  superseded: 'Replaced by another attempt',
};
const TONES: Record<string, string> = {
  started: 'green',
  succeeded: 'green',
  failed: 'red',
  lost: 'red',
  cancelled: 'gray',
  preempted: 'purple',
  submitted: 'accent',
  held: 'amber',
  suspended: 'amber',
};

export function Events({ job }: { job: Job }) {
  const events = job.events ?? [];
  const shown = events.slice(-MOST_EVENTS).reverse();
  return (
    <Panel title="Events">
      <ol class="events">
        {shown.map((event) => (
          <li key={event.seq} class={`event tone-${TONES[event.kind] ?? 'gray'}`}>
            <span class="event-dot" aria-hidden="true" />
            <span class="event-text">
              <b>{TEXTS[event.kind] ?? event.kind}</b> {job.tasks > 1 && event.task_index !== null && <Badge>task {event.task_index}</Badge>}
              <span class="event-detail">{detail(event)}</span>
            </span>
            <Time at={event.at} />
          </li>
        ))}
      </ol>
      {events.length > MOST_EVENTS && <p class="muted">The latest {MOST_EVENTS} are shown.</p>}
    </Panel>
  );
}

function detail(event: JobEvent): ComponentChildren {
  const data = event.data ?? {};
  const parts: string[] = [];
  if (typeof data['by'] === 'string') parts.push(`by ${data['by']}`);
  if (typeof data['attempt'] === 'number' && data['attempt'] > 1) parts.push(`attempt ${data['attempt']}`);
  if (typeof data['node_id'] === 'string') parts.push(`on ${data['node_id']}`);
  if (Array.isArray(data['devices']) && data['devices'].length) parts.push(`GPU ${data['devices'].join(', ')}`);
  if (typeof data['detail'] === 'string') parts.push(data['detail']);
  else if (typeof data['exit_code'] === 'number') parts.push(`exit code ${data['exit_code']}`);
  else if (typeof data['cause'] === 'string' && event.kind !== 'cancelled') parts.push(data['cause']);
  if (event.kind === 'edited') parts.push(Object.keys(data).filter((name) => name !== 'by').join(', '));
  return parts.join(', ');
}
