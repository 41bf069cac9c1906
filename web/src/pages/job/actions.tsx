/** Actions on one job, each with the question that comes before it. */

import { api } from '../../api/client';
import { confirm } from '../../components/Dialog';
import { toast, toastError } from '../../components/Toast';
import { href, navigate } from '../../router';
import { isPending, type Job } from '../../api/jobs';

async function act(done: string, work: () => Promise<unknown>, reload: () => void): Promise<void> {
  try {
    await work();
    toast(done);
  } catch (error) {
    toastError(error);
  }
  reload();
}

export function cancelJob(job: Job, reload: () => void): void {
  void confirm({
    title: `Cancel job ${job.job_id}?`,
    text: isPending(job)
      ? 'It will not start. It can be retried later as a new job.'
      : 'Its tasks get SIGTERM, a grace period and then SIGKILL. Work that is not saved is lost.',
    action: 'Cancel job',
    danger: true,
    run: () => api.del(`/jobs/${job.job_id}`),
  }).then((done) => {
    if (done) toast(`Job ${job.job_id} is being cancelled.`);
    reload();
  });
}

export function holdJob(job: Job, reload: () => void): void {
  void act(`Job ${job.job_id} is held.`, () => api.post(`/jobs/${job.job_id}/hold`), reload);
}

export function releaseJob(job: Job, reload: () => void): void {
  void act(`Job ${job.job_id} is released.`, () => api.post(`/jobs/${job.job_id}/release`), reload);
}

export function resumeJob(job: Job, reload: () => void): void {
  void act(`Job ${job.job_id} is resumed.`, () => api.post(`/jobs/${job.job_id}/resume`), reload);
}

export function suspendJob(job: Job, reload: () => void): void {
  void confirm({
    title: `Suspend job ${job.job_id}?`,
    text: 'Running tasks are stopped with their grace period and start again when the job is resumed. Work that is not saved is lost.',
    action: 'Suspend job',
    run: () => api.post(`/jobs/${job.job_id}/suspend`),
  }).then(reload);
}

export function retryJob(job: Job, reload: () => void): void {
  const runs = job.status === 'running' || job.status === 'scheduled';
  let again: number | null = null;
  void confirm({
    title: `Retry job ${job.job_id}?`,
    text: runs
      ? 'It is stopped and started again. Work that is not saved is lost.'
      : 'What failed or was cancelled is submitted again as a new job, with the same dependencies.',
    action: 'Retry job',
    danger: runs,
    run: async () => {
      again = (await api.post<{ job_id: number | null }>(`/jobs/${job.job_id}/retry`, {})).job_id;
    },
  }).then((done) => {
    if (done) toast(again === null ? `Job ${job.job_id} starts again.` : `Job ${again} was submitted.`, again === null ? {} : { action: open(again) });
    reload();
  });
}

export function rerunJob(job: Job, reload: () => void): void {
  let again = 0;
  void confirm({
    title: `Run job ${job.job_id} again?`,
    text: 'A new job with the same command, environment, code snapshot and image is submitted, without its dependencies.',
    action: 'Run again',
    run: async () => {
      again = (await api.post<{ job_id: number }>(`/jobs/${job.job_id}/rerun`, {})).job_id;
    },
  }).then((done) => {
    if (done) toast(`Job ${again} was submitted.`, { action: open(again) });
    reload();
  });
}

function open(jobId: number): { label: string; run: () => void } {
  return { label: `Open job ${jobId}`, run: () => navigate(href(`/jobs/${jobId}`)) };
}
