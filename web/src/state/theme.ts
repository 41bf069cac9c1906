/** Theme: the system's, or the one that the user chose. `data-theme` on <html> is always `light` or `dark`. */

import { computed, effect, signal } from '@preact/signals';
import { read, write } from './storage';

export type ThemeChoice = 'system' | 'light' | 'dark';
export type Theme = 'light' | 'dark';

const KEY = 'theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const systemIsDark = signal(system.matches);
system.addEventListener('change', (event) => (systemIsDark.value = event.matches));

const stored = read(KEY);
export const themeChoice = signal<ThemeChoice>(stored === 'light' || stored === 'dark' ? stored : 'system');

export const theme = computed<Theme>(() => {
  if (themeChoice.value !== 'system') return themeChoice.value;
  return systemIsDark.value ? 'dark' : 'light';
});

effect(() => {
  document.documentElement.dataset['theme'] = theme.value;
});

export function chooseTheme(choice: ThemeChoice): void {
  themeChoice.value = choice;
  write(KEY, choice === 'system' ? null : choice);
}

/** The value of a custom property of tokens.css, for canvas. Read `theme.value` first to follow changes. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
