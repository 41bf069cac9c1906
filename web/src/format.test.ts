import { describe, expect, it } from 'vitest';
import * as format from './format';

describe('numbers', () => {
  it('groups thousands and limits decimals', () => {
    expect(format.number(1234567)).toBe('1,234,567');
    expect(format.number(0.12345)).toBe('0.12');
    expect(format.number(null)).toBe('–');
    expect(format.number(Number.NaN)).toBe('–');
  });

  it('shortens large numbers without a four-digit mantissa', () => {
    expect([999, 1000, 12345, 999_950, 1_500_000].map(format.compact)).toEqual(['999', '1k', '12.3k', '1M', '1.5M']);
  });

  it('uses the singular for one', () => {
    expect([format.count(1, 'job'), format.count(1200, 'job')]).toEqual(['1 job', '1,200 jobs']);
    expect(format.count(0, 'query', 'queries')).toBe('0 queries');
  });

  it('writes sizes with binary units', () => {
    expect([0, 1023, 1536, 1024 ** 2 - 1].map(format.bytes)).toEqual(['0 B', '1023 B', '1.5 KiB', '1 MiB']);
    expect(format.mebibytes(16384)).toBe('16 GiB');
  });
});

describe('durations', () => {
  it('shows the two largest units', () => {
    const written = [0, 0.0004, 0.85, 2.5, 59.4, 60, 61, 3599.6, 5025, 86_399, 90_000, 864_000].map(format.duration);
    expect(written).toEqual([
      '0 s', '1 ms', '850 ms', '2.5 s', '59 s', '1 min', '1 min 1 s', '1 h', '1 h 24 min', '1 d', '1 d 1 h', '10 d',
    ]);
  });

  it('writes clocks as Slurm does', () => {
    expect([5, 65, 5025, 183_845].map(format.clockDuration)).toEqual(['0:05', '1:05', '1:23:45', '2-03:04:05']);
  });
});

describe('times', () => {
  const now = Date.UTC(2026, 10, 18, 9, 41, 7);

  it('says how long ago or ahead', () => {
    const at = (seconds: number) => format.relative(now + seconds * 1000, now);
    expect([-2, -30, -300, -7200, -3 * 86_400, 90, 7300].map(at)).toEqual([
      'just now', '30 s ago', '5 min ago', '2 h ago', '3 d ago', 'in 1 min', 'in 2 h',
    ]);
  });

  it('leaves out the date of today and the year of this year', () => {
    expect(format.shortTime(now - 3_600_000, now, 'UTC')).toBe('08:41');
    expect(format.shortTime(now - 86_400_000, now, 'UTC')).toBe('Nov 17, 09:41');
    expect(format.shortTime(now - 400 * 86_400_000, now, 'UTC')).toBe('Oct 14, 2025');
    expect(format.fullTime(now, 'UTC')).toBe('Nov 18, 2026, 09:41:07 UTC');
  });

  it('writes the time of day in the local zone to the millisecond', () => {
    const local = new Date(2026, 10, 18, 9, 4, 7, 25);
    expect(format.clockTime(local.getTime())).toBe('09:04:07.025');
  });
});
