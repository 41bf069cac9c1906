/** Pages of the side navigation, with their keyboard shortcuts: `g`, then the letter. */

import type { IconName } from '../components/Icon';
import { may, user } from '../state/session';

export interface NavItem {
  path: string;
  label: string;
  icon: IconName;
  key: string;
  /** In the bar at the bottom of a phone; the others are behind "More". */
  main?: boolean;
  visible?: () => boolean;
}

export const NAVIGATION: readonly NavItem[] = [
  { path: '/', label: 'Overview', icon: 'overview', key: 'o', main: true },
  { path: '/jobs', label: 'Jobs', icon: 'jobs', key: 'j', main: true },
  { path: '/nodes', label: 'Nodes', icon: 'nodes', key: 'n', main: true },
  { path: '/queues', label: 'Queues', icon: 'queues', key: 'q', main: true },
  { path: '/timeline', label: 'Timeline', icon: 'timeline', key: 't' },
  { path: '/reports', label: 'Reports', icon: 'reports', key: 'r' },
  { path: '/submit', label: 'Submit', icon: 'submit', key: 's', visible: () => may('submit') },
  {
    path: '/admin',
    label: 'Admin',
    icon: 'admin',
    key: 'a',
    visible: () => may('administer') || may('read-audit') || may('manage-own') || may('manage-tenants'),
  },
];

export function visibleItems(): NavItem[] {
  return user.value ? NAVIGATION.filter((item) => item.visible?.() ?? true) : [];
}

/** Whether a page belongs to this item: /jobs/42 belongs to Jobs. */
export function isCurrent(item: NavItem, path: string): boolean {
  return item.path === '/' ? path === '/' : `${path}/`.startsWith(`${item.path}/`);
}
