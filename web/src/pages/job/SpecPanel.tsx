/** Specification of a job: request and limits, command, environment, groups. */

import { useState } from 'preact/hooks';
import { Button } from '../../components/Button';
import { Code } from '../../components/Code';
import { KeyValue, type Pair } from '../../components/KeyValue';
import { Panel } from '../../components/Page';
import { Empty } from '../../components/States';
import { Time } from '../../components/Time';
import { amount, duration, mebibytes, number } from '../../format';
import { commandLine, type Job } from '../../api/jobs';

const MASK = '***';

export function RequestPanel({ job }: { job: Job }) {
  const list = (values: Record<string, string | number>) => Object.entries(values).map(([name, value]) => `${name}=${value}`).join(', ');
  const pairs: (Pair | false | null)[] = [
    ['GPUs', job.gpu_request ? `${amount(job.gpu_request)}${job.gpu_type ? ` × ${job.gpu_type}` : ''}` : 'none'],
    job.gpu_memory_mb > 0 && ['GPU memory', mebibytes(job.gpu_memory_mb)],
    ['CPUs', `${amount(job.cpu_request)}${job.cpu_limit && job.cpu_limit !== job.cpu_request ? `, at most ${amount(job.cpu_limit)}` : ''}`],
    ['Memory', job.mem_request_mb ? `${mebibytes(job.mem_request_mb)}${job.mem_limit_mb && job.mem_limit_mb !== job.mem_request_mb ? `, at most ${mebibytes(job.mem_limit_mb)}` : ''}` : 'none requested'],
    job.disk_request_mb > 0 && ['Disk', mebibytes(job.disk_request_mb)],
    job.tasks > 1 && ['Tasks', `${number(job.tasks)}${job.gang ? ', started together' : ''}${job.at_once ? `, at most ${number(job.at_once)} at once` : ''}`],
    job.nodes !== null && ['Nodes', number(job.nodes)],
    job.exclusive && ['Exclusive', 'whole nodes'],
    ['Time limit', job.time_limit_s === null ? 'none' : duration(job.time_limit_s)],
    job.max_wait_s !== null && ['Longest wait', duration(job.max_wait_s)],
    ['Priority', `${job.priority_class}${job.priority ? ` ${job.priority > 0 ? '+' : ''}${job.priority}` : ''}`],
    job.pool !== null && ['Pool', job.pool],
    Object.keys(job.generic).length > 0 && ['Other resources', list(job.generic)],
    Object.keys(job.node_selector).length > 0 && ['Node labels', list(job.node_selector)],
    job.node_rules.length > 0 && ['Node rules', job.node_rules.join(', ')],
    job.tolerations.length > 0 && ['Tolerations', job.tolerations.join(', ')],
    job.begin_at !== null && ['Not before', <Time at={job.begin_at} kind="full" />],
    job.deadline_at !== null && ['Deadline', <Time at={job.deadline_at} kind="full" />],
    job.backoff_limit !== null && ['Retries', number(job.backoff_limit)],
    job.after.length > 0 && ['Dependencies', job.after.join(', ')],
  ];
  return (
    <Panel title="Request and limits">
      <KeyValue pairs={pairs} />
    </Panel>
  );
}

export function SpecPanel({ job }: { job: Job }) {
  if (job.command === null) {
    return (
      <Empty title="Not visible to you" icon="info">
        The command, the environment and the directory of this job are shown to its user, to members of its tenant and to administrators.
      </Empty>
    );
  }
  return (
    <div class="stack">
      <Panel title="Command">
        <Code text={commandLine(job.command)} label="Copy command" />
      </Panel>
      <Panel title="Where it runs">
        <KeyValue
          pairs={[
            ['Directory', job.cwd],
            job.image !== null && ['Image', job.image],
            job.image_digest !== null && ['Image digest', <code>{job.image_digest}</code>],
            (job.mounts ?? []).length > 0 && ['Mounts', (job.mounts ?? []).join(', ')],
            job.output !== null && ['stdout also to', job.output],
            job.error !== null && ['stderr also to', job.error],
            job.snapshot !== null && ['Snapshot', <code>{job.snapshot}</code>],
            job.snapshot_commit !== null && ['Commit', `${job.snapshot_commit}${job.snapshot_dirty ? ' with changes' : ''}`],
          ]}
        />
      </Panel>
      <Environment job={job} />
      {job.groups && <Groups job={job} />}
    </div>
  );
}

function Environment({ job }: { job: Job }) {
  const [shown, setShown] = useState(false);
  const env = Object.entries(job.env ?? {}).sort(([one], [other]) => one.localeCompare(other));
  const secrets = Object.entries(job.secret_env ?? {});
  return (
    <Panel
      title={`Environment (${env.length + secrets.length})`}
      actions={
        env.length > 0 && (
          <Button size="small" aria-pressed={shown} onClick={() => setShown(!shown)}>
            {shown ? 'Hide values' : 'Show values'}
          </Button>
        )
      }
      flush
    >
      {env.length + secrets.length === 0 ? (
        <p class="panel-note">No variables were set for this job.</p>
      ) : (
        <div class="scroll-x">
          <table class="plain-table plain-wide">
            <tbody>
              {env.map(([name, value]) => (
                <tr key={name}>
                  <td class="env-name">
                    <code>{name}</code>
                  </td>
                  <td class="plain-text">{value === MASK ? <span class="muted">hidden: shown to the job's user only</span> : shown ? <code>{value}</code> : <span class="muted">••••••</span>}</td>
                </tr>
              ))}
              {secrets.map(([name, source]) => (
                <tr key={name}>
                  <td class="env-name">
                    <code>{name}</code>
                  </td>
                  <td class="plain-text">
                    <span class="muted">secret, from </span>
                    <code>{source}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

function Groups({ job }: { job: Job }) {
  return (
    <Panel title="Groups" flush>
      <div class="scroll-x">
        <table class="plain-table plain-wide">
          <thead>
            <tr>
              <th>Group</th>
              <th>Tasks</th>
              <th>GPUs</th>
              <th>CPUs</th>
              <th>Memory</th>
              <th>Command</th>
            </tr>
          </thead>
          <tbody>
            {job.groups?.map((group) => (
              <tr key={group.name}>
                <td>{group.name}</td>
                <td>{number(group.tasks)}</td>
                <td>{amount(group.gpu_request)}</td>
                <td>{amount(group.cpu_request)}</td>
                <td>{mebibytes(group.mem_request_mb)}</td>
                <td>
                  <code>{commandLine(group.command)}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
