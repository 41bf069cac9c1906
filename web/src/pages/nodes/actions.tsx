/** Actions on nodes: drain, undrain, reserve. Pages show them only to users with the permission. */

import { useState } from 'preact/hooks';
import { api, ApiError, errorText } from '../../api/client';
import { Button } from '../../components/Button';
import { Dialog, confirm } from '../../components/Dialog';
import { Input } from '../../components/Field';
import { toast } from '../../components/Toast';
import { count } from '../../format';
import { serverNow } from '../../state/clock';

function named(names: readonly string[]): string {
  return names.length === 1 ? `node ${names[0]}` : count(names.length, 'node');
}

export function DrainDialog({ names, onClose, onDone }: { names: readonly string[]; onClose: () => void; onDone: () => void }) {
  const [reason, setReason] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const drain = async () => {
    setBusy(true);
    setProblem('');
    try {
      await api.post('/nodes/drain', { nodes: names, reason });
      toast(`Draining ${named(names)}.`);
      onDone();
      onClose();
    } catch (error) {
      setProblem(errorText(error));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={`Drain ${named(names)}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Back</Button>
          <Button kind="primary" busy={busy} onClick={() => void drain()}>
            Drain
          </Button>
        </>
      }
    >
      <p>No new task starts there. Running tasks continue until they end.</p>
      <Input
        label="Reason"
        value={reason}
        onInput={setReason}
        maxLength={500}
        placeholder="replacing a fan"
        hint="Shown beside the node and in the audit log."
        autoFocus
        onKeyDown={(event) => event.key === 'Enter' && void drain()}
        error={problem || null}
      />
    </Dialog>
  );
}

export async function undrain(names: readonly string[]): Promise<boolean> {
  return confirm({
    title: `Undrain ${named(names)}`,
    text: 'New tasks may start there again.',
    action: 'Undrain',
    run: async () => {
      await api.post('/nodes/undrain', { nodes: names });
      toast(`Undrained ${named(names)}.`);
    },
  });
}

/** The value of a datetime-local field for a moment, in the viewer's zone. */
export function localInput(at: number): string {
  const date = new Date(at);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

const HOUR_MS = 3_600_000;

export function ReserveDialog({ names, onClose, onDone }: { names: readonly string[]; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState('');
  const [tenant, setTenant] = useState('');
  const [from, setFrom] = useState(() => localInput(serverNow()));
  const [until, setUntil] = useState(() => localInput(serverNow() + 4 * HOUR_MS));
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<{ field: string | null; text: string } | null>(null);
  const errorOf = (field: string) => (problem?.field === field ? problem.text : null);
  const reserve = async () => {
    const [begin, end] = [new Date(from), new Date(until)];
    if (Number.isNaN(begin.getTime()) || Number.isNaN(end.getTime())) {
      setProblem({ field: Number.isNaN(end.getTime()) ? 'until' : 'from', text: 'Give a date and a time.' });
      return;
    }
    setBusy(true);
    setProblem(null);
    try {
      await api.post('/windows', {
        nodes: names,
        from: begin.toISOString(),
        until: end.toISOString(),
        ...(tenant ? { tenant_id: tenant } : {}),
        name,
      });
      toast(`Reserved ${named(names)}.`);
      onDone();
      onClose();
    } catch (error) {
      const field = error instanceof ApiError ? error.field : null;
      setProblem({ field: field !== null && ['until', 'from', 'tenant_id', 'name'].includes(field) ? field : null, text: errorText(error) });
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={`Reserve ${named(names)}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Back</Button>
          <Button kind="primary" busy={busy} onClick={() => void reserve()}>
            Reserve
          </Button>
        </>
      }
    >
      <Input label="Purpose" value={name} onInput={setName} maxLength={200} placeholder="course on Friday" autoFocus error={errorOf('name')} />
      <Input
        label="Tenant"
        value={tenant}
        onInput={setTenant}
        placeholder="lab/vision"
        hint="Only this tenant may use the nodes. Without one it is a maintenance window: no job starts."
        error={errorOf('tenant_id')}
      />
      <Input label="From" type="datetime-local" value={from} onInput={setFrom} error={errorOf('from')} />
      <Input label="Until" type="datetime-local" value={until} onInput={setUntil} error={errorOf('until')} />
      {problem && problem.field === null && (
        <p class="field-error" role="alert">
          {problem.text}
        </p>
      )}
    </Dialog>
  );
}
