/** Bulk actions: the requests, in parts that the server takes at once, and the outcome of all of them together. */

import { api } from '../../api/client';

export type BulkVerb = 'cancel' | 'hold' | 'release' | 'retry';

export interface Outcome {
  done: number[];
  /** Jobs that stay as they are, with the reason. */
  refused: { job_id: number; detail: string }[];
  /** Pairs of a retried job and the new job that replaces it. */
  replaced: { job_id: number; new_job_id: number }[];
}

interface Answer {
  cancelling?: number[];
  already_ended?: number[];
  held?: number[];
  released?: number[];
  retried?: { job_id: number; new_job_id: number | null; restarted: boolean }[];
  refused?: { job_id: number; detail: string }[];
  not_found: number[];
  forbidden: number[];
}

const MOST: Record<BulkVerb, number> = { cancel: 10_000, hold: 10_000, release: 10_000, retry: 1000 };

export type Post = (path: string, body: unknown) => Promise<Answer>;

/** `progress` is called with the number of jobs that are dealt with. */
export async function runBulk(
  verb: BulkVerb,
  ids: readonly number[],
  progress: (done: number) => void = () => {},
  post: Post = (path, body) => api.post<Answer>(path, body),
): Promise<Outcome> {
  const outcome: Outcome = { done: [], refused: [], replaced: [] };
  for (let start = 0; start < ids.length; start += MOST[verb]) {
    const some = ids.slice(start, start + MOST[verb]);
    collect(outcome, await post(`/jobs/${verb}`, { job_ids: some }));
    progress(start + some.length);
  }
  return outcome;
}

function collect(outcome: Outcome, answer: Answer): void {
  const because = (job_ids: readonly number[], detail: string) =>
    outcome.refused.push(...job_ids.map((job_id) => ({ job_id, detail })));
  outcome.done.push(...(answer.cancelling ?? []), ...(answer.held ?? []), ...(answer.released ?? []));
  for (const { job_id, new_job_id } of answer.retried ?? []) {
    outcome.done.push(job_id);
    if (new_job_id !== null) outcome.replaced.push({ job_id, new_job_id });
  }
  outcome.refused.push(...(answer.refused ?? []));
  because(answer.already_ended ?? [], 'It has already ended.');
  because(answer.not_found, 'There is no such job.');
  because(answer.forbidden, 'You do not have the permission for this job.');
}
