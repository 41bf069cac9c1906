/** Time scale of the timeline: range, zoom, pan and ticks. All times are milliseconds. */

export interface Range {
  from: number;
  until: number;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
export const SHORTEST = 2 * MINUTE;
export const LONGEST = 60 * DAY;
/** The furthest that the server plans ahead and that is shown. */
const MOST_AHEAD = 30 * DAY;
const MOST_BACK = 390 * DAY;

/** The last `past` milliseconds, and a sixth of that ahead. */
export function recent(now: number, past = DAY): Range {
  return { from: now - past, until: now + past / 6 };
}

/** Zooms by `factor` (2: twice as close) and keeps the moment at `share` (0: left, 1: right) where it is. */
export function zoom(range: Range, factor: number, share: number, now: number): Range {
  const length = range.until - range.from;
  const wanted = Math.min(LONGEST, Math.max(SHORTEST, length / factor));
  const fixed = range.from + length * share;
  return bounded({ from: fixed - wanted * share, until: fixed + wanted * (1 - share) }, now);
}

/** Moves by a share of the range: 0.25 goes a quarter of it into the future. */
export function pan(range: Range, share: number, now: number): Range {
  const by = (range.until - range.from) * share;
  return bounded({ from: range.from + by, until: range.until + by }, now);
}

/** Within what the server answers, with the same length. */
export function bounded(range: Range, now: number): Range {
  const length = Math.min(LONGEST, range.until - range.from);
  const until = Math.min(now + MOST_AHEAD, Math.max(now - MOST_BACK + length, range.until));
  return { from: Math.round(until - length), until: Math.round(until) };
}

/** What to load for a range: half of it more on each side, in steps, so that small moves need no request. */
export function toLoad(range: Range, now: number): Range {
  const length = range.until - range.from;
  const step = 2 ** Math.ceil(Math.log2(length / 4));
  const from = Math.floor((range.from - length / 4) / step) * step;
  const until = Math.ceil((range.until + length / 4) / step) * step;
  return { from, until: Math.min(until, now + MOST_AHEAD + DAY) };
}

export function covers(outer: Range, inner: Range): boolean {
  return outer.from <= inner.from && outer.until >= inner.until;
}

export function position(at: number, range: Range, width: number): number {
  return ((at - range.from) / (range.until - range.from)) * width;
}

export function timeAt(x: number, range: Range, width: number): number {
  return range.from + (x / width) * (range.until - range.from);
}

const STEPS = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY];

/** Moments for labels, at least `space` pixels apart, on full minutes, hours or days of the viewer's zone. */
export function ticks(range: Range, width: number, space = 80): { at: number; isDay: boolean }[] {
  const perPixel = (range.until - range.from) / Math.max(1, width);
  const step = STEPS.find((one) => one / perPixel >= space) ?? 28 * DAY;
  const found: { at: number; isDay: boolean }[] = [];
  const first = new Date(range.from);
  first.setHours(0, 0, 0, 0);
  for (let day = first; day.getTime() <= range.until; ) {
    const begins = day.getTime();
    const next = new Date(day);
    if (step >= DAY) {
      next.setDate(next.getDate() + step / DAY);
      if (begins >= range.from) found.push({ at: begins, isDay: true });
    } else {
      next.setDate(next.getDate() + 1);
      const last = Math.min(range.until + 1, next.getTime());
      const skip = Math.max(0, Math.ceil((range.from - begins) / step));
      for (let at = begins + skip * step; at < last; at += step) found.push({ at, isDay: at === begins });
    }
    day = next;
  }
  return found;
}
