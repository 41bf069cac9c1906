import { expect, test } from 'vitest';
import { quotaPatch } from './edit';

test('a patch of a quota has what differs, an empty field takes the limit away', () => {
  const before = { gpu_limit: '4', cpu_limit: '', mem_limit_mb: '16', gpu_hours_period: 'month', 'type:a100': '2' };
  const after = { gpu_limit: '', cpu_limit: '8', mem_limit_mb: '32', gpu_hours_period: 'week', 'type:a100': '1', 'type:h100': '1' };
  expect(quotaPatch(before, after)).toEqual({
    gpu_limit: null,
    cpu_limit: 8,
    mem_limit_mb: 32 * 1024,
    gpu_hours_period: 'week',
    gpu_type_limits: { a100: 1, h100: 1 },
  });
  expect(quotaPatch(before, before)).toEqual({});
});
