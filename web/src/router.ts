/** History routing below /ui/: the table of pages, the current location, and filters kept in the query string. */

import { computed, signal, type ReadonlySignal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useCallback, useEffect, useMemo } from 'preact/hooks';

export const BASE = '/ui';

/** Names of the parameters of a path: 'job_id' of '/jobs/:job_id'. */
type ParamsOf<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Record<Name, string> & ParamsOf<`/${Rest}`>
  : Path extends `${string}:${infer Name}`
    ? Record<Name, string>
    : unknown;

/** What a page component gets: `PageProps<'/jobs/:job_id'>` has `params.job_id`. */
export interface PageProps<Path extends string = string> {
  params: ParamsOf<Path>;
}

interface PageModule<Path extends string> {
  default: ComponentType<PageProps<Path>>;
}

export interface Route {
  path: string;
  title: string;
  load: () => Promise<{ default: ComponentType<PageProps> }>;
  /** Shown to signed-out visitors, too. */
  open: boolean;
}

function page<Path extends string>(
  path: Path,
  title: string,
  load: () => Promise<PageModule<Path>>,
  options: { open?: boolean } = {},
): Route {
  return { path, title, load: load as unknown as Route['load'], open: options.open ?? false };
}

/** Every page. The first path that matches is taken; `:name` stands for one segment. */
export const ROUTES: readonly Route[] = [
  page('/', 'Overview', () => import('./pages/overview')),
  page('/jobs', 'Jobs', () => import('./pages/jobs')),
  page('/jobs/:job_id', 'Job', () => import('./pages/job')),
  page('/jobs/:job_id/terminal', 'Terminal', () => import('./pages/terminal')),
  page('/nodes', 'Nodes', () => import('./pages/nodes')),
  page('/nodes/:node_id', 'Node', () => import('./pages/node')),
  page('/queues', 'Queues', () => import('./pages/queues')),
  page('/timeline', 'Timeline', () => import('./pages/timeline')),
  page('/reports', 'Reports', () => import('./pages/reports')),
  page('/submit', 'Submit', () => import('./pages/submit')),
  page('/admin', 'Admin', () => import('./pages/admin')),
  page('/signin', 'Sign in', () => import('./pages/signin'), { open: true }),
];

const NOT_FOUND = page('', 'Not found', () => import('./pages/notfound'), { open: true });

export interface Match {
  route: Route;
  params: Record<string, string>;
}

/** The parameters if the path matches the pattern, else null. A trailing slash makes no difference. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split('/').filter(Boolean);
  const given = path.split('/').filter(Boolean);
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? '';
    if (!part.startsWith(':')) {
      if (part !== value) return null;
      continue;
    }
    try {
      params[part.slice(1)] = decodeURIComponent(value);
    } catch {
      return null;
    }
  }
  return params;
}

export function matchRoute(path: string): Match {
  for (const route of ROUTES) {
    const params = matchPath(route.path, path);
    if (params) return { route, params };
  }
  return { route: NOT_FOUND, params: {} };
}

interface Location {
  /** Without /ui. */
  path: string;
  search: string;
  hash: string;
}

function here(): Location {
  const { pathname, search, hash } = window.location;
  const path = pathname.startsWith(BASE) ? pathname.slice(BASE.length) || '/' : pathname;
  return { path, search, hash };
}

const place = signal<Location>(here());

/** The current path without /ui: '/jobs/42'. */
export const path: ReadonlySignal<string> = computed(() => place.value.path);
export const query: ReadonlySignal<URLSearchParams> = computed(() => new URLSearchParams(place.value.search));
export const match: ReadonlySignal<Match> = computed(() => matchRoute(path.value));

type QueryValues = Record<string, string | number | boolean | null | undefined>;

/** The address of a page, for `<a href>`: `href('/jobs', { user: 'alice' })`. A click on it loads no document. */
export function href(to: string, values?: QueryValues): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values ?? {})) {
    if (value !== null && value !== undefined && value !== '') params.set(name, String(value));
  }
  const text = params.toString();
  return `${BASE}${to}${text ? `?${text}` : ''}`;
}

interface Entry {
  key: number;
}

const scrolls = new Map<number, number>();
let key = 0;

function keyOf(state: unknown): number {
  return typeof state === 'object' && state !== null && 'key' in state ? Number((state as Entry).key) : 0;
}

function scrollTo(y: number): void {
  // The page is drawn in the next frame, and its data may be there already.
  requestAnimationFrame(() => window.scrollTo(0, y));
}

/** Goes to a page: `navigate('/jobs/42')`, or an address made by `href`. */
export function navigate(to: string, options: { replace?: boolean } = {}): void {
  const address = to.startsWith(`${BASE}/`) || to === BASE ? to : `${BASE}${to}`;
  const before = place.peek().path;
  if (options.replace) {
    history.replaceState({ key } satisfies Entry, '', address);
  } else {
    scrolls.set(key, window.scrollY);
    key = Math.max(key, ...scrolls.keys()) + 1;
    history.pushState({ key } satisfies Entry, '', address);
  }
  place.value = here();
  if (place.peek().path !== before) scrollTo(0);
}

/** Follows clicks on links of the dashboard, and the buttons back and forward. */
export function startRouter(): void {
  history.scrollRestoration = 'manual';
  key = keyOf(history.state);
  history.replaceState({ key } satisfies Entry, '');
  window.addEventListener('popstate', (event) => {
    scrolls.set(key, window.scrollY);
    key = keyOf(event.state);
    place.value = here();
    scrollTo(scrolls.get(key) ?? 0);
  });
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a[href]') : null;
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute('download')) return;
    if (link.origin !== location.origin || !`${link.pathname}/`.startsWith(`${BASE}/`)) return;
    if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
    event.preventDefault();
    navigate(link.pathname + link.search + link.hash);
  });
}

/** Changes some parameters of the query string; null, '' and the page's default remove one. */
export function setQuery(values: QueryValues, options: { push?: boolean } = {}): void {
  const params = new URLSearchParams(place.peek().search);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === '' || value === false) params.delete(name);
    else params.set(name, String(value));
  }
  const text = params.toString();
  navigate(`${place.peek().path}${text ? `?${text}` : ''}`, { replace: !options.push });
}

/** A filter that is kept in the URL: its value, and how to change it. The default is not written there. */
export function useQueryParam(
  name: string,
  fallback = '',
): [value: string, set: (value: string, options?: { push?: boolean }) => void] {
  const value = query.value.get(name) ?? fallback;
  const set = useCallback(
    (next: string, options?: { push?: boolean }) => setQuery({ [name]: next === fallback ? null : next }, options),
    [name, fallback],
  );
  return [value, set];
}

/** The same for a set of words, written with commas between them. */
export function useQueryList(
  name: string,
): [values: readonly string[], set: (values: readonly string[], options?: { push?: boolean }) => void] {
  const text = query.value.get(name) ?? '';
  const values = useMemo(() => text.split(',').filter(Boolean), [text]);
  const set = useCallback(
    (next: readonly string[], options?: { push?: boolean }) => setQuery({ [name]: next.join(',') }, options),
    [name],
  );
  return [values, set];
}

/** The title of the browser's tab and of its history: "Job 42 · tgpu". */
export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · tgpu` : 'tgpu';
  }, [title]);
}
