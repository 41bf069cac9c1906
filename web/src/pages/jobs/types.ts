/** Answers of GET /jobs?view=list and of the bulk actions. */

import type { JobStatus } from '../../api/types';

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

export interface JobRow {
  job_id: number;
  name: string;
  user_id: string;
  tenant_id: string;
  status: JobStatus;
  cause: string | null;
  reason: string | null;
  exit_code: number | null;
  priority_class: string;
  priority: number;
  gpus: number;
  cpu_request: number;
  mem_request_mb: number;
  tasks: number;
  task_counts?: Partial<Record<JobStatus, number>>;
  array: string | null;
  command: string | null;
  assigned_node_id: string | null;
  devices: number[];
  attempt_count: number;
  submitted_at: string;
  started_at: string | null;
  ended_at: string | null;
  begin_at: string | null;
  time_limit_s: number | null;
  held: boolean;
  held_by: string | null;
  suspended_by: string | null;
  needs_met: boolean;
  cancel_requested_by: string | null;
  giving_way: boolean;
  actions?: JobAction[];
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

export interface Why {
  waiting: boolean;
  summary: string;
  position: number | null;
}
