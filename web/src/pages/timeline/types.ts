/** Answer of GET /timeline. */

import type { NodeState } from '../../api/types';

export interface TimelineNode {
  node_id: string;
  pool: string;
  status: NodeState;
  devices: { index: number; model: string }[];
  drained_at: string | null;
  drain_reason: string;
}

export interface Attempt {
  attempt_id: string;
  job_id: number;
  task_index: number;
  user_id: string;
  tenant_id: string;
  name: string;
  status: 'assigned' | 'running' | 'stopping' | 'ended';
  node_id: string;
  devices: number[];
  gpu: number;
  since: string;
  ended_at: string | null;
  ends_by: string | null;
  cause: string | null;
  /** Null: the user may not see how it ended. */
  failed: boolean | null;
}

export interface Planned {
  kind: 'reservation' | 'claim';
  job_id: number;
  task_index: number;
  user_id: string;
  name: string;
  node_id: string;
  devices: number[];
  starts_by: string;
  ends_by: string;
}

export interface KeptWindow {
  window_id: number;
  kind: 'maintenance' | 'reservation';
  name: string;
  tenant_id: string | null;
  nodes: string[];
  from: string;
  until: string;
}

export interface Timeline {
  since: string;
  until: string;
  now: string;
  nodes: TimelineNode[];
  attempts: Attempt[];
  planned: Planned[];
  windows: KeptWindow[];
  truncated: boolean;
  bin_s: number;
  load: { node_id: string; bins: [at: number, attempts: number, gpu_s: number, cpu_s: number][] }[];
  planned_known: boolean;
  complete: boolean;
  node_count: number;
  next_cursor: string | null;
}
