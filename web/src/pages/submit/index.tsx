/** Submit: a form or a pasted file, checked while it is written, with the plan that the scheduler would make. */

import { useEffect, useMemo, useState } from 'preact/hooks';
import { api, errorText } from '../../api/client';
import { Button } from '../../components/Button';
import { Code } from '../../components/Code';
import { Icon } from '../../components/Icon';
import { Page } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Tabs } from '../../components/Tabs';
import { toast } from '../../components/Toast';
import { count } from '../../format';
import { href, navigate, setQuery, useQueryParam } from '../../router';
import { may, user } from '../../state/session';
import { useResource } from '../../state/resource';
import { body, useCheck, type Advice, type Check, type Job } from './check';
import { Editor } from './Editor';
import { fieldText, fromJob, inOwnWords, toCommand, toYaml, type JobField, type Values } from './fields';
import { Form } from './Form';
import { PlanCard, verdict } from './PlanCard';
import './submit.css';

const TABS = [
  { id: 'form', label: 'Form' },
  { id: 'file', label: 'Paste a file' },
];

interface NodeOut {
  pool: string;
  devices: { model: string }[];
}

interface Surroundings {
  fields: JobField[];
  suggestions: Record<string, string[]>;
  like: Values | null;
  likeId: string;
}

const NOTHING: Surroundings = { fields: [], suggestions: {}, like: null, likeId: '' };

async function surroundings(like: string, signal: AbortSignal): Promise<Surroundings> {
  const [known, nodes, tenants, job] = await Promise.all([
    api.get<{ fields: JobField[] }>('/job-fields', { signal }),
    api.get<{ nodes: NodeOut[] }>('/nodes', { signal }).catch(() => ({ nodes: [] as NodeOut[] })),
    api.get<{ tenants: { tenant_id: string }[] }>('/tenants', { signal }).catch(() => ({ tenants: [] })),
    like ? api.get<Job>(`/jobs/${encodeURIComponent(like)}`, { signal }) : null,
  ]);
  const distinct = (values: (string | undefined)[]) => [...new Set(values.filter((value) => value !== undefined && value !== ''))] as string[];
  return {
    fields: known.fields,
    suggestions: {
      pool: distinct(nodes.nodes.map((node) => node.pool)),
      gpu_type: distinct(nodes.nodes.flatMap((node) => node.devices.map((gpu) => gpu.model))),
      tenant: tenants.tenants.map((tenant) => tenant.tenant_id),
    },
    like: job && fromJob(job, known.fields),
    likeId: like,
  };
}

export default function Submit() {
  const [like] = useQueryParam('like');
  const { data, error, reload } = useResource((signal) => surroundings(like, signal), [like]);
  if (!may('submit')) {
    return (
      <Page title="Submit">
        <Empty title="You may not submit jobs" icon="submit">
          An operator of a tenant can give you the role “user” there.
        </Empty>
      </Page>
    );
  }
  if (error && (!data || data.likeId !== like)) {
    return (
      <Page title="Submit">
        <ErrorBox error={error} onRetry={reload} title={like ? `Job ${like} cannot be taken as a template` : undefined} />
      </Page>
    );
  }
  if (like && data?.likeId !== like) {
    return (
      <Page title="Submit" heading={`Submit a job like ${like}`}>
        <Skeleton lines={6} />
      </Page>
    );
  }
  // An empty form is there at once: what the user writes stays when the rest has been loaded.
  return <Ready key={like} like={like} surroundings={data ?? NOTHING} />;
}

function Ready({ like, surroundings: { fields, suggestions, like: template } }: { like: string; surroundings: Surroundings }) {
  const [tab, setTab] = useQueryParam('tab', 'form');
  const [values, setValues] = useState<Values>(template ?? {});
  const [file, setFile] = useState({ text: '', name: '' });
  const yaml = useMemo(() => toYaml(values), [values]);
  const isForm = tab !== 'file';
  const text = isForm ? yaml : file.text;
  const { check: answered, pending } = useCheck(text, isForm ? '' : file.name);
  const check = useMemo(() => worded(answered, fields, isForm), [answered, fields, isForm]);
  const errors = useMemo(() => (isForm ? fieldErrors(check, fields) : {}), [isForm, check, fields]);
  const set = (key: string, value: string) => setValues((before) => ({ ...before, [key]: value }));
  const advise = ({ field, instead }: Advice) => set(keyOf(field, fields), fieldText(field, instead));

  const fileProblems = [...(check.file?.problems ?? [])];

  return (
    <Page
      title="Submit"
      heading={like ? `Submit a job like ${like}` : 'Submit a job'}
      actions={
        like ? (
          <Button kind="quiet" onClick={() => navigate('/submit')}>
            Start with an empty form
          </Button>
        ) : undefined
      }
    >
      <div class="submit-page">
        <div class="submit-main panel">
          <Tabs tabs={TABS} current={isForm ? 'form' : 'file'} onChange={setTab} label="How to describe the job">
            {isForm ? (
              <Form
                values={values}
                onChange={set}
                errors={errors}
                fields={fields}
                suggestions={suggestions}
                placeholders={{ tenant: user.value?.home_tenant_id ?? '' }}
              />
            ) : (
              <Editor text={file.text} onInput={(next, name) => setFile({ text: next, name: name || file.name })} problems={fileProblems} />
            )}
          </Tabs>
        </div>
        <aside class="submit-side" aria-label="Plan and submission">
          <div class="submit-sticky">
            <PlanCard check={check} pending={pending} onAdvice={isForm ? advise : undefined} />
            <SubmitButton check={check} pending={pending} />
            {isForm && yaml && (
              <Same
                yaml={yaml}
                command={toCommand(values)}
                onEdit={() => {
                  setFile({ text: yaml, name: '' });
                  setQuery({ tab: 'file' });
                }}
              />
            )}
            {!isForm && check.file && check.file.jobs.length > 0 && <Found check={check} />}
          </div>
        </aside>
      </div>
    </Page>
  );
}

/** With the names of fields as the user has written them. */
function worded(check: Check, fields: readonly JobField[], isForm: boolean): Check {
  const refusal = check.preview?.refusal;
  if (!check.preview || !refusal) return check;
  const detail = inOwnWords(refusal.detail, fields, isForm);
  return { ...check, preview: { ...check.preview, refusal: { ...refusal, detail } } };
}

/** The key of the form for a field of the API. */
function keyOf(name: string, fields: readonly JobField[]): string {
  return fields.find((field) => field.name === name)?.key ?? name;
}

/** Sentences of the server, each beside the field that it blames. */
function fieldErrors(check: Check, fields: readonly JobField[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (const problem of check.file?.problems ?? []) {
    if (problem.path) found[problem.path] ??= problem.text;
  }
  const refusal = check.preview?.refusal;
  if (refusal?.field) found[keyOf(refusal.field.split('.').at(-1) ?? '', fields)] ??= refusal.detail;
  return found;
}

function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function SubmitButton({ check, pending }: { check: Check; pending: boolean }) {
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<string | null>(null);
  const jobs = check.file?.jobs ?? [];
  const ready = jobs.length > 0 && !pending && check.preview !== null && check.preview.refusal === null;
  // A repeated click, or one after a lost answer, submits the same jobs once.
  const key = useMemo(newKey, [check.text]);
  useEffect(() => setFailed(null), [check.text]);

  const submit = async () => {
    setBusy(true);
    setFailed(null);
    try {
      const answer = await api.post<{ job_id?: number; job_ids?: number[] }>('/jobs', body(jobs), { headers: { 'Idempotency-Key': key } });
      const ids = answer.job_ids ?? [answer.job_id ?? 0];
      const [first = 0] = ids;
      const again = { label: 'Submit another', run: () => navigate(ids.length === 1 ? `/submit?like=${first}` : '/submit') };
      toast(ids.length === 1 ? `Submitted job ${first}` : `Submitted ${count(ids.length, 'job')}`, { action: again });
      navigate(ids.length === 1 ? `/jobs/${first}` : href('/jobs', { user: user.value?.user_id }));
    } catch (error) {
      setFailed(errorText(error));
      setBusy(false);
    }
  };

  const title = verdict(check, pending);
  return (
    <div class="submit-action">
      <p class={`submit-glance tone-${title.tone}`} aria-hidden="true">
        <Icon name={title.icon} />
        <span>{title.title}</span>
      </p>
      <Button kind="primary" icon="submit" busy={busy} disabled={!ready} onClick={() => void submit()}>
        {jobs.length > 1 ? `Submit ${count(jobs.length, 'job')}` : 'Submit job'}
      </Button>
      {failed && (
        <p class="field-error" role="alert">
          {failed}
        </p>
      )}
    </div>
  );
}

function Same({ yaml, command, onEdit }: { yaml: string; command: string; onEdit: () => void }) {
  return (
    <section class="panel submit-same" aria-label="The same job as text">
      <details>
        <summary>As a command</summary>
        <Code text={command} label="Copy the command" />
      </details>
      <details>
        <summary>As a job file</summary>
        <Code text={yaml} label="Copy the job file" wrap={false} />
        <Button size="small" onClick={onEdit}>
          Edit as a file
        </Button>
      </details>
    </section>
  );
}

const FORMATS = { tgpu: 'tgpu job file', slurm: 'Slurm batch script', kubernetes: 'Kubernetes Job', script: 'Script' } as const;

function Found({ check }: { check: Check }) {
  if (!check.file) return null;
  return (
    <section class="panel submit-same" aria-label="What was read">
      <p class="submit-format">
        {FORMATS[check.file.format]}, {count(check.file.jobs.length, 'job')}
      </p>
      <details>
        <summary>Fields of the API</summary>
        <Code text={JSON.stringify(body(check.file.jobs), null, 2)} label="Copy the fields" wrap={false} />
      </details>
    </section>
  );
}
