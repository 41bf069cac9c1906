/** The plan preview: when and where the job would start, what is in its way, and what would help. */

import type { ComponentChildren } from 'preact';
import { Bar } from '../../components/Bar';
import { Button } from '../../components/Button';
import { Icon, type IconName } from '../../components/Icon';
import { Time } from '../../components/Time';
import { amount, capital, count, duration } from '../../format';
import { href } from '../../router';
import type { Advice, Check, JobPreview, Preview, Quota } from './check';

type Tone = 'green' | 'blue' | 'amber' | 'red' | 'gray';

const LOOKS: Record<JobPreview['starts'], { tone: Tone; icon: IconName }> = {
  now: { tone: 'green', icon: 'play' },
  at: { tone: 'blue', icon: 'clock' },
  waits: { tone: 'amber', icon: 'pause' },
  never: { tone: 'red', icon: 'error' },
};

export interface Verdict {
  tone: Tone;
  icon: IconName;
  title: string;
  text?: ComponentChildren;
}

const NODES_NAMED = 3;

function where(job: JobPreview): string {
  const nodes = [...new Set(job.places.map((place) => place.node_id))];
  if (!nodes.length) return '';
  const more = nodes.length > NODES_NAMED ? ` and ${count(nodes.length - NODES_NAMED, 'more node')}` : '';
  const devices = job.places.length === 1 ? (job.places[0]?.devices ?? []) : [];
  return ` on ${nodes.slice(0, NODES_NAMED).join(', ')}${more}${devices.length ? ` with GPU ${devices.join(', ')}` : ''}`;
}

/** Seconds without a precision that no estimate has. */
function rounded(seconds: number): number {
  const step = seconds < 60 ? 1 : seconds < 3600 ? 60 : seconds < 86_400 ? 300 : 3600;
  return Math.round(seconds / step) * step;
}

/** One line about one job. */
export function headline(job: JobPreview): string {
  const behind = job.jobs_ahead ? `, behind ${count(job.jobs_ahead, 'job')}` : '';
  switch (job.starts) {
    case 'now':
      return `Starts now${job.starting_tasks < job.tasks ? ` with ${job.starting_tasks} of ${count(job.tasks, 'task')}` : ''}${where(job)}`;
    case 'at': {
      const time = duration(rounded(job.starts_in_s ?? 0));
      return `${job.is_lower_bound ? `Starts in ${time} at the earliest` : `Starts in about ${time}`}${where(job)}${behind}`;
    }
    case 'never':
      return 'Can never run';
    default:
      return `Waits, start unknown${behind}`;
  }
}

/** What the card says at a glance, and whether the job can be submitted. */
export function verdict(check: Check, pending: boolean): Verdict {
  if (check.error) return { tone: 'red', icon: 'error', title: 'Not checked', text: check.error };
  if (check.file?.problems.length) {
    return { tone: 'red', icon: 'error', title: `${count(check.file.problems.length, 'problem')} to correct`, text: check.file.problems[0]?.text };
  }
  const refusal = check.preview?.refusal;
  if (refusal) {
    const never = refusal.type.endsWith(':never-fits');
    const title = never ? 'Can never run here' : refusal.type.endsWith(':quota-exceeded') ? 'Over quota' : 'Would be refused';
    return { tone: 'red', icon: 'error', title, text: capital(refusal.detail.replace(/^.*?can never run here: /, '')) };
  }
  const jobs = check.preview?.jobs ?? [];
  const [first] = jobs;
  if (!first) {
    return pending
      ? { tone: 'gray', icon: 'clock', title: 'Checking …' }
      : { tone: 'gray', icon: 'info', title: 'No job yet', text: 'Write a command to see when and where it would start.' };
  }
  if (jobs.length === 1) return { ...LOOKS[first.starts], title: headline(first) };
  const now = jobs.filter((job) => job.starts === 'now').length;
  const all = check.preview?.job_count ?? jobs.length;
  return { ...LOOKS[now ? 'now' : first.starts], title: now ? `${now} of ${count(all, 'job')} start now` : headline(first) };
}

export interface PlanCardProps {
  /** The server's sentences in the words of the form. */
  check: Check;
  pending: boolean;
  /** Takes advice; left out where the text is edited by hand. */
  onAdvice?: (advice: Advice) => void;
}

export function PlanCard({ check, pending, onAdvice }: PlanCardProps) {
  const { tone, icon, title, text } = verdict(check, pending);
  const preview = check.preview;
  return (
    <section class={`plan-card tone-${tone}`} aria-label="Plan preview" aria-live="polite" aria-busy={pending}>
      <header class="plan-head">
        <Icon name={icon} />
        <h2>{title}</h2>
        {pending && <span class="spinner" aria-hidden="true" />}
      </header>
      {text && <p class="plan-text">{text}</p>}
      {preview && !preview.refusal && <Details preview={preview} onAdvice={onAdvice} />}
      {check.file?.warnings.map((warning) => (
        <Warning key={warning} text={warning} />
      ))}
    </section>
  );
}

function Details({ preview, onAdvice }: { preview: Preview; onAdvice?: (advice: Advice) => void }) {
  const [first] = preview.jobs;
  const several = preview.jobs.length > 1;
  return (
    <div class="plan-details">
      {!preview.planned && <Warning text="The scheduler does not answer now: the job was checked, and not planned." />}
      {several ? <Several preview={preview} /> : first && <One job={first} onAdvice={onAdvice} />}
      {preview.quotas.map((quota) => (
        <QuotaBars key={quota.tenant_id} quota={quota} />
      ))}
      {preview.warnings.map((warning) => (
        <Warning key={warning} text={warning} />
      ))}
    </div>
  );
}

function One({ job, onAdvice }: { job: JobPreview; onAdvice?: (advice: Advice) => void }) {
  const advice = job.advice;
  return (
    <>
      {job.starts === 'at' && job.starts_at && (
        <p class="plan-time">
          {job.start_interval ? (
            <>
              Between <Time at={job.start_interval.earliest} kind="short" /> and <Time at={job.start_interval.latest} kind="short" />, by{' '}
              {job.start_interval.basis}
            </>
          ) : (
            <Time at={job.starts_at} kind="full" />
          )}
        </p>
      )}
      {job.reasons.length > 0 && (
        <ul class="plan-reasons">
          {job.reasons.slice(0, 5).map((reason) => (
            <li key={reason.code + reason.text}>{capital(reason.text)}</li>
          ))}
        </ul>
      )}
      {job.preempts > 0 && (
        <p>
          {count(job.preempts, 'job')} would be preempted
          {job.preempted_jobs.length > 0 && ': '}
          {job.preempted_jobs.slice(0, 5).map((id, index) => (
            <>
              {index > 0 && ', '}
              <a href={href(`/jobs/${id}`)}>{id}</a>
            </>
          ))}
        </p>
      )}
      {job.held && <p>It waits for the quota of {job.tenant_id}.</p>}
      {advice && (
        <div class="plan-advice">
          <p>{capital(advice.text)}.</p>
          {onAdvice && (
            <Button size="small" onClick={() => onAdvice(advice)}>
              Change it
            </Button>
          )}
        </div>
      )}
    </>
  );
}

function Several({ preview }: { preview: Preview }) {
  const more = preview.job_count - preview.jobs.length;
  return (
    <ul class="plan-jobs">
      {preview.jobs.map((job, index) => (
        <li key={index} class={`tone-${LOOKS[job.starts].tone}`}>
          <Icon name={LOOKS[job.starts].icon} />
          <span>
            <strong>{job.name}</strong> {job.starts === 'waits' ? job.summary : headline(job)}
          </span>
        </li>
      ))}
      {more > 0 && <li class="muted">and {count(more, 'more job')}</li>}
    </ul>
  );
}

function QuotaBars({ quota }: { quota: Quota }) {
  const rows = [
    { name: 'GPUs', used: quota.gpu_used, limit: quota.gpu_limit },
    { name: 'CPUs', used: quota.cpu_used, limit: quota.cpu_limit },
  ].filter((row) => row.limit !== null);
  return (
    <>
      {rows.map(({ name, used, limit }) => (
        <div key={name} class="plan-quota">
          <div class="plan-quota-label">
            <span>
              {name} of {quota.tenant_id} afterwards
            </span>
            <span>
              {amount(used)} of {amount(limit)}
            </span>
          </div>
          <Bar label={`${name} of ${quota.tenant_id}`} parts={[{ label: 'used', value: used, colour: 'var(--accent)' }]} total={limit ?? 0} />
        </div>
      ))}
    </>
  );
}

function Warning({ text }: { text: string }) {
  return (
    <p class="plan-warning">
      <Icon name="warning" />
      <span>{capital(text)}</span>
    </p>
  );
}
