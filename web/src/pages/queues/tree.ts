/** Tree of tenants as rows: parents before children, collapsed branches left out. */

import type { Queue, Share, Tenant } from './types';

export interface TenantRow {
  share: Share;
  tenant: Tenant | null;
  queues: Queue[];
  depth: number;
  hasChildren: boolean;
  isOpen: boolean;
}

/** `collapsed`: tenants whose children are hidden. With `search`, all matches and their parents are shown. */
export function rowsOf(
  shares: readonly Share[],
  tenants: readonly Tenant[],
  queues: readonly Queue[],
  collapsed: ReadonlySet<string>,
  search = '',
): TenantRow[] {
  const children = new Map<string, Share[]>();
  const known = new Set(shares.map((share) => share.tenant_id));
  for (const share of shares) {
    const parent = share.parent_id !== null && known.has(share.parent_id) ? share.parent_id : '';
    children.set(parent, [...(children.get(parent) ?? []), share]);
  }
  const byId = new Map(tenants.map((tenant) => [tenant.tenant_id, tenant]));
  const waiting = new Map<string, Queue[]>();
  for (const queue of queues) waiting.set(queue.tenant_id, [...(waiting.get(queue.tenant_id) ?? []), queue]);
  const wanted = matching(shares, search);
  const rows: TenantRow[] = [];
  const visit = (parent: string, depth: number) => {
    const below = [...(children.get(parent) ?? [])].sort(bySize);
    for (const share of below) {
      const id = share.tenant_id;
      if (wanted && !wanted.has(id)) continue;
      const hasChildren = children.has(id);
      const isOpen = hasChildren && (wanted !== null || !collapsed.has(id));
      rows.push({ share, tenant: byId.get(id) ?? null, queues: waiting.get(id) ?? [], depth, hasChildren, isOpen });
      if (isOpen) visit(id, depth + 1);
    }
  };
  visit('', 0);
  return rows;
}

/** The largest use first, then by name. */
function bySize(one: Share, other: Share): number {
  return (
    other.dominant_share - one.dominant_share ||
    Number(other.active) - Number(one.active) ||
    one.tenant_id.localeCompare(other.tenant_id)
  );
}

function matching(shares: readonly Share[], search: string): Set<string> | null {
  const text = search.trim().toLowerCase();
  if (text === '') return null;
  const found = new Set<string>();
  for (const { tenant_id } of shares) {
    if (!tenant_id.toLowerCase().includes(text)) continue;
    const parts = tenant_id.split('/');
    parts.forEach((_, index) => found.add(parts.slice(0, index + 1).join('/')));
  }
  return found;
}

/** Of the tenants with pending jobs, the one that is served next: the least use for its weight. */
export function servedNext(shares: readonly Share[]): Share | null {
  const top = shares.filter((share) => share.parent_id === null && share.pending_jobs > 0);
  return top.reduce<Share | null>(
    (best, share) =>
      best === null || share.dominant_share / share.weight < best.dominant_share / best.weight ? share : best,
    null,
  );
}
