/** Why a job is pending: the reasons, the holders of what it needs, the expected start, and the smallest change that helps. */

import { api } from '../../api/client';
import { Prose } from '../../components/Code';
import { Button } from '../../components/Button';
import { Icon } from '../../components/Icon';
import { Panel } from '../../components/Page';
import { ErrorBox, Skeleton } from '../../components/States';
import { Duration, Time } from '../../components/Time';
import { User } from '../../components/User';
import { amount, capital, mebibytes, shortTime } from '../../format';
import { href } from '../../router';
import { now } from '../../state/clock';
import { useResource } from '../../state/resource';
import { shortReason } from '../jobs/why';
import type { Advice, Holder, Job, WhyAnswer } from '../../api/jobs';

export function WhyPanel({ job, onAdvice }: { job: Job; onAdvice: (advice: Advice) => void }) {
  const why = useResource((signal) => api.get<WhyAnswer>(`/jobs/${job.job_id}/why`, { signal }), [job.job_id, job.status, job.held_by], {
    kinds: null,
    debounceMs: 2000,
  });
  const answer = why.data;
  return (
    <Panel title="Why it is pending" actions={answer?.position != null && <span class="muted">Position {answer.position} in its queue</span>}>
      {why.error !== null && <ErrorBox error={why.error} onRetry={why.reload} />}
      {!answer && why.error === null && <Skeleton lines={3} />}
      {answer && (
        <div class="stack">
          <p class="why-summary"><Prose text={shortReason(answer.summary)} /></p>
          {answer.reasons.length > 1 && (
            <ul class="why-reasons">
              {answer.reasons.map((reason) => (
                <li key={reason.text}><Prose text={reason.text} /></li>
              ))}
            </ul>
          )}
          <ExpectedStart answer={answer} />
          {answer.advice && (
            <div class="why-advice">
              <Icon name="info" />
              <span>{capital(answer.advice.text)}.</span>
              {job.actions?.includes('edit') && (
                <Button size="small" onClick={() => answer.advice && onAdvice(answer.advice)}>
                  Apply…
                </Button>
              )}
            </div>
          )}
          {answer.holders.length > 0 && <Holders holders={answer.holders} />}
        </div>
      )}
    </Panel>
  );
}

function ExpectedStart({ answer }: { answer: WhyAnswer }) {
  const interval = answer.start_interval;
  const expected = interval?.expected ?? answer.starts_at;
  if (!expected) return <p class="muted">{answer.estimate ? capital(answer.estimate) : 'The start cannot be estimated yet.'}</p>;
  const at = (time: string) => shortTime(Date.parse(time), now.value);
  return (
    <div>
      <p>
        <b>Expected start:</b> <Time at={expected} /> ({at(expected)})
        {interval && (
          <>
            , between {at(interval.earliest)} and {at(interval.latest)}
          </>
        )}
      </p>
      <p class="muted">{interval ? `By ${interval.basis}. About eight of ten jobs start within the interval.` : answer.estimate}</p>
      {interval && answer.estimate && <p class="muted">{capital(answer.estimate)}.</p>}
    </div>
  );
}

function Holders({ holders }: { holders: readonly Holder[] }) {
  return (
    <div class="scroll-x">
      <table class="plain-table">
        <caption>Jobs that hold what it needs</caption>
        <thead>
          <tr>
            <th>Job</th>
            <th>User</th>
            <th>Node</th>
            <th>Holds</th>
            <th>Running for</th>
            <th>Remaining</th>
          </tr>
        </thead>
        <tbody>
          {holders.map((holder) => (
            <tr key={`${holder.job_id} ${holder.node_id}`}>
              <td>
                <a href={href(`/jobs/${holder.job_id}`)}>{holder.job_id}</a> {holder.name}
              </td>
              <td>
                <User name={holder.user} />
              </td>
              <td>{holder.node_id}</td>
              <td>{held(holder)}</td>
              <td>
                <Duration seconds={holder.running_s} />
              </td>
              <td>{holder.remaining_s === null ? <span class="muted">no limit</span> : <Duration seconds={holder.remaining_s} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function held(holder: Holder): string {
  const parts = [
    holder.gpu && `${amount(holder.gpu)} GPU${holder.gpu === 1 ? '' : 's'}`,
    holder.gpu_memory_mb && `${mebibytes(holder.gpu_memory_mb)} of a GPU`,
    holder.cpu && `${amount(holder.cpu)} CPUs`,
    holder.mem_mb && mebibytes(holder.mem_mb),
  ].filter(Boolean);
  return parts.join(', ');
}
