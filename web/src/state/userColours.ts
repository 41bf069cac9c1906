/** Colours of users: eight that colour-blind viewers can tell apart, too. Each user keeps one on every page, in both themes.
 *
 * A user's number is the colour, plus 8 for each further user that shares it. The name decides which colour is tried first, so most
 * users have the same one in every browser. The browser remembers the numbers until it signs out.
 */

import { signal } from '@preact/signals';
import { session } from './session';
import { read, write } from './storage';
import { token, type Theme } from './theme';

export const COLOURS = 8;
const KEY = 'user-colours';
const MOST_KEPT = 500;
/** Without a common divisor with 8, so that all colours are tried; neighbours in the palette are alike, so it is not 1. */
const STEP = 3;

export const numbers = signal<ReadonlyMap<string, number>>(stored());

session.subscribe(({ state }) => {
  if (state !== 'signed-out') return;
  numbers.value = new Map();
  write(KEY, null);
});

function stored(): Map<string, number> {
  try {
    const pairs = Object.entries(JSON.parse(read(KEY) ?? '{}') as Record<string, unknown>);
    return new Map(pairs.filter((pair): pair is [string, number] => Number.isInteger(pair[1]) && Number(pair[1]) >= 0));
  } catch {
    return new Map();
  }
}

function keep(all: ReadonlyMap<string, number>): void {
  write(KEY, JSON.stringify(Object.fromEntries([...all].slice(-MOST_KEPT))));
}

/** FNV-1a. */
function hash(name: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < name.length; at++) value = Math.imul(value ^ name.charCodeAt(at), 0x01000193);
  return (value ^ (value >>> 15)) >>> 0;
}

function numberOf(name: string): number {
  const all = numbers.value as Map<string, number>;
  const known = all.get(name);
  if (known !== undefined) return known;
  const number = firstFree(name, new Set(all.values()));
  // No component shows this user yet, so none has to be drawn again.
  all.set(name, number);
  keep(all);
  return number;
}

function firstFree(name: string, taken: ReadonlySet<number>): number {
  const wanted = hash(name) % COLOURS;
  for (let attempt = 0; ; attempt++) {
    const number = ((wanted + STEP * attempt) % COLOURS) + COLOURS * Math.floor(attempt / COLOURS);
    if (!taken.has(number)) return number;
  }
}

/** Gives different colours to the first eight of these users. One of them that shares a colour changes places with a user that is not among them. */
export function keepApart(names: readonly string[]): void {
  const top = names.slice(0, COLOURS);
  const all = new Map(top.map((name) => [name, numberOf(name)]));
  const used = new Set<number>();
  const sharing = top.filter((name) => {
    const colour = (all.get(name) ?? 0) % COLOURS;
    return used.has(colour) || !used.add(colour);
  });
  if (sharing.length === 0) return;
  const next = new Map(numbers.peek());
  for (const name of sharing) {
    const number = firstFree(name, used);
    const [other] = [...next].find(([, held]) => held === number) ?? [];
    if (other !== undefined) next.set(other, next.get(name) ?? number);
    next.set(name, number);
    used.add(number);
  }
  numbers.value = next;
  keep(next);
}

/** The colour of a user as CSS. */
export function userColour(name: string): string {
  return `var(--user-${numberOf(name) % COLOURS})`;
}

/** Whether another user had this colour first: its mark is a ring then. */
export function sharesColour(name: string): boolean {
  return numberOf(name) >= COLOURS;
}

const canvasColours = new Map<string, string>();

/** The colour for a canvas, which knows no custom properties. */
export function userCanvasColour(name: string, theme: Theme): string {
  const property = `--user-${numberOf(name) % COLOURS}`;
  const key = `${theme} ${property}`;
  let colour = canvasColours.get(key);
  if (colour === undefined) canvasColours.set(key, (colour = token(property)));
  return colour;
}
