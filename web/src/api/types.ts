/** Answers of the server that several pages use. A page keeps types of its own endpoints in its folder. */

export type JobStatus =
  | 'pending'
  | 'scheduled'
  | 'running'
  | 'preempted'
  | 'completed'
  | 'failed'
  | 'cancelled';

export type NodeState = 'ready' | 'draining' | 'offline';

export type Role = 'viewer' | 'user' | 'operator' | 'admin';

/** Cluster-wide permissions. The server lists one only if it would allow the action. */
export type Permission =
  | 'submit'
  | 'manage-nodes'
  | 'manage-windows'
  | 'manage-tenants'
  | 'administer'
  | 'read-audit'
  | 'manage-own';

export interface Health {
  status: string;
  version: string;
  cluster_id: string;
  cluster_name?: string;
  time: string;
  store: string;
}

export interface Membership {
  tenant_id: string;
  role: Role;
}

export interface Whoami {
  user_id: string;
  uid: number;
  via: string;
  role: Role | null;
  home_tenant_id: string | null;
  home_exists: boolean;
  home_role: Role | null;
  memberships: Membership[];
  token_expires_at: string | null;
  may?: Permission[];
}

/** A job event of GET /events; `data` is null for jobs of which the caller sees only the outline. */
export interface JobEvent {
  seq: number;
  at: string;
  kind: string;
  job_id: number;
  task_index: number | null;
  user_id: string;
  data: Record<string, unknown> | null;
}

/** RFC 9457 problem details. */
export interface Problem {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  field?: string;
  [extra: string]: unknown;
}
