/** Overview: is the cluster healthy, who uses it, and when do the viewer's jobs start? */

import { useLayoutEffect, useMemo, useState } from 'preact/hooks';
import { Badge } from '../../components/Badge';
import { Segments } from '../../components/Field';
import { Icon } from '../../components/Icon';
import { Page, Panel, Stat } from '../../components/Page';
import { Empty, Skeleton } from '../../components/States';
import { Duration, Time } from '../../components/Time';
import { UtilizationChart, type ResourceName } from '../../components/UtilizationChart';
import { amount, count, mebibytes, number, percent } from '../../format';
import { href, useQueryParam } from '../../router';
import { may } from '../../state/session';
import { shares, useOverview, type AlertRow, type Cluster, type QueueRow, type ResourceSum } from '../../state/overview';
import { keepApart } from '../../state/userColours';
import { GpuMap, MOST_CARDS } from './GpuMap';
import { LatestEvents } from './LatestEvents';
import { Legend } from './Legend';
import { YourJobs } from './YourJobs';
import './overview.css';

export default function Overview() {
  const cluster = useOverview();
  return (
    <Page title="Overview" aside={cluster && <Summary cluster={cluster} />}>
      {cluster ? <Content cluster={cluster} /> : <Skeleton lines={8} />}
    </Page>
  );
}

function Summary({ cluster }: { cluster: Cluster }) {
  const away = cluster.nodes.status.filter((status) => status === 'offline').length;
  return (
    <>
      <span class="muted">{count(cluster.nodeCount, 'node')}</span>
      {away > 0 && (
        <a href={href('/nodes', { status: 'offline' })}>
          <Badge tone="red">{number(away)} offline</Badge>
        </a>
      )}
    </>
  );
}

function Content({ cluster }: { cluster: Cluster }) {
  const { alerts, queue } = cluster.sections;
  if (cluster.nodeCount === 0) return <NoNodes />;
  return (
    <div class="overview">
      {alerts.length > 0 && <Alerts alerts={alerts} />}
      <Figures cluster={cluster} />
      <div class="overview-main">
        <MapPanel cluster={cluster} />
        <UtilizationPanel cluster={cluster} />
      </div>
      <div class="overview-side">
        <YourJobs />
        <QueuePanel queue={queue} />
        <LatestEvents />
      </div>
    </div>
  );
}

function NoNodes() {
  return (
    <Empty title="No node has joined yet" icon="nodes">
      {may('administer') ? 'Run `tgpu nodes join-token` on a server, then start an agent on a node with it.' : 'An administrator adds nodes with `tgpu nodes join-token`.'}
    </Empty>
  );
}

function Alerts({ alerts }: { alerts: readonly AlertRow[] }) {
  return (
    <section class="alerts" aria-label="Active alerts">
      {alerts.map((alert) => (
        <div key={alert.name} class="alert" role="alert">
          <Icon name="warning" />
          <div class="alert-text">
            <b>{alert.name}</b> {alert.text}
          </div>
          <span class="muted">
            since <Time at={alert.since} kind="short" />
          </span>
        </div>
      ))}
    </section>
  );
}

function Figures({ cluster }: { cluster: Cluster }) {
  const { resources, jobs } = cluster.sections;
  return (
    <section class="figures" aria-label="Key figures">
      <Figure label="GPUs allocated" sum={resources.gpu} format={amount} used="busy" />
      <Figure label="CPUs allocated" sum={resources.cpu} format={(value) => number(value, 1)} used="used" />
      <Figure label="Memory allocated" sum={resources.mem_mb} format={mebibytes} used="used" />
      <Stat label="Running jobs" value={<a href={href('/jobs', { status: 'running' })}>{number(jobs.running)}</a>} />
      <Stat
        label="Pending jobs"
        value={<a href={href('/jobs', { status: 'pending' })}>{number(jobs.pending)}</a>}
        hint={jobs.held > 0 ? `${number(jobs.held)} more on hold or waiting for a dependency` : undefined}
      />
    </section>
  );
}

function Figure({ label, sum, format, used }: { label: string; sum: ResourceSum; format: (value: number) => string; used: string }) {
  const share = sum.total > 0 ? Math.min(1, sum.allocated / sum.total) : 0;
  const busy = sum.used !== null && sum.total > 0 ? Math.min(1, sum.used / sum.total) : null;
  return (
    <div class="stat figure">
      <div class="stat-label">{label}</div>
      <div class="stat-value">
        {format(sum.allocated)} <span class="figure-total">of {format(sum.total)}</span>
      </div>
      <div class="figure-bar" role="img" aria-label={`${percent(share)} allocated${busy === null ? '' : `, ${percent(busy)} ${used}`}`}>
        <span class="figure-allocated" style={{ width: `${share * 100}%` }} />
        {busy !== null && <span class="figure-used" style={{ width: `${busy * 100}%` }} />}
      </div>
      <div class="stat-hint">{busy === null ? percent(share) : `${percent(share)} · ${percent(busy)} ${used}`}</div>
    </div>
  );
}

function MapPanel({ cluster }: { cluster: Cluster }) {
  const [user, setUser] = useQueryParam('user');
  const chosen = user || null;
  const held = useMemo(() => shares(cluster), [cluster]);
  useLayoutEffect(() => keepApart(held.users.map(({ name }) => name)), [held]);
  return (
    <Panel
      title="GPUs"
      actions={
        cluster.deviceCount > MOST_CARDS && (
          <ul class="map-key" aria-label="Signs">
            <li><span class="key-scale" aria-hidden="true" /> idle to busy</li>
            <li><span class="key-sign tone-red" aria-hidden="true">✕</span> unhealthy</li>
            <li><span class="key-sign tone-amber" aria-hidden="true">▲</span> external process</li>
            <li><span class="key-sign tone-purple" aria-hidden="true">□</span> reserved</li>
          </ul>
        )
      }
    >
      {cluster.deviceCount === 0 ? (
        <Empty title="No node has a GPU" icon="nodes">Jobs run on CPUs; the Nodes page shows them.</Empty>
      ) : (
        <>
          <Legend shares={held} user={chosen} onUser={(name) => setUser(name ?? '')} />
          <GpuMap cluster={cluster} user={chosen} />
        </>
      )}
    </Panel>
  );
}

const RANGES = [
  { value: '1h', label: '1 h' },
  { value: '6h', label: '6 h' },
  { value: '24h', label: '24 h' },
  { value: '7d', label: '7 d' },
] as const;

const RESOURCES = [
  { value: 'gpu', label: 'GPU' },
  { value: 'cpu', label: 'CPU' },
  { value: 'mem_mb', label: 'Memory' },
] as const;

function UtilizationPanel({ cluster }: { cluster: Cluster }) {
  const hasGpus = cluster.deviceCount > 0;
  const [since, setSince] = useState<(typeof RANGES)[number]['value']>('24h');
  const [resource, setResource] = useState<ResourceName>(hasGpus ? 'gpu' : 'cpu');
  return (
    <Panel
      title="Utilization"
      actions={
        <>
          <Segments label="Resource" value={resource} options={hasGpus ? RESOURCES : RESOURCES.slice(1)} onChange={setResource} />
          <Segments label="Time" value={since} options={RANGES} onChange={setSince} />
        </>
      }
    >
      <UtilizationChart label="Utilization of the cluster" since={since} resource={resource} total={cluster.sections.resources[resource].total} height={180} />
    </Panel>
  );
}

function QueuePanel({ queue }: { queue: readonly QueueRow[] }) {
  const most = Math.max(1, ...queue.map((row) => row.pending));
  return (
    <Panel title="Queue" actions={<a href={href('/queues')}>Queues</a>}>
      {queue.length === 0 ? (
        <p class="muted">No task waits for resources.</p>
      ) : (
        <table class="queue-table">
          <thead>
            <tr>
              <th scope="col">Class</th>
              <th scope="col" class="queue-number">Pending tasks</th>
              <th scope="col" class="queue-number">Median wait</th>
              <th scope="col" class="queue-number">Longest</th>
            </tr>
          </thead>
          <tbody>
            {queue.map((row) => (
              <tr key={row.priority_class}>
                <th scope="row">{row.priority_class}</th>
                <td class="queue-number">
                  <span class="queue-bar" style={{ width: `${(row.pending / most) * 48}px` }} aria-hidden="true" />
                  {number(row.pending)}
                </td>
                <td class="queue-number"><Duration from={row.median_since} /></td>
                <td class="queue-number"><Duration from={row.oldest_since} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
