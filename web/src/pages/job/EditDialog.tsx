/** Dialog to change a pending job. Only what was changed is sent. */

import { useState } from 'preact/hooks';
import { api } from '../../api/client';
import { FormDialog } from '../../components/Dialog';
import { Input, Select } from '../../components/Field';
import { toast } from '../../components/Toast';
import type { Advice, Job } from '../../api/jobs';
import { capital } from '../../format';

interface FieldSpec {
  name: keyof Job & string;
  label: string;
  hint?: string;
  kind: 'text' | 'number' | 'class';
  /** An empty field means none. */
  optional?: boolean;
}

const FIELDS: readonly FieldSpec[] = [
  { name: 'name', label: 'Name', kind: 'text' },
  { name: 'priority_class', label: 'Priority class', kind: 'class' },
  { name: 'priority', label: 'Priority', kind: 'number', hint: 'Within its class; a higher number goes first.' },
  { name: 'gpu_request', label: 'GPUs', kind: 'number' },
  { name: 'gpu_type', label: 'GPU model', kind: 'text', optional: true },
  { name: 'gpu_memory_mb', label: 'GPU memory (MiB)', kind: 'number' },
  { name: 'cpu_request', label: 'CPUs', kind: 'number' },
  { name: 'mem_request_mb', label: 'Memory (MiB)', kind: 'number' },
  { name: 'time_limit_s', label: 'Time limit (seconds)', kind: 'number', optional: true },
  { name: 'begin_at', label: 'Not before', kind: 'text', optional: true, hint: 'Such as 2026-01-31T12:00:00Z.' },
  { name: 'pool', label: 'Pool', kind: 'text', optional: true },
];
const CLASSES = ['real-time', 'high', 'default', 'low', 'best-effort'];

const written = (value: unknown) => (value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value));

export function EditDialog({ job, advice, onClose, onDone }: { job: Job; advice: Advice | null; onClose: () => void; onDone: () => void }) {
  const has_begun = job.status !== 'pending' && job.status !== 'preempted';
  const fields: FieldSpec[] = has_begun ? [] : [...FIELDS];
  if (job.array !== null) fields.push({ name: 'at_once', label: 'Tasks at once', kind: 'number', optional: true, hint: 'Running tasks are not stopped.' });
  const known = advice !== null && fields.some((field) => field.name === advice.field);
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(fields.map(({ name }) => [name, written(known && advice.field === name ? advice.instead : job[name])])),
  );
  const changes: Record<string, unknown> = advice !== null && !known ? { [advice.field]: advice.instead } : {};
  for (const { name, kind, optional } of fields) {
    const value = (values[name] ?? '').trim();
    if (value === written(job[name])) continue;
    changes[name] = value === '' && optional ? null : kind === 'number' ? Number(value) : value;
  }
  return (
    <FormDialog
      title={`Change job ${job.job_id}`}
      action="Save"
      wide
      disabled={Object.keys(changes).length === 0}
      run={() => api.patch(`/jobs/${job.job_id}`, changes)}
      onDone={() => {
        toast(`Job ${job.job_id} changed.`);
        onDone();
      }}
      onClose={onClose}
    >
      {(errorOf) => (
        <>
          {advice && <p>{capital(advice.text)}.</p>}
          <div class="form-grid">
            {fields.map(({ name, label, hint, kind }) => {
              const shared = { label, hint, value: values[name] ?? '', error: errorOf(name) };
              const set = (value: string) => setValues({ ...values, [name]: value });
              if (kind === 'class') return <Select key={name} {...shared} options={CLASSES} onChange={set} />;
              return <Input key={name} {...shared} type={kind === 'number' ? 'number' : 'text'} step="any" onInput={set} />;
            })}
          </div>
        </>
      )}
    </FormDialog>
  );
}
