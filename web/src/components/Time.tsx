/** Times and durations that go on by themselves. */

import { NONE, clockDuration, duration, fullTime, relative, shortTime } from '../format';
import { now } from '../state/clock';

/** "5 min ago", with the full date in its title. `kind` `short` shows the clock time, `full` everything. */
export function Time({ at, kind = 'relative' }: { at: string | number | null | undefined; kind?: 'relative' | 'short' | 'full' }) {
  const ms = typeof at === 'string' ? Date.parse(at) : at;
  if (ms === null || ms === undefined || Number.isNaN(ms)) return <span class="muted">{NONE}</span>;
  const full = fullTime(ms);
  const text = kind === 'full' ? full : kind === 'short' ? shortTime(ms, now.value) : relative(ms, now.value);
  return (
    <time dateTime={new Date(ms).toISOString()} title={kind === 'full' ? undefined : full}>
      {text}
    </time>
  );
}

/** The time between two moments, or since the first one while there is no second. */
export function Duration({
  from,
  to,
  seconds,
  clock,
}: {
  from?: string | null;
  to?: string | null;
  seconds?: number | null;
  clock?: boolean;
}) {
  const write = clock ? clockDuration : duration;
  if (from === undefined) return <span>{write(seconds)}</span>;
  if (from === null) return <span class="muted">{NONE}</span>;
  const end = to ? Date.parse(to) : now.value;
  const length = Math.max(0, (end - Date.parse(from)) / 1000);
  return <span>{write(to ? length : Math.floor(length))}</span>;
}
