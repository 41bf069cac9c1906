/** Keyboard shortcuts of all pages: `g` and a letter go to a page, `/` searches, `?` shows the list. */

import { signal } from '@preact/signals';
import { navigate } from '../router';
import { visibleItems } from './navigation';

export const helpShown = signal(false);

const PREFIX_MS = 1500;

export function startShortcuts(): () => void {
  let prefixUntil = 0;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target) || document.querySelector('dialog[open]')) return;
    const afterG = event.timeStamp < prefixUntil;
    prefixUntil = 0;
    if (afterG) {
      const item = visibleItems().find((one) => one.key === event.key);
      if (!item) return;
      event.preventDefault();
      navigate(item.path);
    } else if (event.key === 'g') {
      prefixUntil = event.timeStamp + PREFIX_MS;
    } else if (event.key === '?') {
      event.preventDefault();
      helpShown.value = true;
    } else if (event.key === '/') {
      const field = document.querySelector<HTMLInputElement>('main [data-search]');
      if (!field) return;
      event.preventDefault();
      field.focus();
      field.select();
    }
  };
  document.addEventListener('keydown', onKeyDown);
  return () => document.removeEventListener('keydown', onKeyDown);
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !['checkbox', 'radio', 'button'].includes(target.type);
  return target.isContentEditable || target.closest('textarea, select, .xterm') !== null;
}
