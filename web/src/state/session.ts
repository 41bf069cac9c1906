/** Session: the signed-in user and the permissions. The cookie is half of the credential, the page key the other half. */

import { computed, signal } from '@preact/signals';
import type { Permission, Role, Whoami } from '../api/types';
import { read, storageKey, write } from './storage';

const KEY = 'page-key';

export type SignedOutReason =
  /** No session in this browser. */
  | 'none'
  /** The session expired or was revoked. */
  | 'ended'
  /** The server was started again, which ends sessions of a plain loopback port. */
  | 'restarted'
  /** The user signed out. */
  | 'left';

export type Session =
  | { state: 'loading' }
  | { state: 'signed-in'; user: Whoami }
  | { state: 'signed-out'; reason: SignedOutReason };

export const session = signal<Session>({ state: 'loading' });

export const user = computed(() => (session.value.state === 'signed-in' ? session.value.user : null));

export const pageKey = signal<string | null>(read(KEY));

export function keepPageKey(key: string): void {
  pageKey.value = key;
  write(KEY, key);
}

/** Takes over the key of another tab that signed in since; false if there is none. */
export function adoptPageKey(): boolean {
  const stored = read(KEY);
  if (stored === null || stored === pageKey.value) return false;
  pageKey.value = stored;
  return true;
}

/** Calls back when another tab signs in or out. */
export function watchPageKey(changed: (isSignedIn: boolean) => void): void {
  window.addEventListener('storage', (event) => {
    if (event.key === storageKey(KEY)) changed(event.newValue !== null);
  });
}

function forgetPageKey(): void {
  if (read(KEY) === pageKey.value) write(KEY, null);
  pageKey.value = null;
}

export function signedIn(who: Whoami): void {
  session.value = { state: 'signed-in', user: who };
}

/** Ends the session in this page. The page key is removed: it is of no use without the cookie. */
export function signedOut(reason: SignedOutReason): void {
  const current = session.value;
  if (current.state === 'signed-out' && current.reason !== 'none') return;
  forgetPageKey();
  session.value = { state: 'signed-out', reason };
}

/** Whether the API would allow this. Reading it in a component follows changes of the session. */
export function may(permission: Permission): boolean {
  return user.value?.may?.includes(permission) ?? false;
}

const ROLES: readonly Role[] = ['viewer', 'user', 'operator', 'admin'];

/** The highest role of the user anywhere, for display only; permissions are in `may`. */
export function highestRole(who: Whoami): Role | null {
  const roles = [who.role, who.home_role, ...who.memberships.map((one) => one.role)];
  return ROLES.filter((role) => roles.includes(role)).at(-1) ?? null;
}
