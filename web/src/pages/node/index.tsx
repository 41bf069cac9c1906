/** Node: its devices, tasks, use over time, labels and windows; drain, undrain and reserve. */

import { useEffect, useState } from 'preact/hooks';
import { api } from '../../api/client';
import type { NodeState } from '../../api/types';
import { Badge, StatusBadge } from '../../components/Badge';
import { Button } from '../../components/Button';
import { confirm } from '../../components/Dialog';
import { Segments } from '../../components/Field';
import { Icon } from '../../components/Icon';
import { KeyValue } from '../../components/KeyValue';
import { Page, Panel } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Duration, Time } from '../../components/Time';
import { toast } from '../../components/Toast';
import { User } from '../../components/User';
import { UtilizationChart } from '../../components/UtilizationChart';
import { NONE, amount, count, duration, mebibytes, number, percent } from '../../format';
import { href, type PageProps } from '../../router';
import { useResource } from '../../state/resource';
import { may } from '../../state/session';
import { userColour } from '../../state/userColours';
import { DrainDialog, ReserveDialog, undrain } from '../nodes/actions';
import '../../components/plain-table.css';
import './node.css';

interface Device {
  index: number;
  uuid: string;
  model: string;
  memory_mb: number;
  healthy: boolean;
  usable: boolean;
  note: string;
  numa_node: number | null;
  allocated: number;
  taken: boolean;
  holders: { job_id: number; user_id: string }[];
  busy_percent: number | null;
  memory_used_mb: number | null;
  foreign: { pid: number; user: string; program: string; memory_mb: number | null }[];
  temperature_c: number | null;
  power_w: number | null;
  throttled: string;
  ecc_uncorrected: number | null;
}

interface NodeDetail {
  node_id: string;
  pool: string;
  status: NodeState;
  cpu_total: number;
  cpu_allocated: number;
  cpu_used: number | null;
  mem_total_mb: number;
  mem_allocated_mb: number;
  mem_used_mb: number | null;
  disk_total_mb: number;
  disk_allocated_mb: number;
  gpu_total: number;
  gpu_allocated: number;
  generic_total: Record<string, number>;
  generic_allocated: Record<string, number>;
  devices: Device[];
  labels: Record<string, string>;
  taints: string[];
  serves: string;
  silent_s: number | null;
  drain: { reason: string; by: string; since: string } | null;
  fault: string;
  refused_copy: string;
  disk_shortage: string;
  approval: object | null;
}

interface Task {
  attempt_id: string;
  job_id: number;
  task_index: number;
  user_id: string;
  name: string;
  priority_class: string;
  status: string;
  since: string;
  time_limit_s: number | null;
  devices: number[];
  gpu: number;
  cpu: number;
  mem_mb: number;
}

interface WindowRow {
  window_id: number;
  kind: string;
  name: string;
  tenant_id: string | null;
  from: string;
  until: string;
  created_by: string;
  state: string;
}

interface Activity {
  tasks: Task[];
  hidden_tasks: number;
  windows: WindowRow[];
}

const RELOAD_MS = 5000;

export default function NodePage({ params }: PageProps<'/nodes/:node_id'>) {
  const name = params.node_id;
  const path = `/nodes/${encodeURIComponent(name)}`;
  const { data, error, reload } = useResource(
    async (signal) => {
      const [node, activity] = await Promise.all([
        api.get<NodeDetail>(path, { signal }),
        // A node that waits for approval has nothing on it, and the scheduler does not know it yet.
        api.get<Activity>(`${path}/activity`, { signal, retries: 0 }).catch(() => null),
      ]);
      return { node, activity };
    },
    [name],
    { kinds: null, debounceMs: 1000 },
  );
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && reload(), RELOAD_MS);
    return () => clearInterval(timer);
  }, []);
  const [dialog, setDialog] = useState<'drain' | 'reserve' | null>(null);
  if (!data) {
    return <Page title={`Node ${name}`}>{error ? <ErrorBox error={error} onRetry={reload} /> : <Skeleton lines={8} />}</Page>;
  }
  const { node, activity } = data;
  return (
    <Page
      title={`Node ${name}`}
      heading={name}
      aside={<Status node={node} windows={activity?.windows ?? []} />}
      actions={
        <>
          {may('manage-nodes') &&
            (node.drain ? (
              <Button onClick={() => void undrain([name]).then((done) => done && reload())}>Undrain</Button>
            ) : (
              <Button onClick={() => setDialog('drain')}>Drain</Button>
            ))}
          {may('manage-windows') && <Button onClick={() => setDialog('reserve')}>Reserve</Button>}
        </>
      }
    >
      <Notices node={node} />
      <div class="node-grid">
        <div class="node-main">
          <Panel title="GPUs">
            <Devices devices={node.devices} />
          </Panel>
          <Panel title="Tasks" actions={<span class="muted">{activity && count(activity.tasks.length + activity.hidden_tasks, 'task')}</span>}>
            <Tasks activity={activity} />
          </Panel>
          <Use node={node} />
        </div>
        <div class="node-side">
          <Panel title="Resources">
            <Resources node={node} />
          </Panel>
          <Panel title="Labels and taints">
            <Labels node={node} />
          </Panel>
          <Panel title="Reservations and maintenance">
            <Windows windows={activity?.windows ?? []} onChange={reload} />
          </Panel>
        </div>
      </div>
      {dialog === 'drain' && <DrainDialog names={[name]} onClose={() => setDialog(null)} onDone={reload} />}
      {dialog === 'reserve' && <ReserveDialog names={[name]} onClose={() => setDialog(null)} onDone={reload} />}
    </Page>
  );
}

function Status({ node, windows }: { node: NodeDetail; windows: readonly WindowRow[] }) {
  const open = windows.find((one) => one.state === 'open');
  return (
    <>
      <StatusBadge status={node.status} />
      {open && <Badge tone="purple">{open.kind === 'maintenance' ? 'maintenance' : `reserved for ${open.tenant_id}`}</Badge>}
      <span class="muted">
        pool {node.pool}
        {node.silent_s !== null && ` · not heard for ${duration(Math.round(node.silent_s))}`}
      </span>
    </>
  );
}

function Notices({ node }: { node: NodeDetail }) {
  const texts = [
    node.approval && 'This node has joined and waits for the approval of an administrator: tgpu nodes approve.',
    node.disk_shortage && `No new task starts: ${node.disk_shortage}`,
    node.fault,
    node.refused_copy,
  ].filter((text): text is string => Boolean(text));
  return (
    <>
      {node.drain && (
        <div class="node-notice">
          <Icon name="warning" />
          <span>
            Drained by {node.drain.by} <Time at={node.drain.since} />
            {node.drain.reason && `: ${node.drain.reason}`}
          </span>
        </div>
      )}
      {texts.map((text) => (
        <div key={text} class="node-notice" role="alert">
          <Icon name="warning" />
          <span>{text}</span>
        </div>
      ))}
    </>
  );
}

function Devices({ devices }: { devices: readonly Device[] }) {
  if (devices.length === 0) return <p class="muted">This node has no GPU.</p>;
  return (
    <ul class="devices">
      {devices.map((device) => (
        <DeviceCard key={device.index} device={device} />
      ))}
    </ul>
  );
}

function DeviceCard({ device }: { device: Device }) {
  const owner = device.holders[0]?.user_id;
  const colour = owner ? userColour(owner) : device.taken ? 'var(--gray)' : 'transparent';
  const free = !device.taken;
  return (
    <li class={`device ${free ? 'device-free' : ''} ${device.healthy ? '' : 'device-ill'}`} style={{ '--owner': colour }}>
      <div class="device-top">
        <b>GPU {device.index}</b>
        <span class="muted device-model" title={`${device.model} · ${device.uuid}`}>{device.model}</span>
        {!device.healthy && <Badge tone="red">unhealthy</Badge>}
        {device.foreign.length > 0 && <Badge tone="amber">external process</Badge>}
        {device.throttled && <Badge tone="amber" title="It runs slower than it could">throttled: {device.throttled}</Badge>}
      </div>
      <div class="device-holders">
        {device.holders.map((holder) => (
          <span key={holder.job_id} class="device-holder">
            <User name={holder.user_id} />
            <a href={href(`/jobs/${holder.job_id}`)}>Job {holder.job_id}</a>
          </span>
        ))}
        {device.taken && device.holders.length === 0 && <span class="muted">Another user</span>}
        {free && <span class="muted">{device.usable ? 'Free' : 'Not available'}</span>}
        {device.taken && device.allocated < 1 && <span class="muted">{amount(device.allocated)} of 1 allocated</span>}
      </div>
      {device.busy_percent !== null && <Measure label="Busy" share={device.busy_percent / 100} text={percent(device.busy_percent / 100)} />}
      {device.memory_used_mb !== null && device.memory_mb > 0 && (
        <Measure
          label="Memory"
          share={device.memory_used_mb / device.memory_mb}
          text={`${mebibytes(device.memory_used_mb)} / ${mebibytes(device.memory_mb)}`}
        />
      )}
      <div class="device-signs">
        {device.memory_used_mb === null && <span>{mebibytes(device.memory_mb)} memory</span>}
        {device.temperature_c !== null && <span>{device.temperature_c} °C</span>}
        {device.power_w !== null && <span>{device.power_w} W</span>}
        {Boolean(device.ecc_uncorrected) && <span class="device-bad">{count(device.ecc_uncorrected ?? 0, 'memory error')}</span>}
      </div>
      {device.note && <p class="device-note">{device.note}</p>}
      {device.foreign.map((use) => (
        <p key={use.pid} class="device-note">
          Process {use.pid} ({use.program}) of {use.user}
          {use.memory_mb !== null && `, ${mebibytes(use.memory_mb)}`}
        </p>
      ))}
    </li>
  );
}

function Measure({ label, share, text }: { label: string; share: number; text: string }) {
  return (
    <div class="measure">
      <span class="measure-label">{label}</span>
      <span class="measure-bar" role="img" aria-label={`${label}: ${text}`}>
        <span style={{ width: `${Math.min(1, share) * 100}%` }} />
      </span>
      <span class="measure-text">{text}</span>
    </div>
  );
}

function Tasks({ activity }: { activity: Activity | null }) {
  if (!activity || activity.tasks.length + activity.hidden_tasks === 0) return <Empty title="No task runs on this node" />;
  return (
    <div class="node-table-box">
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">Job</th>
            <th scope="col">User</th>
            <th scope="col">Status</th>
            <th scope="col">GPUs</th>
            <th scope="col" class="node-wide">CPU</th>
            <th scope="col" class="node-wide">Memory</th>
            <th scope="col">For</th>
            <th scope="col" class="node-wide">Time limit</th>
          </tr>
        </thead>
        <tbody>
          {activity.tasks.map((task) => (
            <tr key={`${task.job_id}.${task.task_index}`}>
              <td>
                <a href={href(`/jobs/${task.job_id}`)}>
                  {task.job_id}
                  {task.task_index > 0 && `.${task.task_index}`}
                  {task.name && ` · ${task.name}`}
                </a>
              </td>
              <td><User name={task.user_id} /></td>
              <td>{task.status}</td>
              <td>{task.devices.length > 0 ? task.devices.join(', ') : NONE}</td>
              <td class="node-wide">{number(task.cpu, 1)}</td>
              <td class="node-wide">{mebibytes(task.mem_mb)}</td>
              <td><Duration from={task.since} /></td>
              <td class="node-wide">{task.time_limit_s === null ? NONE : duration(task.time_limit_s)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {activity.hidden_tasks > 0 && <p class="muted node-hidden">{count(activity.hidden_tasks, 'task')} of other users</p>}
    </div>
  );
}

const RANGES = [
  { value: '1h', label: '1 h' },
  { value: '24h', label: '24 h' },
  { value: '7d', label: '7 d' },
] as const;

function Use({ node }: { node: NodeDetail }) {
  const [since, setSince] = useState<(typeof RANGES)[number]['value']>('24h');
  const shared = { since, node: node.node_id, height: 120 };
  return (
    <Panel title="Use over time" actions={<Segments label="Time" value={since} options={RANGES} onChange={setSince} />}>
      <div class="node-charts">
        {node.devices.length > 0 && (
          <section>
            <h3>GPU</h3>
            <UtilizationChart {...shared} label={`GPU utilization of ${node.node_id}`} resource="gpu" total={node.devices.length} />
          </section>
        )}
        <section>
          <h3>CPU</h3>
          <UtilizationChart {...shared} label={`CPU utilization of ${node.node_id}`} resource="cpu" total={node.cpu_total} />
        </section>
        <section>
          <h3>Memory</h3>
          <UtilizationChart {...shared} label={`Memory utilization of ${node.node_id}`} resource="mem_mb" total={node.mem_total_mb} />
        </section>
      </div>
    </Panel>
  );
}

function Resources({ node }: { node: NodeDetail }) {
  const line = (allocated: number, total: number, format: (value: number) => string, used?: number | null) => (
    <>
      {format(allocated)} of {format(total)}
      {used !== null && used !== undefined && <span class="muted"> · {format(used)} used</span>}
    </>
  );
  return (
    <KeyValue
      pairs={[
        node.devices.length > 0 && ['GPUs', line(node.gpu_allocated, node.gpu_total, amount)],
        ['CPUs', line(node.cpu_allocated, node.cpu_total, (value) => number(value, 1), node.cpu_used)],
        ['Memory', line(node.mem_allocated_mb, node.mem_total_mb, mebibytes, node.mem_used_mb)],
        ['Disk', line(node.disk_allocated_mb, node.disk_total_mb, mebibytes)],
        ...Object.entries(node.generic_total).map(
          ([name, total]) => [name, line(node.generic_allocated[name] ?? 0, total, amount)] as const,
        ),
        ['Runs jobs of', node.serves === '*' ? 'all users' : node.serves],
      ]}
    />
  );
}

function Labels({ node }: { node: NodeDetail }) {
  const labels = Object.entries(node.labels);
  if (labels.length + node.taints.length === 0) return <p class="muted">None.</p>;
  return (
    <>
      {node.taints.length > 0 && (
        <p class="node-taints">
          {node.taints.map((taint) => <Badge key={taint} tone="amber" title="Taint: only jobs that tolerate it start here">{taint}</Badge>)}
        </p>
      )}
      <KeyValue pairs={labels.map(([key, value]) => [key, value] as const)} />
    </>
  );
}

function Windows({ windows, onChange }: { windows: readonly WindowRow[]; onChange: () => void }) {
  if (windows.length === 0) return <p class="muted">None now or ahead.</p>;
  const cancel = (one: WindowRow) =>
    confirm({
      title: 'Cancel the reservation',
      text: `${one.name || 'The reservation'} ends now. The nodes are for all users again.`,
      action: 'Cancel reservation',
      danger: true,
      run: async () => {
        await api.del(`/windows/${one.window_id}`);
        toast('Cancelled the reservation.');
        onChange();
      },
    });
  return (
    <ul class="node-windows">
      {windows.map((one) => (
        <li key={one.window_id}>
          <div>
            <Badge tone={one.state === 'open' ? 'purple' : 'gray'}>{one.state === 'open' ? 'now' : 'ahead'}</Badge>{' '}
            <b>{one.name || (one.kind === 'maintenance' ? 'Maintenance' : 'Reservation')}</b>
          </div>
          <div class="muted">
            {one.tenant_id ? `for ${one.tenant_id}, ` : ''}
            <Time at={one.from} kind="short" /> to <Time at={one.until} kind="short" />, by {one.created_by}
          </div>
          {may('manage-windows') && (
            <Button size="small" kind="quiet" onClick={() => void cancel(one)}>
              Cancel
            </Button>
          )}
        </li>
      ))}
    </ul>
  );
}
