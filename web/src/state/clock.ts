/** Server time, so that a wrong clock of the viewer's machine shows no wrong relative times. */

import { signal } from '@preact/signals';

/** Server time minus the viewer's clock, in milliseconds. */
export const clockOffset = signal(0);

/** Server time, renewed every second while the page is visible: read it to show "12 s ago". */
export const now = signal(Date.now());

export function serverNow(): number {
  return Date.now() + clockOffset.value;
}

/** `sent` and `received`: the viewer's clock around the request that answered `time`. */
export function learnServerTime(time: string, sent: number, received: number): void {
  const server = Date.parse(time);
  if (Number.isNaN(server) || received - sent > 5000) return;
  const offset = server - (sent + received) / 2;
  // Below a second it is the network, not the clock.
  clockOffset.value = Math.abs(offset) < 1000 ? 0 : offset;
  now.value = serverNow();
}

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = serverNow();
  }, 1000);
  document.addEventListener('visibilitychange', () => (now.value = serverNow()));
}
