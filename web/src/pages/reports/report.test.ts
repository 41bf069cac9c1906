import { expect, test } from 'vitest';
import { hours, nameOf, sorted, type Figures, type ReportRow } from './report';

const NONE: Figures = {
  attempts: 0, jobs: 0, wait_mean_s: 0, wait_max_s: 0, run_s: 0, cpu_s: 0, cpu_used_s: null, gpu_s: 0, gpu_used_s: null,
  gpu_measured_s: 0, gpu_wasted_s: null, gpu_hours: 0, lost_s: 0, lost_gpu_s: 0, cost: null, wait_p50_s: null,
  wait_p90_s: null, failed_s: null, failed_gpu_s: null,
};
const row = (user: string, figures: Partial<Figures>): ReportRow => ({ keys: { user }, figures: { ...NONE, ...figures } });

test('the parts of a bar add up to all GPU-hours', () => {
  const figures = { ...NONE, gpu_s: 36_000, gpu_measured_s: 28_800, gpu_used_s: 14_400, lost_gpu_s: 3600, failed_gpu_s: 3600 };
  const parts = hours(figures);
  expect(parts).toEqual({ used: 4, idle: 4, lost: 1, failed: 1, unknown: 0 });
  expect(Object.values(parts).reduce((sum, part) => sum + part)).toBeCloseTo(10);
});

test('what nobody measured is neither used nor idle', () => {
  expect(hours({ ...NONE, gpu_s: 7200 })).toEqual({ used: 0, idle: 0, lost: 0, failed: 0, unknown: 2 });
});

test('rows are sorted by a figure, those without it last', () => {
  const rows = [row('a', { gpu_wasted_s: null }), row('b', { gpu_wasted_s: 1 }), row('c', { gpu_wasted_s: 5 })];
  const names = (descending: boolean) => sorted(rows, 'user', 'gpu_wasted_s', descending).map((one) => nameOf(one, 'user'));
  expect(names(true)).toEqual(['c', 'b', 'a']);
  expect(names(false)).toEqual(['b', 'c', 'a']);
});

test('names are sorted as people count', () => {
  const rows = ['n10', 'n9', 'n1'].map((name) => row(name, {}));
  expect(sorted(rows, 'user', 'name', false).map((one) => nameOf(one, 'user'))).toEqual(['n1', 'n9', 'n10']);
});
