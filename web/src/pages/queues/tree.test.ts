import { expect, test } from 'vitest';
import { rowsOf, servedNext } from './tree';
import type { Share } from './types';

function share(tenant_id: string, more: Partial<Share> = {}): Share {
  const parent_id = tenant_id.includes('/') ? tenant_id.slice(0, tenant_id.lastIndexOf('/')) : null;
  return {
    tenant_id,
    parent_id,
    weight: 1,
    fair_share: 0.5,
    dominant_share: 0,
    dominant_resource: '',
    held: { cpu: 0, mem_mb: 0, gpu: 0 },
    running_jobs: 0,
    pending_jobs: 0,
    active: false,
    may: { edit: false, add: false, highest_role: null },
    ...more,
  };
}

const names = (shares: Share[], collapsed: string[] = [], search = '') =>
  rowsOf(shares, [], [], new Set(collapsed), search).map((row) => `${'·'.repeat(row.depth)}${row.share.tenant_id}`);

test('children stand below their parent, the largest use first', () => {
  const shares = [share('b'), share('a'), share('b/y', { dominant_share: 0.5 }), share('b/x')];
  expect(names(shares)).toEqual(['a', 'b', '·b/y', '·b/x']);
  expect(names(shares, ['b'])).toEqual(['a', 'b']);
});

test('a child of a tenant that is not shown stands at the top', () => {
  expect(names([share('lab/ann')])).toEqual(['lab/ann']);
});

test('a search shows matches with their parents, also in collapsed branches', () => {
  const shares = [share('lab'), share('lab/ann'), share('lab/bob'), share('org')];
  expect(names(shares, ['lab'], 'ANN')).toEqual(['lab', '·lab/ann']);
});

test('the tenant with the least use for its weight is served next', () => {
  const shares = [
    share('a', { dominant_share: 0.4, weight: 4, pending_jobs: 1 }),
    share('b', { dominant_share: 0.2, weight: 1, pending_jobs: 1 }),
    share('c', { dominant_share: 0 }),
  ];
  expect(servedNext(shares)?.tenant_id).toBe('a');
  expect(servedNext([share('c')])).toBeNull();
});
