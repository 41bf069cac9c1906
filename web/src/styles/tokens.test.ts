import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const COLOURS = 8;

const css = readFileSync(new URL('./tokens.css', import.meta.url), 'utf8');

/** Colours by name of one theme. */
function palette(theme: 'light' | 'dark'): Map<string, string> {
  const block = css.split(`:root[data-theme='${theme}'] {`)[1]?.split('\n}')[0] ?? '';
  return new Map([...block.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, value]) => [name ?? '', value ?? '']));
}

function linear(part: number): number {
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}

function luminance(colour: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    return linear(Number.parseInt(colour.slice(at, at + 2), 16) / 255);
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(first: string, second: string): number {
  const [low, high] = [luminance(first), luminance(second)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** A colour in OKLab, where distances are those that eyes see, and as it looks with a kind of colour blindness. */
function oklab(colour: string, blindness?: readonly number[]): [number, number, number] {
  let rgb = [1, 3, 5].map((at) => linear(Number.parseInt(colour.slice(at, at + 2), 16) / 255)) as [number, number, number];
  if (blindness) rgb = apply(blindness, rgb).map((part) => Math.min(1, Math.max(0, part))) as [number, number, number];
  const cone = apply([0.4122214708, 0.5363325363, 0.0514459929, 0.2119034982, 0.6806995451, 0.1073969566, 0.0883024619, 0.2817188376, 0.6299787005], rgb);
  return apply(
    [0.2104542553, 0.793617785, -0.0040720468, 1.9779984951, -2.428592205, 0.4505937099, 0.0259040371, 0.7827717662, -0.808675766],
    cone.map(Math.cbrt) as [number, number, number],
  );
}

function apply(matrix: readonly number[], [x, y, z]: [number, number, number]): [number, number, number] {
  const row = (at: number) => (matrix[at] ?? 0) * x + (matrix[at + 1] ?? 0) * y + (matrix[at + 2] ?? 0) * z;
  return [row(0), row(3), row(6)];
}

/** Machado, Oliveira and Fernandes 2009, full severity. */
const BLINDNESS = {
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

function closest(colours: readonly string[], blindness?: readonly number[]): number {
  const seen = colours.map((colour) => oklab(colour, blindness));
  return Math.min(...seen.flatMap((one, at) => seen.slice(at + 1).map((other) => Math.hypot(...one.map((part, axis) => part - (other[axis] ?? 0))))));
}

describe.each(['light', 'dark'] as const)('%s theme', (theme) => {
  const colours = palette(theme);
  const of = (name: string) => colours.get(name) ?? expect.fail(`no colour --${name}`);
  const surfaces = ['bg', 'surface', 'surface-2', 'hover', 'selected'];
  const tones = ['green', 'amber', 'red', 'blue', 'purple', 'gray'];

  it.each([
    ...surfaces.flatMap((surface) => ['text', 'text-2', 'text-3', 'accent-text', ...tones].map((text) => [text, surface])),
    ...tones.map((tone) => [tone, `${tone}-soft`]),
    ['accent-text', 'accent-soft'],
    ['text', 'red-soft'],
    ['text', 'amber-soft'],
    ['on-accent', 'accent'],
    ['on-accent', 'accent-hover'],
    ['on-danger', 'danger'],
  ] as [string, string][])('text of --%s is readable on --%s', (text, ground) => {
    expect(contrast(of(text), of(ground))).toBeGreaterThanOrEqual(4.5);
  });

  it.each(['line-strong', 'focus', 'accent', 'chart-1', 'chart-2', 'chart-3', 'chart-4', 'chart-5', 'chart-6'])(
    'lines of --%s are visible',
    (line) => {
      expect(contrast(of(line), of('surface'))).toBeGreaterThanOrEqual(3);
      expect(contrast(of(line), of('bg'))).toBeGreaterThanOrEqual(3);
    },
  );

  const users = Array.from({ length: COLOURS }, (_, index) => `user-${index}`);

  it.each(users)('--%s is visible', (name) => {
    for (const ground of ['surface', 'bg']) expect(contrast(of(name), of(ground))).toBeGreaterThanOrEqual(3);
  });

  it('colours of users differ from each other and from GPUs of hidden users', () => {
    expect(closest(users.map(of))).toBeGreaterThan(0.135);
    expect(closest([...users.map(of), of('gray')])).toBeGreaterThan(0.07);
  });

  it.each(Object.entries(BLINDNESS))('colours of users differ with %s', (_, blindness) => {
    expect(closest(users.map(of), blindness)).toBeGreaterThan(0.085);
  });
});
