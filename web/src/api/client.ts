/** HTTP client of the server: JSON in and out, problem details as ApiError, one place for 401 and outages. */

import { signal } from '@preact/signals';
import { capital } from '../format';
import { learnServerTime } from '../state/clock';
import { adoptPageKey, keepPageKey, pageKey, session, signedIn, signedOut, user, watchPageKey } from '../state/session';
import type { Health, Problem, Whoami } from './types';

/** A refusal of the server. `detail` is a sentence for the user; `field` names the field to blame, if any. */
export class ApiError extends Error {
  readonly status: number;
  readonly kind: string;
  readonly title: string;
  readonly detail: string;
  readonly field: string | null;
  readonly problem: Problem;

  constructor(status: number, problem: Problem) {
    const detail = problem.detail || problem.title || `The server answered with status ${status}.`;
    super(detail);
    this.name = 'ApiError';
    this.status = status;
    this.kind = (problem.type ?? '').replace('urn:tgpu:problem:', '');
    this.title = problem.title ?? '';
    this.detail = detail;
    this.field = typeof problem.field === 'string' ? problem.field : null;
    this.problem = problem;
  }
}

/** No answer at all: the server is away or the network is. */
export class OfflineError extends Error {
  constructor(cause: unknown) {
    super('The server does not answer. It may be restarting, or the network is down.', { cause });
    this.name = 'OfflineError';
  }
}

export type Query = Record<string, string | number | boolean | null | undefined | readonly (string | number)[]>;

export interface RequestOptions {
  query?: Query;
  signal?: AbortSignal;
  headers?: Record<string, string>;
  /** Attempts of a GET after a network failure or a 502, 503 or 504; 3 unless given. */
  retries?: number;
}

/** Whether the last request reached the server. */
export const reachable = signal(true);

/** The version of the server that loaded this page, and a newer one if it was upgraded since. */
export const serverVersion = signal<string | null>(null);
export const newVersion = signal<string | null>(null);
export const health = signal<Health | null>(null);

let wasUnreachable = false;

/** The path with its query; null, undefined and '' leave a parameter out, a list is joined with commas. */
export function withQuery(path: string, query?: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === null || value === undefined || value === '') continue;
    if (Array.isArray(value)) {
      if (value.length > 0) params.set(name, value.join(','));
    } else {
      params.set(name, String(value));
    }
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

export function authHeaders(): Record<string, string> {
  const key = pageKey.value;
  return key === null ? {} : { 'X-Tgpu-Page-Key': key };
}

/** One request without retries; the answer may be of any status. Throws OfflineError, or AbortError if aborted. */
export async function send(
  method: string,
  path: string,
  body?: unknown,
  options: RequestOptions = {},
): Promise<Response> {
  const headers: Record<string, string> = { Accept: 'application/json', ...authHeaders(), ...options.headers };
  const init: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store' };
  if (options.signal) init.signal = options.signal;
  if (body !== undefined) {
    if (typeof body === 'string' || body instanceof Blob) init.body = body;
    else {
      headers['Content-Type'] ??= 'application/json';
      init.body = JSON.stringify(body);
    }
  }
  let response: Response;
  try {
    response = await fetch(withQuery(path, options.query), init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    reachable.value = false;
    wasUnreachable = true;
    throw new OfflineError(error);
  }
  reachable.value = true;
  noteVersion(response.headers.get('x-tgpu-version'));
  return response;
}

async function problemOf(response: Response): Promise<ApiError> {
  let problem: Problem = {};
  try {
    problem = (await response.json()) as Problem;
  } catch {
    // A proxy in between answers with a page of its own.
  }
  return new ApiError(response.status, problem);
}

/** The ApiError of an answer that is none of 2xx. Ends the session in this page if the server does not know it. */
export async function refusal(response: Response): Promise<ApiError> {
  const error = await problemOf(response);
  // 421: on a loopback port the host name belongs to one server process, and this process has another one.
  if (response.status === 401 && adoptPageKey()) void followOtherTab();
  else if (response.status === 401 || response.status === 421) {
    const had = session.value.state === 'signed-in' || pageKey.value !== null;
    const restarted = response.status === 421 || (wasUnreachable && session.value.state === 'signed-in');
    signedOut(restarted ? 'restarted' : had ? 'ended' : 'none');
  }
  return error;
}

const TRANSIENT = new Set([502, 503, 504]);
const FIRST_PAUSE_MS = 300;

async function request<T>(method: string, path: string, body?: unknown, options: RequestOptions = {}): Promise<T> {
  const retries = method === 'GET' ? (options.retries ?? 3) : 0;
  for (let attempt = 0; ; attempt++) {
    let failure: unknown;
    try {
      const response = await send(method, path, body, options);
      if (response.ok) return await decoded<T>(response);
      failure = await refusal(response);
      if (!TRANSIENT.has(response.status)) throw failure;
    } catch (error) {
      const transient = error instanceof OfflineError || error === failure;
      if (!transient || (error instanceof ApiError && !TRANSIENT.has(error.status))) throw error;
      failure = error;
    }
    if (attempt >= retries) throw failure;
    await pause(FIRST_PAUSE_MS * 2 ** attempt * (0.75 + Math.random() / 2), options.signal);
  }
}

async function decoded<T>(response: Response): Promise<T> {
  if (response.status === 204) return undefined as T;
  const type = response.headers.get('content-type') ?? '';
  return (type.includes('json') ? await response.json() : await response.text()) as T;
}

/** Waits; ends at once with an AbortError if `signal` is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(done, ms);
    function done() {
      signal?.removeEventListener('abort', stop);
      resolve();
    }
    function stop() {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener('abort', stop, { once: true });
  });
}

export const api = {
  get: <T>(path: string, options?: RequestOptions) => request<T>('GET', path, undefined, options),
  post: <T>(path: string, body?: unknown, options?: RequestOptions) => request<T>('POST', path, body, options),
  put: <T>(path: string, body?: unknown, options?: RequestOptions) => request<T>('PUT', path, body, options),
  patch: <T>(path: string, body?: unknown, options?: RequestOptions) => request<T>('PATCH', path, body, options),
  del: <T>(path: string, body?: unknown, options?: RequestOptions) => request<T>('DELETE', path, body, options),
};

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** A sentence for the user about any error. */
export function errorText(error: unknown): string {
  if (error instanceof ApiError || error instanceof OfflineError) return sentence(error.message);
  return error instanceof Error ? error.message : String(error);
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? capital(text) : `${capital(text)}.`;
}

function noteVersion(version: string | null): void {
  if (version === null) return;
  if (serverVersion.value === null) serverVersion.value = version;
  else if (version !== serverVersion.value) newVersion.value = version;
}

/** Asks for time and version. Called at the start and after each reconnection. */
export async function checkHealth(): Promise<void> {
  const sent = Date.now();
  try {
    const response = await send('GET', '/healthz');
    if (!response.ok) return;
    const answer = (await response.json()) as Health;
    learnServerTime(answer.time, sent, Date.now());
    noteVersion(answer.version);
    health.value = answer;
  } catch (error) {
    if (!(error instanceof OfflineError)) throw error;
  }
}

/** Asks the server for the user of this session. Without a page key there is none, and no request is made. */
export async function loadSession(): Promise<void> {
  if (pageKey.value === null) {
    session.value = { state: 'signed-out', reason: 'none' };
    return;
  }
  try {
    signedIn(await api.get<Whoami>('/whoami'));
    wasUnreachable = false;
  } catch (error) {
    if (!(error instanceof ApiError) || session.value.state !== 'signed-out') throw error;
  }
}

/** Signs in by a one-time code or by a token. A refusal leaves the session of this browser as it is. */
export async function signIn(credential: { code: string; only_user_id?: string } | { token: string }): Promise<void> {
  const response = await send('POST', '/session', credential);
  if (!response.ok) throw await problemOf(response);
  const { page_key } = (await response.json()) as { page_key: string };
  keepPageKey(page_key);
  wasUnreachable = false;
  await loadSession();
}

/** Another tab signed in: this one continues with its session. A page of another user begins again, so that it shows nothing of the former one. */
async function followOtherTab(): Promise<void> {
  const before = user.value?.user_id;
  await loadSession();
  if (before !== undefined && user.value?.user_id !== before) location.reload();
}

export function followOtherTabs(): void {
  watchPageKey((isSignedIn) => {
    if (!isSignedIn) signedOut('left');
    else if (adoptPageKey()) void followOtherTab();
  });
}

export async function signOut(): Promise<void> {
  try {
    await api.del('/session');
  } finally {
    signedOut('left');
  }
}

