import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const css = readFileSync(new URL('./tokens.css', import.meta.url), 'utf8');

/** Colours by name of one theme. */
function palette(theme: 'light' | 'dark'): Map<string, string> {
  const block = css.split(`:root[data-theme='${theme}'] {`)[1]?.split('\n}')[0] ?? '';
  return new Map([...block.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, value]) => [name ?? '', value ?? '']));
}

function luminance(colour: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(first: string, second: string): number {
  const [low, high] = [luminance(first), luminance(second)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
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
});
