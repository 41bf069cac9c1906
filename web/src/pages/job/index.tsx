/** Job: what does it do, why does it wait or fail, and what can be done about it? */

import { useState } from 'preact/hooks';
import { ApiError, api } from '../../api/client';
import type { JobEvent } from '../../api/types';
import { Badge, StatusBadge } from '../../components/Badge';
import { Button, ButtonLink } from '../../components/Button';
import { Code } from '../../components/Code';
import { Icon } from '../../components/Icon';
import { KeyValue } from '../../components/KeyValue';
import { Menu } from '../../components/Menu';
import { Page, Panel } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Tabs } from '../../components/Tabs';
import { Duration, Time } from '../../components/Time';
import { User } from '../../components/User';
import { href, useQueryParam, type PageProps } from '../../router';
import { useResource } from '../../state/resource';
import { cancelJob, holdJob, releaseJob, rerunJob, resumeJob, retryJob, suspendJob } from './actions';
import { Dependencies } from './Dependencies';
import { EditDialog } from './EditDialog';
import '../../components/plain-table.css';
import './job.css';
import { LogView } from './LogView';
import { RequestPanel, SpecPanel } from './SpecPanel';
import { Tasks } from './Tasks';
import { Attempts, Events } from './Timeline';
import { commandLine, isOver, isPending, type Advice, type Job } from '../../api/jobs';
import { capital } from '../../format';
import { UsagePanel } from './UsagePanel';
import { WhyPanel } from './WhyPanel';

export default function JobPage({ params }: PageProps<'/jobs/:job_id'>) {
  const id = Number(params.job_id);
  const job = useResource((signal) => api.get<Job>(`/jobs/${encodeURIComponent(params.job_id)}`, { query: { actions: true }, signal }), [params.job_id], {
    kinds: null,
    matters: (event) => (event.data as JobEvent | null)?.job_id === id,
    debounceMs: 300,
  });
  const { error } = job;
  const data = job.data?.job_id === id ? job.data : null;
  if (data === null) {
    return (
      <Page title={`Job ${params.job_id}`}>
        {error instanceof ApiError && error.status === 404 ? (
          <Empty title={`There is no job ${params.job_id}`} icon="jobs" action={<ButtonLink href={href('/jobs')}>All jobs</ButtonLink>}>
            It may have been removed, or you do not have the permission to see it.
          </Empty>
        ) : error !== null && !job.loading ? (
          <ErrorBox error={error} onRetry={job.reload} />
        ) : (
          <Skeleton lines={10} height="20px" />
        )}
      </Page>
    );
  }
  return <JobView key={id} job={data} error={error} reload={job.reload} />;
}

function JobView({ job, error, reload }: { job: Job; error: unknown; reload: () => void }) {
  const [tab, setTab] = useQueryParam('tab', 'overview');
  const [editing, setEditing] = useState<{ advice: Advice | null } | null>(null);
  const can = (action: NonNullable<Job['actions']>[number]) => job.actions?.includes(action) ?? false;
  const hasRun = (job.attempts ?? []).length > 0;
  const tabs = [
    { id: 'overview', label: 'Overview' },
    ...(can('logs') ? [{ id: 'log', label: 'Log' }] : []),
    ...(can('logs') && hasRun ? [{ id: 'usage', label: 'Usage' }] : []),
    ...(job.tasks > 1 ? [{ id: 'tasks', label: 'Tasks' }] : []),
    { id: 'dependencies', label: 'Dependencies' },
    { id: 'specification', label: 'Specification' },
  ];
  const current = tabs.some((one) => one.id === tab) ? tab : 'overview';
  return (
    <Page
      title={`${job.name || 'Job'} · ${job.job_id}`}
      heading={
        <>
          <span class="job-number">{job.job_id}</span> {job.name || <span class="muted">without a name</span>}
        </>
      }
      aside={<StatusLine job={job} />}
      actions={
        <>
          {can('terminal') && (
            <ButtonLink icon="terminal" href={href(`/jobs/${job.job_id}/terminal`)}>
              Terminal
            </ButtonLink>
          )}
          {can('release') && <Button icon="play" onClick={() => releaseJob(job, reload)}>Release</Button>}
          {can('resume') && <Button icon="play" onClick={() => resumeJob(job, reload)}>Resume</Button>}
          {can('hold') && <Button icon="pause" onClick={() => holdJob(job, reload)}>Hold</Button>}
          {can('edit') && <Button onClick={() => setEditing({ advice: null })}>Edit</Button>}
          {can('retry') && isOver(job) && <Button kind="primary" icon="refresh" onClick={() => retryJob(job, reload)}>Retry</Button>}
          {(can('rerun') || can('suspend') || (can('retry') && !isOver(job))) && (
            <Menu
              name="More actions"
              label={<Icon name="more" />}
              align="right"
              items={[
                can('retry') && !isOver(job) && { label: 'Restart', icon: 'refresh', onSelect: () => retryJob(job, reload) },
                can('rerun') && { label: 'Run again as a new job', icon: 'play', onSelect: () => rerunJob(job, reload) },
                can('suspend') && { label: 'Suspend', icon: 'pause', onSelect: () => suspendJob(job, reload) },
              ]}
            />
          )}
          {can('cancel') && (
            <Button kind="danger" icon="stop" onClick={() => cancelJob(job, reload)}>
              Cancel
            </Button>
          )}
        </>
      }
    >
      {error !== null && <ErrorBox error={error} onRetry={reload} />}
      <Tabs label="Parts of the job" tabs={tabs} current={current} onChange={(id) => setTab(id)}>
        {current === 'overview' && <Overview job={job} onAdvice={(advice) => setEditing({ advice })} />}
        {current === 'log' && (
          <LogView
            jobId={job.job_id}
            live={!isOver(job)}
            attempts={job.tasks === 1 ? job.attempt_count : 0}
            tasks={job.tasks}
            taskLabel={job.array !== null ? 'Index' : job.gang ? 'Rank' : 'Task'}
            firstTask={firstIndex(job)}
          />
        )}
        {current === 'usage' && <UsagePanel job={job} />}
        {current === 'tasks' && <Tasks job={job} />}
        {current === 'dependencies' && <Dependencies job={job} />}
        {current === 'specification' && <SpecPanel job={job} />}
      </Tabs>
      {editing && (
        <EditDialog
          job={job}
          advice={editing.advice}
          onClose={() => setEditing(null)}
          onDone={() => {
            setEditing(null);
            reload();
          }}
        />
      )}
    </Page>
  );
}

function firstIndex(job: Job): number {
  return job.task_list?.[0]?.array_index ?? 0;
}

function StatusLine({ job }: { job: Job }) {
  return (
    <>
      <StatusBadge status={job.status} />
      {job.held_by && !isOver(job) && <Badge tone="amber">held by {job.held_by}</Badge>}
      {job.suspended_by && !isOver(job) && <Badge tone="amber">suspended by {job.suspended_by}</Badge>}
      {job.cancel_requested_by && !isOver(job) && <Badge tone="red">being cancelled by {job.cancel_requested_by}</Badge>}
      {job.giving_way && <Badge tone="purple">being preempted</Badge>}
    </>
  );
}

function Overview({ job, onAdvice }: { job: Job; onAdvice: (advice: Advice) => void }) {
  return (
    <div class="job-columns">
      <div class="stack">
        {isPending(job) && <WhyPanel job={job} onAdvice={onAdvice} />}
        {isOver(job) && <Outcome job={job} />}
        {job.starting_note && <p class="why-advice">{job.starting_note}</p>}
        <Attempts job={job} />
        <Events job={job} />
      </div>
      <div class="stack">
        <Panel title="Job">
          <KeyValue
            pairs={[
              ['User', <User name={job.user_id} />],
              ['Tenant', job.tenant_id],
              ['Submitted', <Time at={job.submitted_at} />],
              ['Started', <Time at={job.started_at} />],
              job.ended_at !== null && ['Ended', <Time at={job.ended_at} />],
              job.started_at !== null && ['Run time', <Duration from={job.started_at} to={job.ended_at} />],
              job.assigned_node_id !== null && [
                'Node',
                <>
                  <a href={href(`/nodes/${encodeURIComponent(job.assigned_node_id)}`)}>{job.assigned_node_id}</a>
                  {job.devices.length > 0 && <span class="muted"> GPU {job.devices.join(', ')}</span>}
                </>,
              ],
              job.attempt_count > 1 && ['Attempts', job.attempt_count],
              job.last_saved_at !== null && ['Last checkpoint', <Time at={job.last_saved_at} />],
            ]}
          />
        </Panel>
        <RequestPanel job={job} />
        {job.command !== null && (
          <Panel title="Command">
            <Code text={commandLine(job.command)} label="Copy command" />
          </Panel>
        )}
      </div>
    </div>
  );
}

function Outcome({ job }: { job: Job }) {
  if (job.status === 'completed' && !(job.advice ?? []).length) return null;
  return (
    <Panel title={job.status === 'completed' ? 'Completed' : job.status === 'cancelled' ? 'Cancelled' : 'Why it failed'}>
      <div class="stack">
        {job.status !== 'completed' && <p class="why-summary">{job.reason ? capital(job.reason) : 'The reason is not visible to you.'}</p>}
        {(job.advice ?? []).map((line) => (
          <div key={line} class="why-advice">
            <Icon name="info" />
            <span>{line}</span>
          </div>
        ))}
        {job.actions?.includes('logs') && job.status === 'failed' && (
          <p>
            <a href={href(`/jobs/${job.job_id}`, { tab: 'log', stream: 'stderr' })}>Read its stderr</a>
          </p>
        )}
      </div>
    </Panel>
  );
}
