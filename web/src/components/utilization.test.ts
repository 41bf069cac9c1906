import { expect, it, vi } from 'vitest';

vi.mock('./Chart', () => ({ Chart: () => null }));
vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined }));
vi.stubGlobal('window', { location: { pathname: '/ui/', search: '', hash: '' } });
vi.stubGlobal('localStorage', { getItem: () => null });
vi.stubGlobal('document', { documentElement: { dataset: {} } });

it('shows shares of what there is, and ends now', async () => {
  const { lines } = await import('./UtilizationChart');
  const data = {
    since: '2030-01-31T12:00:00Z',
    until: '2030-01-31T12:25:00Z',
    step_s: 600,
    allocated: { gpu: [0, 2, 4], cpu: [1, 2, 3], mem_mb: [0, 0, 0] },
    measured: { gpu_busy_percent: [null, 50, 75], cpu: [1, null, 8], mem_mb: [null, null, null] },
  };
  const gpu = lines(data, 'gpu', 4);
  const start = Date.parse('2030-01-31T12:00:00Z') / 1000;
  expect(gpu.times).toEqual([start + 600, start + 1200, start + 1500]);
  expect(gpu.series.map((one) => one.values)).toEqual([
    [0, 0.5, 1],
    [null, 0.5, 0.75],
  ]);
  expect(lines(data, 'cpu', 4).series[1]?.values).toEqual([0.25, null, 1]);
  expect(lines(data, 'cpu', 0).series[0]?.values).toEqual([null, null, null]);
});
