/** Checks while the user writes: the text of a job file is read by the server, and its jobs are planned in a dry run. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { api, errorText, isAbort, pause } from '../../api/client';

export interface FileProblem {
  text: string;
  line: number | null;
  /** Key in the job file, or path in the manifest. */
  path: string;
  job: number | null;
}

export type Job = Record<string, unknown>;

export interface JobFile {
  format: 'tgpu' | 'slurm' | 'kubernetes' | 'script';
  jobs: Job[];
  warnings: string[];
  problems: FileProblem[];
}

export interface Advice {
  field: string;
  instead: unknown;
  text: string;
}

export interface JobPreview {
  name: string;
  tenant_id: string;
  tasks: number;
  held: boolean;
  starts: 'now' | 'at' | 'waits' | 'never';
  summary: string;
  starts_at: string | null;
  starts_in_s: number | null;
  is_lower_bound: boolean;
  start_interval: { earliest: string; expected: string; latest: string; basis: string } | null;
  starting_tasks: number;
  places: { node_id: string; devices: number[] }[];
  jobs_ahead: number;
  preempts: number;
  preempted_jobs: number[];
  reasons: { code: string; text: string }[];
  advice: Advice | null;
}

export interface Quota {
  tenant_id: string;
  gpu_limit: number | null;
  gpu_used: number;
  cpu_limit: number | null;
  cpu_used: number;
  mem_limit_mb: number | null;
  mem_used_mb: number;
}

export interface Refusal {
  type: string;
  detail: string;
  field: string | null;
}

export interface Preview {
  job_count: number;
  jobs: JobPreview[];
  planned: boolean;
  warnings: string[];
  quotas: Quota[];
  refusal: Refusal | null;
}

export interface Check {
  /** The text that was checked last; another one is on its way while it differs from the current text. */
  text: string;
  file: JobFile | null;
  preview: Preview | null;
  /** No answer: the server is away, or refused the request itself. */
  error: string | null;
}

const DEBOUNCE_MS = 300;
/** A plan is out of date soon: it is made again while the page is shown. */
const AGAIN_MS = 15_000;
const NOTHING: Check = { text: '', file: null, preview: null, error: null };

export const body = (jobs: readonly Job[]): unknown => (jobs.length === 1 ? jobs[0] : { jobs });

async function checked(text: string, name: string, signal: AbortSignal): Promise<Check> {
  try {
    const file = await api.post<JobFile>('/job-files', { text, name }, { signal });
    if (!file.jobs.length) return { text, file, preview: null, error: null };
    const preview = await api.post<Preview>('/jobs', body(file.jobs), { signal, query: { dry_run: 'report' } });
    return { text, file, preview, error: null };
  } catch (error) {
    if (isAbort(error)) throw error;
    return { text, file: null, preview: null, error: errorText(error) };
  }
}

/** What the server makes of the text; null while the first answer is awaited. */
export function useCheck(text: string, name = ''): { check: Check; pending: boolean } {
  const [check, setCheck] = useState<Check>(NOTHING);
  const [turn, setTurn] = useState(0);
  const last = useRef('');
  const empty = text.trim() === '';

  useEffect(() => {
    if (empty) {
      setCheck(NOTHING);
      return;
    }
    const stop = new AbortController();
    const wait = last.current === text ? 0 : DEBOUNCE_MS;
    last.current = text;
    pause(wait, stop.signal)
      .then(() => checked(text, name, stop.signal))
      .then((found) => {
        if (!stop.signal.aborted) setCheck(found);
      })
      .catch((error: unknown) => {
        if (!isAbort(error)) throw error;
      });
    return () => stop.abort();
  }, [text, name, turn]);

  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === 'visible' && setTurn((value) => value + 1), AGAIN_MS);
    return () => clearInterval(timer);
  }, []);

  return { check, pending: !empty && check.text !== text };
}
