/** Answers of GET /shares, /tenants and /queues. */

import type { Role } from '../../api/types';

export interface Amounts {
  cpu: number;
  mem_mb: number;
  gpu: number;
}

export interface Share {
  tenant_id: string;
  parent_id: string | null;
  weight: number;
  fair_share: number | null;
  dominant_share: number;
  dominant_resource: string;
  held: Amounts;
  running_jobs: number;
  pending_jobs: number;
  active: boolean;
  may: { edit: boolean; add: boolean; highest_role: Role | null };
}

export interface ShareList {
  total: Amounts;
  tenants: Share[];
  complete: boolean;
  may_add: boolean;
}

export type Period = 'day' | 'week' | 'month' | 'ever';

export interface Quota {
  cpu_limit: number | null;
  mem_limit_mb: number | null;
  disk_limit_mb: number | null;
  gpu_limit: number | null;
  gpu_type_limits: Record<string, number>;
  generic_limits: Record<string, number>;
  running_jobs_limit: number | null;
  waiting_jobs_limit: number | null;
  gpu_hours_limit: number | null;
  gpu_hours_period: Period;
  cpu_used: number;
  mem_used_mb: number;
  disk_used_mb: number;
  gpu_used: number;
  gpu_type_used: Record<string, number>;
  generic_used: Record<string, number>;
  running_jobs_used: number;
  waiting_jobs_used: number;
  gpu_hours_used: number;
  gpu_hours_reserved: number;
  cpu_burst: number;
  mem_burst_mb: number;
  disk_burst_mb: number;
  gpu_burst: number;
  gpu_type_burst: Record<string, number>;
  generic_burst: Record<string, number>;
  version: number;
}

export interface Tenant {
  tenant_id: string;
  parent_id: string | null;
  weight: number;
  tier: string | null;
  archived: boolean;
  version: number;
  budget_gpu_hours: number | null;
  budget_period: Period;
  budget_used_gpu_hours: number | null;
  quota: Quota;
}

export interface Queue {
  queue_id: string;
  tenant_id: string;
  priority_class: string;
  depth: number;
  head_job_id: number | null;
  head_reasons: { code: string; text: string }[];
  weighted_share: number;
  dominant_share: number;
}
