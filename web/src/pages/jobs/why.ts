/** Pending reasons of the jobs in view: asked for one after the other, and kept for half a minute. */

import { signal, type Signal } from '@preact/signals';
import { api } from '../../api/client';
import type { JobRow, Why } from '../../api/jobs';
import { capital } from '../../format';

const KEPT_MS = 30_000;
const AT_ONCE = 2;
const MOST_KEPT = 2000;

interface Entry {
  value: Signal<Why | null>;
  asked: number;
}

const entries = new Map<number, Entry>();
let queue: number[] = [];
let running = 0;

function entry(jobId: number): Entry {
  let found = entries.get(jobId);
  if (!found) {
    if (entries.size >= MOST_KEPT) entries.clear();
    found = { value: signal(null), asked: 0 };
    entries.set(jobId, found);
  }
  return found;
}

/** The reason as far as it is known; reading it in a component follows it. */
export function whyOf(jobId: number): Why | null {
  return entry(jobId).value.value;
}

/** These jobs are in view. What was asked for before and is not in view any more is dropped. */
export function wantReasons(rows: readonly JobRow[]): void {
  const now = Date.now();
  queue = rows.filter((row) => isPending(row) && now - entry(row.job_id).asked > KEPT_MS).map((row) => row.job_id);
  while (running < AT_ONCE && queue.length > 0) void work();
}

async function work(): Promise<void> {
  running += 1;
  try {
    for (let jobId = queue.shift(); jobId !== undefined; jobId = queue.shift()) {
      const found = entry(jobId);
      found.asked = Date.now();
      try {
        found.value.value = await api.get<Why>(`/jobs/${jobId}/why`, { retries: 0 });
      } catch {
        // The list is worth more than its reasons: they are asked for again later.
      }
    }
  } finally {
    running -= 1;
  }
}

function isPending(row: JobRow): boolean {
  return row.status === 'pending' || row.status === 'preempted';
}

/** What the row itself tells: no question is needed. */
export function knownReason(row: JobRow): string | null {
  if (row.ended_at) return row.reason && capital(row.reason);
  if (row.cancel_requested_by) return `Being cancelled by ${row.cancel_requested_by}`;
  if (row.giving_way) return 'Being preempted';
  if (!isPending(row)) return row.reason && capital(row.reason);
  if (row.held_by) return `Held by ${row.held_by}`;
  if (row.suspended_by) return `Suspended by ${row.suspended_by}`;
  return null;
}

/** "waits: needs 2 GPUs" → "Needs 2 GPUs". */
export function shortReason(summary: string): string {
  return capital(summary.replace(/^(it )?waits: /i, ''));
}
