/** Answers of GET /jobs, GET /jobs/{job_id} and the endpoints below them. */

import type { JobEvent, JobStatus } from './types';

export type JobAction =
  | 'cancel'
  | 'hold'
  | 'release'
  | 'retry'
  | 'rerun'
  | 'edit'
  | 'suspend'
  | 'resume'
  | 'logs'
  | 'terminal';

/** What rows of the list and the whole job have in common. */
interface JobOutline {
  job_id: number;
  name: string;
  user_id: string;
  tenant_id: string;
  status: JobStatus;
  cause: string | null;
  reason: string | null;
  exit_code: number | null;
  cpu_request: number;
  mem_request_mb: number;
  priority_class: string;
  priority: number;
  time_limit_s: number | null;
  tasks: number;
  array: string | null;
  needs_met: boolean;
  begin_at: string | null;
  held: boolean;
  held_by: string | null;
  suspended_by: string | null;
  cancel_requested_by: string | null;
  assigned_node_id: string | null;
  devices: number[];
  attempt_count: number;
  submitted_at: string;
  started_at: string | null;
  ended_at: string | null;
  giving_way: boolean;
  actions?: JobAction[];
}

export interface JobRow extends JobOutline {
  gpus: number;
  task_counts?: Partial<Record<JobStatus, number>>;
  command: string | null;
  /** Of a pending job. */
  expected_start?: string | null;
  start_interval?: StartInterval | null;
  /** Why no start can be expected. */
  no_expected_start?: string | null;
}

export interface StartInterval {
  earliest: string;
  expected: string;
  latest: string;
  basis?: string | null;
}

export interface JobPage {
  jobs: JobRow[];
  next_cursor: number | string | null;
  total?: number;
  total_is_exact?: boolean;
}

export interface Attempt {
  attempt_id: string;
  task_index: number;
  number: number;
  status: string;
  node_id: string;
  devices: number[];
  assigned_at: string;
  started_at: string | null;
  ended_at: string | null;
  cause: string | null;
  reason: string | null;
  exit_code: number | null;
  signal: number | null;
  cpu_time_s: number | null;
  peak_memory_mb: number | null;
  gpu_busy_s: number | null;
  wait_s: number | null;
  run_s: number | null;
}

export interface Task {
  task_id: string;
  task_index: number;
  array_index: number | null;
  group: string;
  status: JobStatus;
  node_id: string | null;
  devices: number[];
  attempt_count: number;
  started_at: string | null;
  ended_at: string | null;
  reason: string | null;
  exit_code: number | null;
}

export interface Group {
  name: string;
  tasks: number;
  command: string[] | string | null;
  cpu_request: number;
  mem_request_mb: number;
  gpu_request: number;
  gpu_type: string | null;
}

export interface Job extends JobOutline {
  command: string[] | string | null;
  image: string | null;
  image_digest: string | null;
  mounts: string[] | null;
  env: Record<string, string> | null;
  secret_env: Record<string, string> | null;
  cwd: string | null;
  cpu_limit: number | null;
  mem_limit_mb: number | null;
  disk_request_mb: number;
  gpu_request: number;
  gpu_type: string | null;
  gpu_memory_mb: number;
  exclusive: boolean;
  generic: Record<string, number>;
  pool: string | null;
  node_selector: Record<string, string>;
  node_rules: string[];
  tolerations: string[];
  max_wait_s: number | null;
  requeue: boolean;
  pty: boolean;
  gang: boolean;
  nodes: number | null;
  at_once: number | null;
  backoff_limit: number | null;
  after: string[];
  deadline_at: string | null;
  task_counts: Partial<Record<JobStatus, number>>;
  last_saved_at: string | null;
  starting_note: string | null;
  output: string | null;
  error: string | null;
  snapshot: string | null;
  snapshot_commit: string | null;
  snapshot_dirty: boolean;
  groups?: Group[];
  task_list?: Task[];
  attempts?: Attempt[];
  advice?: string[];
  events?: JobEvent[];
}

export interface Holder {
  job_id: number;
  user: string;
  name: string;
  gpu: number;
  gpu_memory_mb: number;
  cpu: number;
  mem_mb: number;
  devices: number[];
  node_id: string;
  running_s: number | null;
  remaining_s: number | null;
}

export interface Advice {
  field: string;
  now: unknown;
  instead: unknown;
  text: string;
}

/** What a row shows of GET /jobs/{job_id}/why. */
export interface Why {
  waiting: boolean;
  summary: string;
  position: number | null;
}

export interface WhyAnswer extends Why {
  reasons: { code: string; text: string; data: Record<string, unknown> }[];
  holders: Holder[];
  starts_at: string | null;
  estimate: string | null;
  advice: Advice | null;
  start_interval?: StartInterval | null;
}

export interface Usage {
  attempt_id: string;
  status: string;
  node_id: string;
  started_at: string;
  measured_at: string | null;
  cpu_time_s: number;
  gpu_busy_s: number | null;
  throttled_percent: number | null;
  columns: Record<string, (number | null)[]>;
}

export const FINAL: readonly JobStatus[] = ['completed', 'failed', 'cancelled'];

export function isOver(job: { status: JobStatus }): boolean {
  return FINAL.includes(job.status);
}

export function isPending(job: { status: JobStatus }): boolean {
  return job.status === 'pending' || job.status === 'preempted';
}

/** The command as a line that can be copied to a shell. */
export function commandLine(command: readonly string[] | string | null): string {
  if (command === null) return '';
  if (typeof command === 'string') return command;
  return command.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
}
