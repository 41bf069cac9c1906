/** Answers of the endpoints for administration. */

import type { Role } from '../../api/types';

export const ROLES: readonly Role[] = ['viewer', 'user', 'operator', 'admin'];
export const EVERYWHERE = '*';

export interface Member {
  user_id: string;
  tenant_id: string;
  role: Role;
  by: string;
  at: string;
  has_account: boolean;
}

export interface Token {
  token_id: number;
  user_id: string;
  role: Role;
  note: string;
  created_at: string;
  expires_at: string | null;
  revoked: boolean;
  tenant_id: string | null;
  actions: string[];
  highest_class: string | null;
  jobs_left: number | null;
  gpu_hours_left: number | null;
  parent_token_id: number | null;
  has_account: boolean;
}

export interface NewToken extends Token {
  token: string;
  ends_with_parent: boolean;
}

export interface Secret {
  name: string;
  set_at: string;
}

export interface Setting {
  name: string;
  value: unknown;
  source: string;
  doc: string;
}

export interface AuditEntry {
  audit_id: number;
  at: string;
  user_id: string;
  via: string;
  address: string;
  token_id: number | null;
  action: string;
  target: string;
  before: unknown;
  after: unknown;
}

export interface Cluster {
  cluster_id: string;
  store: { program: string; revision: string; known_revision: string; clock_ahead_s: number };
  servers: {
    server_id: string;
    url: string;
    version: string;
    settings: string;
    started_at: string;
    leads: boolean;
    heard_s: number;
  }[];
}

export interface JoinToken {
  token_id: number;
  note: string;
  pool: string | null;
  created_by: string;
  created_at: string;
  expires_at: string | null;
  uses_left: number | null;
  revoked: boolean;
  node_name: string | null;
}

export interface NewJoinToken extends JoinToken {
  token: string;
}

export interface WaitingNode {
  node_id: string;
  approval: { since: string; token_id: number; address: string | null } | null;
}

/** Whether a token or join token can still be used. */
export function isOver(one: { revoked: boolean; expires_at: string | null }, now: number): boolean {
  return one.revoked || (one.expires_at !== null && Date.parse(one.expires_at) <= now);
}
