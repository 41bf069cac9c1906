/** Secrets of the user: names only. A value can be set and removed, never read. */

import { useState } from 'preact/hooks';
import { api } from '../../api/client';
import { Button } from '../../components/Button';
import { FormDialog, confirm } from '../../components/Dialog';
import { Input } from '../../components/Field';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Table, type Column } from '../../components/Table';
import { Time } from '../../components/Time';
import { toast } from '../../components/Toast';
import { useResource } from '../../state/resource';
import type { Secret } from './types';

export function Secrets() {
  const { data, error, reload } = useResource((signal) => api.get<{ secrets: Secret[] }>('/secrets', { signal }), []);
  const [setting, setSetting] = useState<string | null>(null);
  if (!data) return error ? <ErrorBox error={error} onRetry={reload} /> : <Skeleton lines={4} height="28px" />;
  const remove = async (name: string) => {
    const done = await confirm({
      title: `Delete secret ${name}?`,
      text: <p>Jobs that name it can no longer start. Its value cannot be restored.</p>,
      action: 'Delete secret',
      danger: true,
      run: () => api.del(`/secrets/${encodeURIComponent(name)}`),
    });
    if (done) reload();
  };
  const columns: Column<Secret>[] = [
    { id: 'name', label: 'Name', width: 'minmax(140px, 2fr)', cell: (row) => <code>{row.name}</code>, title: (row) => row.name },
    { id: 'set', label: 'Last set', cell: (row) => <Time at={row.set_at} /> },
    {
      id: 'actions',
      label: <span class="sr-only">Actions</span>,
      width: '170px',
      align: 'right',
      cell: (row) => (
        <>
          <Button size="small" aria-label={`Replace ${row.name}`} onClick={() => setSetting(row.name)}>
            Replace
          </Button>{' '}
          <Button size="small" aria-label={`Delete ${row.name}`} onClick={() => void remove(row.name)}>
            Delete
          </Button>
        </>
      ),
    },
  ];
  return (
    <div class="stack">
      {error ? <ErrorBox error={error} onRetry={reload} /> : null}
      <div class="row">
        <p class="muted">
          A job finds a secret in its environment: <code>--secret HF_TOKEN=hf-token</code>
        </p>
        <span class="spacer" />
        <Button kind="primary" icon="submit" onClick={() => setSetting('')}>
          Set a secret
        </Button>
      </div>
      <Table
        label="Secrets"
        rows={data.secrets}
        columns={columns}
        rowKey={(row) => row.name}
        empty={
          <Empty title="No secrets" icon="admin">
            Keep passwords and access tokens here, so that they appear in no command, log or job file.
          </Empty>
        }
      />
      {setting !== null && <SetSecret name={setting} onClose={() => setSetting(null)} onChanged={reload} />}
    </div>
  );
}

function SetSecret({ name: given, onClose, onChanged }: { name: string; onClose: () => void; onChanged: () => void }) {
  const [typed, setName] = useState(given);
  const [value, setValue] = useState('');
  const name = typed.trim();
  return (
    <FormDialog
      title={given ? `Replace ${given}` : 'Set a secret'}
      action="Set secret"
      disabled={!name || !value}
      run={() => api.put(`/secrets/${encodeURIComponent(name)}`, new Blob([value], { type: 'application/octet-stream' }))}
      onDone={() => {
        toast(`Secret ${name} is set.`);
        onChanged();
        onClose();
      }}
      onClose={onClose}
    >
      <Input label="Name" value={typed} onInput={setName} placeholder="hf-token" disabled={given !== ''} hint="Letters, digits, dots, dashes and underscores." />
      <Input label="Value" type="password" value={value} onInput={setValue} hint="No user is ever shown it, not even you." />
    </FormDialog>
  );
}
