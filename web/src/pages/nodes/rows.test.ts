import { expect, it } from 'vitest';
import { filtered, sorted, type NodeRow } from './rows';

function row(at: number, more: Partial<NodeRow>): NodeRow {
  return {
    row: at, name: `n${at}`, pool: 'default', status: 'ready', gpus: 2, gpusAllocated: 0, busy: null,
    cpuShare: 0, memShare: 0, labels: {}, taints: [], drainReason: '', ...more,
  };
}

const rows = [
  row(0, { labels: { rack: 'r7' }, gpusAllocated: 2 }),
  row(1, { status: 'draining', drainReason: 'New fans', pool: 'big' }),
  row(2, { taints: ['spot=yes'], gpusAllocated: 1 }),
];
const none = { status: [], pool: [], label: '', text: '' };

it('filters by status, pool, label, taint and text', () => {
  const names = (filter: object) => filtered(rows, { ...none, ...filter }).map((one) => one.name);
  expect(names({})).toEqual(['n0', 'n1', 'n2']);
  expect(names({ status: ['draining'] })).toEqual(['n1']);
  expect(names({ pool: ['default'] })).toEqual(['n0', 'n2']);
  expect(names({ label: 'rack=r7' })).toEqual(['n0']);
  expect(names({ label: 'SPOT' })).toEqual(['n2']);
  expect(names({ text: 'fans' })).toEqual(['n1']);
  expect(names({ text: '(' })).toEqual([]);
});

it('sorts with the natural order among equals', () => {
  expect(sorted(rows, 'gpus', true).map((one) => one.name)).toEqual(['n0', 'n2', 'n1']);
  expect(sorted(rows, 'status', false).map((one) => one.name)).toEqual(['n1', 'n0', 'n2']);
  expect(sorted(rows, '', false).map((one) => one.name)).toEqual(['n0', 'n1', 'n2']);
});
