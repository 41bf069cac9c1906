/** Text for numbers, sizes, durations and times: every page writes them in the same way. */

/** Shown where there is no value. */
export const NONE = '–';

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

type Maybe = number | null | undefined;

function missing(value: Maybe): value is null | undefined {
  return value === null || value === undefined || !Number.isFinite(value);
}

/** 1234567 → "1,234,567"; at most `digits` decimals. */
export function number(value: Maybe, digits = 2): string {
  if (missing(value)) return NONE;
  return value.toLocaleString('en-US', { maximumFractionDigits: digits });
}

/** 12345 → "12.3k", for labels with little room. */
export function compact(value: Maybe): string {
  if (missing(value)) return NONE;
  const steps: [number, string][] = [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ];
  for (const [size, letter] of steps) {
    // 999,950 would be written as "1000k"
    if (Math.abs(value) >= size * (size === 1e3 ? 1 : 0.99995)) return `${trimmed(value / size, 3)}${letter}`;
  }
  return trimmed(value, 3);
}

/** At most `significant` digits, without trailing zeros; whole numbers keep all of theirs. */
function trimmed(value: number, significant: number): string {
  const whole = Math.trunc(Math.abs(value)).toString().length;
  const text = value.toFixed(Math.max(0, significant - whole));
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** 0.4213 → "42 %"; `digits` decimals. */
export function percent(share: Maybe, digits = 0): string {
  return missing(share) ? NONE : `${(share * 100).toFixed(digits)} %`;
}

/** "1 job", "2 jobs", "1,200 jobs". */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${number(value)} ${value === 1 ? one : many}`;
}

/** Bytes with binary units: 1536 → "1.5 KiB". */
export function bytes(value: Maybe): string {
  if (missing(value)) return NONE;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1023.95 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${trimmed(size, 3)} ${units[unit]}`;
}

/** A field that ends with `_mb` counts MiB. */
export function mebibytes(value: Maybe): string {
  return missing(value) ? NONE : bytes(value * 1024 * 1024);
}

/** Seconds as the two largest units: 5025 → "1 h 23 min"; "850 ms" below a second. */
export function duration(seconds: Maybe): string {
  if (missing(seconds)) return NONE;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return '0 s';
  if (seconds < 0.9995) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 9.95) return `${trimmed(seconds, 2)} s`;
  const whole = Math.round(seconds);
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return pair(whole, MINUTE, 'min', 1, 's');
  const minutes = Math.round(whole / MINUTE) * MINUTE;
  if (minutes < DAY) return pair(minutes, HOUR, 'h', MINUTE, 'min');
  return pair(Math.round(whole / HOUR) * HOUR, DAY, 'd', HOUR, 'h');
}

function pair(value: number, large: number, largeName: string, small: number, smallName: string): string {
  const first = Math.floor(value / large);
  const second = Math.round((value % large) / small);
  return second === 0 ? `${first} ${largeName}` : `${first} ${largeName} ${second} ${smallName}`;
}

/** Seconds as a clock, for running times in tables: 5025 → "1:23:45", with days "2-03:04:05" as Slurm writes them. */
export function clockDuration(seconds: Maybe): string {
  if (missing(seconds)) return NONE;
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value: number) => String(value).padStart(2, '0');
  const [d, h, m, s] = [
    Math.floor(whole / DAY),
    Math.floor((whole % DAY) / HOUR),
    Math.floor((whole % HOUR) / MINUTE),
    whole % MINUTE,
  ];
  if (d > 0) return `${d}-${two(h)}:${two(m)}:${two(s)}`;
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** "5 min ago", "in 2 h", "just now": `at` and `now` in milliseconds. */
export function relative(at: number, now: number): string {
  const seconds = (at - now) / 1000;
  const size = Math.abs(seconds);
  if (size < 5) return 'just now';
  const text = size < MINUTE ? `${Math.floor(size)} s` : coarse(size);
  return seconds < 0 ? `${text} ago` : `in ${text}`;
}

function coarse(seconds: number): string {
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h`;
  const days = Math.floor(seconds / DAY);
  if (days < 60) return `${days} d`;
  return days < 730 ? `${Math.floor(days / 30)} months` : `${Math.floor(days / 365)} years`;
}

const FULL: Intl.DateTimeFormatOptions = {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
  timeZoneName: 'short',
};

/** The full date in the viewer's zone: "Nov 18, 2026, 09:41:07 GMT+1". */
export function fullTime(at: number, timeZone?: string): string {
  return new Intl.DateTimeFormat('en-US', { ...FULL, timeZone }).format(at);
}

/** The time of day in the viewer's zone, to the millisecond: "09:41:07.250". Cheap enough for each line of a log. */
export function clockTime(at: number): string {
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(11, 23);
}

/** The shortest date that is clear: "09:41" today, "Nov 17, 09:41" this year, else "Nov 17, 2025". */
export function shortTime(at: number, now: number, timeZone?: string): string {
  const part = (options: Intl.DateTimeFormatOptions, when: number) =>
    new Intl.DateTimeFormat('en-US', { hourCycle: 'h23', timeZone, ...options }).format(when);
  const day: Intl.DateTimeFormatOptions = { year: 'numeric', month: 'short', day: 'numeric' };
  const time: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit' };
  if (part(day, at) === part(day, now)) return part(time, at);
  if (part({ year: 'numeric' }, at) === part({ year: 'numeric' }, now)) {
    return part({ month: 'short', day: 'numeric', ...time }, at);
  }
  return part(day, at);
}

/** GPUs or CPUs: "2", "0.5", "1,024". */
export function amount(value: Maybe): string {
  return number(value, 3);
}

/** A sentence of the server begins with a small letter if it is part of a longer one. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
