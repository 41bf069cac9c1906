import { describe, expect, it } from 'vitest';
import { Cluster, EXTERNAL, HEALTHY, HIDDEN, RESERVED, UNHEALTHY, shares, type OverviewDocument } from './overview';

function document(): OverviewDocument {
  return {
    whole: true,
    at: '2030-01-31T12:00:00.000Z',
    nodes: {
      name: ['n1', 'n2'],
      pool: ['a', 'a'],
      status: ['ready', 'ready'],
      gpus: [2, 1],
      cpu_total: [8, 8],
      cpu_allocated: [1, 0],
      cpu_used: [0.5, null],
      mem_total_mb: [1024, 1024],
      mem_allocated_mb: [0, 0],
      mem_used_mb: [77, null],
      silent_since: [null, null],
    },
    devices: {
      index: [0, 1, 0],
      model: [0, 0, 0],
      allocated: [1, 0.5, 0],
      busy_percent: [80, null, 0],
      user: [0, HIDDEN, -1],
      job_id: [7, 0, 0],
    },
    models: ['A100'],
    users: [
      { user_id: 'ada', tenant_id: 'lab' },
      { user_id: 'ada', tenant_id: 'org' },
    ],
    flags: { drained: [], reserved: [], maintenance: [], disk_full: [] },
    health: { unhealthy: [], external: [] },
    queue: [],
    jobs: { running: 1, pending: 0, held: 0 },
    resources: {
      gpu: { total: 3, allocated: 1.5, used: 0.8 },
      cpu: { total: 16, allocated: 1, used: 0.5 },
      mem_mb: { total: 2048, allocated: 0, used: 77 },
    },
    alerts: [],
  };
}

describe('Cluster', () => {
  it('knows the node of every device', () => {
    let cluster = new Cluster(document());
    expect([...cluster.nodeOf]).toEqual([0, 0, 1]);
    expect([...cluster.firstDevice]).toEqual([0, 2, 3]);
    expect([...cluster.busy]).toEqual([80, -1, 0]);
  });

  it('merges changed rows and leaves the others', () => {
    let cluster = new Cluster(document());
    cluster = cluster.with({
      whole: false,
      at: '2030-01-31T12:00:01.000Z',
      nodes: { row: [1], status: ['draining'], cpu_allocated: [4], mem_allocated_mb: [9], silent_since: [null] },
      use: { row: [0], cpu_used: [null], mem_used_mb: [80] },
      devices: { row: [2], allocated: [1], user: [1], job_id: [9] },
      busy: { row: [0, 2], busy_percent: [null, 5] },
    });
    expect(cluster.nodes.status).toEqual(['ready', 'draining']);
    expect(cluster.nodes.cpu_used).toEqual([null, null]);
    expect([...cluster.job]).toEqual([7, 0, 9]);
    expect([...cluster.busy]).toEqual([-1, -1, 5]);
    expect(cluster.sections.jobs.running).toBe(1);
    expect(cluster.holder(2)).toBe('ada');
    expect(cluster.holder(1)).toBeNull();
  });

  it('derives states of devices from sparse lists', () => {
    let cluster = new Cluster(document());
    cluster = cluster.with({
      whole: false,
      at: '',
      flags: { drained: [1], reserved: [0], maintenance: [], disk_full: [] },
      health: { unhealthy: [1], external: [2] },
    });
    expect([...cluster.state]).toEqual([RESERVED, UNHEALTHY, EXTERNAL]);
    expect(cluster.has('drained', 1)).toBe(true);
    expect(cluster.has('drained', 0)).toBe(false);
    cluster = cluster.with({ whole: false, at: '', flags: { drained: [], reserved: [], maintenance: [], disk_full: [] } });
    expect([...cluster.state]).toEqual([HEALTHY, UNHEALTHY, EXTERNAL]);
    expect(cluster.has('drained', 1)).toBe(false);
  });

  it('adds up the GPUs of a user over tenants', () => {
    let cluster = new Cluster(document());
    cluster = cluster.with({ whole: false, at: '', devices: { row: [2], allocated: [0.25], user: [1], job_id: [9] } });
    expect(shares(cluster)).toEqual({ users: [{ name: 'ada', gpus: 1.25, devices: 2 }], hidden: 0.5, free: 1.25 });
  });
});
