/** Actions on nodes: drain, undrain, reserve. Pages show them only to users with the permission. */

import { useState } from 'preact/hooks';
import { api } from '../../api/client';
import { FieldError, FormDialog, confirm } from '../../components/Dialog';
import { Input } from '../../components/Field';
import { toast } from '../../components/Toast';
import { count } from '../../format';
import { serverNow } from '../../state/clock';

function named(names: readonly string[]): string {
  return names.length === 1 ? `node ${names[0]}` : count(names.length, 'node');
}

interface NodeDialogProps {
  names: readonly string[];
  onClose: () => void;
  onDone: () => void;
}

export function DrainDialog({ names, onClose, onDone }: NodeDialogProps) {
  const [reason, setReason] = useState('');
  return (
    <FormDialog
      title={`Drain ${named(names)}`}
      action="Drain"
      run={() => api.post('/nodes/drain', { nodes: names, reason })}
      onDone={() => {
        toast(`Draining ${named(names)}.`);
        onDone();
        onClose();
      }}
      onClose={onClose}
    >
      {(errorOf) => (
        <>
          <p>No new task starts there. Running tasks continue until they end.</p>
          <Input
            label="Reason"
            value={reason}
            onInput={setReason}
            maxLength={500}
            placeholder="replacing a fan"
            hint="Shown beside the node and in the audit log."
            autoFocus
            error={errorOf('reason')}
          />
        </>
      )}
    </FormDialog>
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

export function ReserveDialog({ names, onClose, onDone }: NodeDialogProps) {
  const [name, setName] = useState('');
  const [tenant, setTenant] = useState('');
  const [from, setFrom] = useState(() => localInput(serverNow()));
  const [until, setUntil] = useState(() => localInput(serverNow() + 4 * HOUR_MS));
  const moment = (field: string, text: string) => {
    const at = new Date(text);
    if (Number.isNaN(at.getTime())) throw new FieldError(field, 'Give a date and a time.');
    return at.toISOString();
  };
  return (
    <FormDialog
      title={`Reserve ${named(names)}`}
      action="Reserve"
      run={async () => {
        const times = { from: moment('from', from), until: moment('until', until) };
        await api.post('/windows', { nodes: names, ...times, ...(tenant ? { tenant_id: tenant } : {}), name });
      }}
      onDone={() => {
        toast(`Reserved ${named(names)}.`);
        onDone();
        onClose();
      }}
      onClose={onClose}
    >
      {(errorOf) => (
        <>
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
        </>
      )}
    </FormDialog>
  );
}
