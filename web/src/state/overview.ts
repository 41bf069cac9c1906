/** Overview of the cluster: columns of nodes and GPUs, kept current by the event stream, shared by all pages that show them. */

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { RESYNC, subscribe, wantOverview } from '../api/events';
import type { NodeState } from '../api/types';

export const FREE = -1;
/** Held by a job that the viewer may not know of. */
export const HIDDEN = -2;

export const HEALTHY = 0;
export const UNHEALTHY = 1;
export const EXTERNAL = 2;
export const RESERVED = 3;

interface NodeColumns {
  name: string[];
  pool: string[];
  status: NodeState[];
  gpus: number[];
  cpu_total: number[];
  cpu_allocated: number[];
  cpu_used: (number | null)[];
  mem_total_mb: number[];
  mem_allocated_mb: number[];
  mem_used_mb: (number | null)[];
  silent_since: (string | null)[];
}

interface DeviceColumns {
  index: number[];
  model: number[];
  allocated: number[];
  busy_percent: (number | null)[];
  user: number[];
  job_id: number[];
}

export interface OverviewUser {
  user_id: string;
  tenant_id: string;
}

export interface QueueRow {
  priority_class: string;
  pending: number;
  oldest_since: string;
  median_since: string;
}

export interface ResourceSum {
  total: number;
  allocated: number;
  used: number | null;
}

export interface AlertRow {
  name: string;
  text: string;
  since: string;
}

interface Flags {
  drained: number[];
  reserved: number[];
  maintenance: number[];
  disk_full: number[];
}

interface Sections {
  users: OverviewUser[];
  flags: Flags;
  health: { unhealthy: number[]; external: number[] };
  queue: QueueRow[];
  jobs: { running: number; pending: number; held: number };
  resources: Record<'gpu' | 'cpu' | 'mem_mb', ResourceSum>;
  alerts: AlertRow[];
}

/** The whole document of GET /overview. */
export interface OverviewDocument extends Sections {
  whole: true;
  at: string;
  nodes: NodeColumns;
  devices: DeviceColumns;
  models: string[];
}

type Rows<Columns> = { row: number[] } & Partial<Columns>;

/** Only what has changed: new values of some rows, and sections that are replaced. */
export interface OverviewChanges extends Partial<Sections> {
  whole: false;
  at: string;
  nodes?: Rows<NodeColumns>;
  use?: Rows<NodeColumns>;
  devices?: Rows<DeviceColumns>;
  busy?: Rows<DeviceColumns>;
}

export type OverviewFrame = OverviewDocument | OverviewChanges;

/** The merged state. Values of a device are in typed arrays: there may be 80,000. */
export class Cluster {
  readonly nodes: NodeColumns;
  readonly models: string[];
  /** Of each node the place of its first device; one more at the end. */
  readonly firstDevice: Uint32Array;
  readonly nodeOf: Uint32Array;
  readonly deviceIndex: number[];
  readonly deviceModel: number[];
  readonly allocated: Float32Array;
  /** Percent; -1 if not measured. */
  readonly busy: Int8Array;
  readonly user: Int32Array;
  readonly job: Float64Array;
  readonly state: Uint8Array;
  sections: Sections;
  at: string;
  private flagSets: Record<keyof Flags, Set<number>> | null = null;

  constructor(document: OverviewDocument) {
    const { nodes, devices, models, at } = document;
    const count = devices.index.length;
    this.nodes = nodes;
    this.models = models;
    this.at = at;
    this.sections = document;
    this.firstDevice = new Uint32Array(nodes.name.length + 1);
    this.nodeOf = new Uint32Array(count);
    let next = 0;
    nodes.gpus.forEach((gpus, row) => {
      this.firstDevice[row] = next;
      this.nodeOf.fill(row, next, next + gpus);
      next += gpus;
    });
    this.firstDevice[nodes.name.length] = next;
    this.deviceIndex = devices.index;
    this.deviceModel = devices.model;
    this.allocated = Float32Array.from(devices.allocated);
    this.busy = Int8Array.from(devices.busy_percent, (value) => value ?? -1);
    this.user = Int32Array.from(devices.user);
    this.job = Float64Array.from(devices.job_id);
    this.state = new Uint8Array(count);
    this.setStates();
  }

  get deviceCount(): number {
    return this.user.length;
  }

  get nodeCount(): number {
    return this.nodes.name.length;
  }

  /** The cluster after these changes. The arrays are shared, and changed in place. */
  with(frame: OverviewChanges): Cluster {
    this.merge(frame);
    return Object.assign(Object.create(Cluster.prototype) as Cluster, this);
  }

  private merge(frame: OverviewChanges): void {
    this.at = frame.at;
    for (const rows of [frame.nodes, frame.use]) if (rows) setColumns(this.nodes, rows);
    const { devices, busy } = frame;
    if (devices) {
      devices.row.forEach((row, at) => {
        this.allocated[row] = devices.allocated?.[at] ?? 0;
        this.user[row] = devices.user?.[at] ?? FREE;
        this.job[row] = devices.job_id?.[at] ?? 0;
      });
    }
    if (busy) busy.row.forEach((row, at) => (this.busy[row] = busy.busy_percent?.[at] ?? -1));
    const { users, flags, health, queue, jobs, resources, alerts } = frame;
    const known = this.sections;
    this.sections = {
      users: users ?? known.users,
      flags: flags ?? known.flags,
      health: health ?? known.health,
      queue: queue ?? known.queue,
      jobs: jobs ?? known.jobs,
      resources: resources ?? known.resources,
      alerts: alerts ?? known.alerts,
    };
    if (flags || health) this.setStates();
  }

  /** The flags of a node: `has('drained', row)`. */
  has(flag: keyof Flags, row: number): boolean {
    if (this.flagSets === null) {
      const { flags } = this.sections;
      this.flagSets = {
        drained: new Set(flags.drained),
        reserved: new Set(flags.reserved),
        maintenance: new Set(flags.maintenance),
        disk_full: new Set(flags.disk_full),
      };
    }
    return this.flagSets[flag].has(row);
  }

  /** The name of the user that holds a device; null: free or hidden. */
  holder(device: number): string | null {
    return this.sections.users[this.user[device] ?? FREE]?.user_id ?? null;
  }

  private setStates(): void {
    const { flags, health } = this.sections;
    this.flagSets = null;
    this.state.fill(HEALTHY);
    for (const row of [...flags.reserved, ...flags.maintenance]) {
      this.state.fill(RESERVED, this.firstDevice[row], this.firstDevice[row + 1]);
    }
    for (const device of health.external) this.state[device] = EXTERNAL;
    for (const device of health.unhealthy) this.state[device] = UNHEALTHY;
  }
}

function setColumns(columns: NodeColumns, rows: Rows<NodeColumns>): void {
  for (const [name, values] of Object.entries(rows)) {
    if (name === 'row') continue;
    const column = (columns as unknown as Record<string, unknown[]>)[name];
    if (column) rows.row.forEach((row, at) => (column[row] = (values as unknown[])[at]));
  }
}

/** GPUs held by each user, the most first. A user with jobs in several tenants is one row. */
export interface UserShare {
  name: string;
  gpus: number;
  devices: number;
}

export interface Shares {
  users: UserShare[];
  hidden: number;
  free: number;
}

export function shares(cluster: Cluster): Shares {
  const { users } = cluster.sections;
  const gpus = new Float64Array(users.length);
  const devices = new Uint32Array(users.length);
  let hidden = 0;
  let free = 0;
  for (let device = 0; device < cluster.deviceCount; device++) {
    const user = cluster.user[device] ?? FREE;
    const allocated = cluster.allocated[device] ?? 0;
    if (user >= 0) {
      gpus[user] = (gpus[user] ?? 0) + allocated;
      devices[user] = (devices[user] ?? 0) + 1;
    } else if (user === HIDDEN) hidden += allocated;
    if (cluster.state[device] === HEALTHY) free += 1 - allocated;
  }
  const byName = new Map<string, UserShare>();
  users.forEach(({ user_id: name }, at) => {
    if (!devices[at]) return;
    const known = byName.get(name) ?? { name, gpus: 0, devices: 0 };
    known.gpus += gpus[at] ?? 0;
    known.devices += devices[at] ?? 0;
    byName.set(name, known);
  });
  const found = [...byName.values()].sort((one, other) => other.gpus - one.gpus || one.name.localeCompare(other.name));
  return { users: found, hidden, free };
}

/** The cluster: another object after each frame, with the same arrays. */
export const cluster = signal<Cluster | null>(null);

export function takeFrame(frame: OverviewFrame): void {
  if (frame.whole) cluster.value = new Cluster(frame);
  else if (cluster.value) cluster.value = cluster.value.with(frame);
}

/** Keeps `cluster` current while the page is shown. */
export function useOverview(): Cluster | null {
  useEffect(() => {
    wantOverview(true);
    const end = subscribe(['overview'], (event) => {
      if (event.kind !== RESYNC) takeFrame(event.data as OverviewFrame);
    });
    return () => {
      end();
      wantOverview(false);
    };
  }, []);
  return cluster.value;
}
