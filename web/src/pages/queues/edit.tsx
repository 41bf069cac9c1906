/** Changes of tenants: weight in its place, quota and new tenants in dialogs. Every change names the version it is based on. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, api, errorText } from '../../api/client';
import { Button, IconButton } from '../../components/Button';
import { Dialog, FormDialog } from '../../components/Dialog';
import { Input, Select } from '../../components/Field';
import { toast } from '../../components/Toast';
import type { Period, Quota, Share, Tenant } from './types';

const path = (tenant_id: string) => `/tenants/${tenant_id.split('/').map(encodeURIComponent).join('/')}`;

function ifMatch(version: number) {
  return { headers: { 'If-Match': `"${version}"` } };
}

const isConflict = (error: unknown) => error instanceof ApiError && error.status === 412;

/** The weight as text, or, with permission, as a button that becomes a field. */
export function Weight({ share, tenant: current, onChanged }: { share: Share; tenant: Tenant | null; onChanged: () => void }) {
  const [text, setText] = useState<string | null>(null);
  // As it was when the user began: the page may have loaded a newer version since.
  const [begun, setBegun] = useState<Tenant | null>(null);
  const tenant = begun ?? current;
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const [theirs, setTheirs] = useState<Tenant | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const isEditing = text !== null;
  useEffect(() => {
    if (isEditing) field.current?.select();
  }, [isEditing]);
  if (!share.may.edit || !tenant) return <span>{share.weight}</span>;
  const close = () => {
    setText(null);
    setBegun(null);
    setTheirs(null);
    setProblem('');
  };
  const save = async (version: number) => {
    const weight = Number(text);
    if (!Number.isInteger(weight) || weight < 1) return setProblem('A whole number, at least 1.');
    setBusy(true);
    try {
      await api.patch(path(tenant.tenant_id), { weight }, ifMatch(version));
      toast(`Weight of ${tenant.tenant_id} is ${weight} now.`);
      close();
      onChanged();
    } catch (error) {
      if (isConflict(error)) setTheirs(await api.get<Tenant>(path(tenant.tenant_id)));
      else setProblem(errorText(error));
    } finally {
      setBusy(false);
    }
  };
  if (!isEditing) {
    return (
      <button
        type="button"
        class="weight-button"
        aria-label={`Weight of ${tenant.tenant_id}: ${share.weight}. Change`}
        title="Change the weight"
        onClick={() => {
          setBegun(current);
          setText(String(share.weight));
        }}
      >
        {share.weight}
      </button>
    );
  }
  return (
    <form
      class="weight-form"
      onSubmit={(event) => {
        event.preventDefault();
        void save(tenant.version);
      }}
      onKeyDown={(event) => event.key === 'Escape' && close()}
    >
      <input
        ref={field}
        class="input"
        inputMode="numeric"
        value={text}
        aria-label={`Weight of ${tenant.tenant_id}`}
        aria-invalid={problem ? true : undefined}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <IconButton label="Save weight" icon="check" size="small" type="submit" busy={busy} />
      <IconButton label="Discard" icon="close" size="small" onClick={close} />
      {problem && (
        <p class="field-error" role="alert">
          {problem}
        </p>
      )}
      {theirs && (
        <Dialog
          title="The weight was changed meanwhile"
          onClose={close}
          actions={
            <>
              <Button
                onClick={() => {
                  close();
                  onChanged();
                }}
              >
                Keep {theirs.weight}
              </Button>
              <Button kind="primary" busy={busy} onClick={() => void save(theirs.version)}>
                Set {text}
              </Button>
            </>
          }
        >
          <Conflict rows={[['Weight', String(tenant.weight), String(theirs.weight), text]]} />
        </Dialog>
      )}
    </form>
  );
}

/** What it was, what another user made of it, and what this user wants. */
function Conflict({ rows }: { rows: readonly (readonly [string, string, string, string])[] }) {
  return (
    <>
      <p>Another user changed this tenant after you opened it.</p>
      <table class="conflict">
        <thead>
          <tr>
            <th scope="col">Setting</th>
            <th scope="col">Before</th>
            <th scope="col">Now</th>
            <th scope="col">Yours</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, before, now, yours]) => (
            <tr key={name} class={now === yours ? '' : 'conflict-differs'}>
              <th scope="row">{name}</th>
              <td>{before}</td>
              <td>{now}</td>
              <td>{yours}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

type Limits = Record<string, string>;

const GIB = 1024;
const FIELDS: readonly { key: keyof Quota & string; label: string; unit: number; hint?: string }[] = [
  { key: 'gpu_limit', label: 'GPUs', unit: 1 },
  { key: 'cpu_limit', label: 'CPUs', unit: 1 },
  { key: 'mem_limit_mb', label: 'Memory (GiB)', unit: GIB },
  { key: 'disk_limit_mb', label: 'Disk (GiB)', unit: GIB },
  { key: 'running_jobs_limit', label: 'Running tasks', unit: 1 },
  { key: 'waiting_jobs_limit', label: 'Pending tasks', unit: 1 },
  { key: 'gpu_hours_limit', label: 'GPU-hours per period', unit: 1 },
];
export const PERIODS: readonly { value: Period; label: string }[] = [
  { value: 'day', label: 'Per day' },
  { value: 'week', label: 'Per week' },
  { value: 'month', label: 'Per month' },
  { value: 'ever', label: 'In all' },
];

function limitsOf(quota: Quota): Limits {
  const limits: Limits = { gpu_hours_period: quota.gpu_hours_period };
  for (const { key, unit } of FIELDS) {
    const value = quota[key] as number | null;
    limits[key] = value === null ? '' : String(value / unit);
  }
  for (const [model, value] of Object.entries(quota.gpu_type_limits)) limits[`type:${model}`] = String(value);
  for (const [name, value] of Object.entries(quota.generic_limits)) limits[`generic:${name}`] = String(value);
  return limits;
}

const labelOf = (key: string) =>
  FIELDS.find((field) => field.key === key)?.label ??
  (key === 'gpu_hours_period' ? 'Period' : key.startsWith('type:') ? `GPUs like ${key.slice(5)}` : key.slice(8));

/** The body of PATCH /tenants/{tenant_id}/quota: what differs. An empty field takes a limit away. */
export function quotaPatch(before: Limits, after: Limits): Record<string, unknown> {
  const patch: Record<string, unknown> = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const text = (after[key] ?? '').trim();
    if (text === (before[key] ?? '')) continue;
    if (key === 'gpu_hours_period') {
      patch[key] = text;
      continue;
    }
    const unit = FIELDS.find((field) => field.key === key)?.unit ?? 1;
    const value = text === '' ? null : Number(text) * unit;
    if (key.startsWith('type:')) {
      patch['gpu_type_limits'] = { ...(patch['gpu_type_limits'] as object), [key.slice(5)]: value };
    } else if (key.startsWith('generic:')) {
      patch['generic_limits'] = { ...(patch['generic_limits'] as object), [key.slice(8)]: value };
    } else {
      patch[key] = unit === GIB && value !== null ? Math.round(value) : value;
    }
  }
  return patch;
}

export function QuotaDialog({ tenant: current, onClose, onChanged }: { tenant: Tenant; onClose: () => void; onChanged: () => void }) {
  const [tenant] = useState(current);
  const before = limitsOf(tenant.quota);
  const [limits, setLimits] = useState(before);
  const [model, setModel] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<{ field: string | null; text: string } | null>(null);
  const [theirs, setTheirs] = useState<Tenant | null>(null);
  const set = (key: string) => (value: string) => setLimits({ ...limits, [key]: value });
  const patch = quotaPatch(before, limits);
  const wrong = Object.entries(limits).find(
    ([key, text]) => key !== 'gpu_hours_period' && text.trim() !== '' && !(Number(text) >= 0),
  )?.[0];
  const save = async (version: number) => {
    setBusy(true);
    setProblem(null);
    try {
      await api.patch(`${path(tenant.tenant_id)}/quota`, patch, ifMatch(version));
      toast(`Quota of ${tenant.tenant_id} changed.`);
      onChanged();
      onClose();
    } catch (error) {
      if (isConflict(error)) setTheirs(await api.get<Tenant>(path(tenant.tenant_id)));
      else setProblem({ field: error instanceof ApiError ? error.field : null, text: errorText(error) });
    } finally {
      setBusy(false);
    }
  };
  if (theirs) {
    const now = limitsOf(theirs.quota);
    const shown = (text: string | undefined) => (text ? text : 'no limit');
    const keys = [...new Set([...Object.keys(before), ...Object.keys(now), ...Object.keys(limits)])].filter(
      (key) => now[key] !== before[key] || limits[key] !== before[key],
    );
    return (
      <Dialog
        title={`The quota of ${tenant.tenant_id} was changed meanwhile`}
        onClose={onClose}
        actions={
          <>
            <Button
              onClick={() => {
                onChanged();
                onClose();
              }}
            >
              Keep what is there now
            </Button>
            <Button kind="primary" busy={busy} onClick={() => void save(theirs.version)}>
              Apply yours
            </Button>
          </>
        }
      >
        <Conflict rows={keys.map((key) => [labelOf(key), shown(before[key]), shown(now[key]), shown(limits[key])] as const)} />
      </Dialog>
    );
  }
  const named = Object.keys(limits).filter((key) => key.includes(':'));
  return (
    <Dialog
      title={`Quota of ${tenant.tenant_id}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Back</Button>
          <Button
            kind="primary"
            busy={busy}
            disabled={wrong !== undefined || Object.keys(patch).length === 0}
            onClick={() => void save(tenant.version)}
          >
            Save quota
          </Button>
        </>
      }
    >
      <p class="muted">
        An empty field means no limit. A lowered limit stops no running job; it keeps new ones from being admitted.
      </p>
      <div class="form-grid">
        {FIELDS.map(({ key, label }) => (
          <Input
            key={key}
            label={label}
            value={limits[key] ?? ''}
            onInput={set(key)}
            placeholder="no limit"
            error={wrong === key ? 'A number, at least 0.' : problem?.field === key ? problem.text : null}
          />
        ))}
        <Select
          label="Period of GPU-hours"
          value={limits['gpu_hours_period'] ?? 'month'}
          options={PERIODS}
          onChange={set('gpu_hours_period')}
        />
        {named.map((key) => (
          <Input
            key={key}
            label={labelOf(key)}
            value={limits[key] ?? ''}
            onInput={set(key)}
            placeholder="no limit"
            error={wrong === key ? 'A number, at least 0.' : null}
          />
        ))}
      </div>
      <form
        class="row row-end"
        onSubmit={(event) => {
          event.preventDefault();
          if (model.trim()) setLimits({ ...limits, [`type:${model.trim().toLowerCase()}`]: '1' });
          setModel('');
        }}
      >
        <Input label="Limit GPUs of a model" value={model} onInput={setModel} placeholder="a100" />
        <Button type="submit" disabled={!model.trim()}>
          Add limit
        </Button>
      </form>
      {problem && (
        <p class="field-error" role="alert">
          {problem.text}
        </p>
      )}
    </Dialog>
  );
}

export function AddTenantDialog({
  parents,
  atTop,
  onClose,
  onChanged,
}: {
  /** Tenants below which the user may add one. */
  parents: readonly string[];
  atTop: boolean;
  onClose: () => void;
  onChanged: () => void;
}) {
  const options = [...(atTop ? [{ value: '', label: 'None (top of the tree)' }] : []), ...parents.map((value) => ({ value, label: value }))];
  const [parent, setParent] = useState(options[0]?.value ?? '');
  const [name, setName] = useState('');
  const [weight, setWeight] = useState('1');
  const [gpus, setGpus] = useState('');
  const tenant_id = parent ? `${parent}/${name.trim()}` : name.trim();
  return (
    <FormDialog
      title="Add a tenant"
      action="Add tenant"
      disabled={!name.trim()}
      run={() => api.post('/tenants', { tenant_id, weight: Number(weight), ...(gpus.trim() ? { gpu_limit: Number(gpus) } : {}) })}
      onDone={() => {
        toast(`Tenant ${tenant_id} added.`);
        onChanged();
        onClose();
      }}
      onClose={onClose}
    >
      {(errorOf) => (
        <>
          <Select label="Parent" value={parent} options={options} onChange={setParent} />
          <Input
            label="Name"
            value={name}
            onInput={setName}
            placeholder="vision"
            error={errorOf('tenant_id')}
            hint={name.trim() ? `Jobs name it as ${tenant_id}` : 'Letters, digits, dots, dashes and underscores.'}
          />
          <div class="form-grid">
            <Input label="Weight" value={weight} onInput={setWeight} type="number" min={1} error={errorOf('weight')} hint="Its part beside its siblings." />
            <Input label="Most GPUs" value={gpus} onInput={setGpus} placeholder="no limit" error={errorOf('gpu_limit')} />
          </div>
        </>
      )}
    </FormDialog>
  );
}
