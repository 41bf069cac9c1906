/** GPUs as cards with labels: for workstations and small clusters. */

import { Badge, StatusBadge } from '../../components/Badge';
import { User } from '../../components/User';
import { amount, percent } from '../../format';
import { href } from '../../router';
import { EXTERNAL, FREE, HIDDEN, RESERVED, UNHEALTHY, type Cluster } from '../../state/overview';
import { userColour } from '../../state/userColours';
import { nodeHref } from './facts';

export function GpuCards({ cluster, user }: { cluster: Cluster; user: string | null }) {
  const rows = cluster.nodes.name.flatMap((_, row) => (cluster.nodes.gpus[row] ? [row] : []));
  return (
    <div class="gpu-nodes">
      {rows.map((row) => (
        <section key={cluster.nodes.name[row]} class="gpu-node" aria-label={`Node ${cluster.nodes.name[row]}`}>
          <NodeLine cluster={cluster} row={row} />
          <div class="gpu-cards">
            {Array.from({ length: cluster.nodes.gpus[row] ?? 0 }, (_, position) => (
              <GpuCard key={position} cluster={cluster} device={(cluster.firstDevice[row] ?? 0) + position} user={user} />
            ))}
          </div>
        </section>
      ))}
    </div>
  );
}

function NodeLine({ cluster, row }: { cluster: Cluster; row: number }) {
  const { nodes } = cluster;
  const name = nodes.name[row] ?? '';
  const status = nodes.status[row] ?? 'offline';
  const model = cluster.models[cluster.deviceModel[cluster.firstDevice[row] ?? 0] ?? 0];
  return (
    <div class="gpu-node-line">
      <a href={nodeHref(name)}>
        <b>{name}</b>
      </a>
      {status !== 'ready' && <StatusBadge status={status} />}
      {cluster.has('maintenance', row) && <Badge tone="purple">maintenance</Badge>}
      {cluster.has('reserved', row) && <Badge tone="purple">reserved</Badge>}
      {cluster.has('disk_full', row) && <Badge tone="red">disk full</Badge>}
      <span class="muted">{model}</span>
    </div>
  );
}

function GpuCard({ cluster, device, user }: { cluster: Cluster; device: number; user: string | null }) {
  const holder = cluster.user[device] ?? FREE;
  const name = cluster.holder(device);
  const job = cluster.job[device] ?? 0;
  const busy = cluster.busy[device] ?? -1;
  const allocated = cluster.allocated[device] ?? 0;
  const state = cluster.state[device] ?? 0;
  const dimmed = user !== null && name !== user;
  const colour = name ? userColour(name) : holder === HIDDEN ? 'var(--gray)' : 'transparent';
  return (
    <div
      class={`gpu-card ${holder === FREE ? 'gpu-free' : ''} ${dimmed ? 'gpu-dimmed' : ''} ${state === UNHEALTHY ? 'gpu-ill' : ''}`}
      style={{ '--owner': colour }}
    >
      <div class="gpu-card-top">
        <span class="gpu-number">GPU {cluster.deviceIndex[device]}</span>
        {state === UNHEALTHY && <Badge tone="red">unhealthy</Badge>}
        {state === EXTERNAL && <Badge tone="amber" title="A process outside of tgpu uses this GPU">external process</Badge>}
        {state === RESERVED && holder === FREE && <Badge tone="purple">reserved</Badge>}
        {holder !== FREE && allocated < 1 && <span class="muted">{amount(allocated)} of 1</span>}
      </div>
      <div class="gpu-card-holder">
        {name ? <User name={name} /> : holder === HIDDEN ? <span class="muted">Another user</span> : <span class="muted">{state === UNHEALTHY ? 'Not in use' : 'Free'}</span>}
        {job > 0 && <a href={href(`/jobs/${job}`)}>Job {job}</a>}
      </div>
      {busy >= 0 && (
        <div class="gpu-card-busy">
          <div class="gpu-meter" role="img" aria-label={`${busy} percent busy`}>
            <span style={{ width: `${busy}%` }} />
          </div>
          <span class="gpu-percent">{percent(busy / 100)}</span>
        </div>
      )}
    </div>
  );
}
