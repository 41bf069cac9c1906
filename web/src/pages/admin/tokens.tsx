/** Tokens for the API and the command line: made with a scope and an expiry, shown once, revoked. */

import { useState } from 'preact/hooks';
import { api } from '../../api/client';
import type { Role } from '../../api/types';
import { Badge } from '../../components/Badge';
import { Button } from '../../components/Button';
import { FormDialog, confirm } from '../../components/Dialog';
import { Checkbox, Input, Select } from '../../components/Field';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Table, type Column } from '../../components/Table';
import { Time } from '../../components/Time';
import { User } from '../../components/User';
import { now, serverNow } from '../../state/clock';
import { useResource } from '../../state/resource';
import { highestRole, may, user } from '../../state/session';
import { useQueryParam } from '../../router';
import { ShownOnce } from './ShownOnce';
import { ROLES, isOver, type NewToken, type Token } from './types';

const DAY = 86_400;
const EXPIRIES = [
  { value: String(DAY), label: '1 day' },
  { value: String(7 * DAY), label: '7 days' },
  { value: String(30 * DAY), label: '30 days' },
  { value: String(90 * DAY), label: '90 days' },
  { value: String(365 * DAY), label: '1 year' },
];
const ACTIONS: readonly [string, string][] = [
  ['read', 'Read jobs, nodes and reports'],
  ['logs', 'Read logs'],
  ['submit', 'Submit and change jobs'],
  ['cancel', 'Cancel jobs'],
  ['enter', 'Open terminals in jobs'],
  ['manage', 'Manage tokens, tenants and nodes'],
];

export function Tokens() {
  const { data, error, reload } = useResource((signal) => api.get<{ tokens: Token[] }>('/tokens', { signal }), []);
  const [all, setAll] = useQueryParam('all');
  const [making, setMaking] = useState(false);
  if (!data) return error ? <ErrorBox error={error} onRetry={reload} /> : <Skeleton lines={6} height="28px" />;
  const at = now.value;
  const rows = data.tokens.filter((token) => all === '1' || !isOver(token, at)).sort((one, other) => other.token_id - one.token_id);
  const revoke = async (token: Token) => {
    const done = await confirm({
      title: `Revoke token ${token.token_id}?`,
      text: (
        <p>
          {token.note ? <b>{token.note}</b> : 'This token'} of {token.user_id} is refused from now on, and so are tokens that were made with it.
          Programs that use it stop working. This cannot be undone.
        </p>
      ),
      action: 'Revoke token',
      danger: true,
      run: () => api.del(`/tokens/${token.token_id}`),
    });
    if (done) reload();
  };
  const columns: Column<Token>[] = [
    { id: 'id', label: 'Token', width: '64px', cell: (row) => row.token_id },
    { id: 'note', label: 'Note', width: 'minmax(120px, 2fr)', cell: (row) => row.note || <span class="muted">–</span>, title: (row) => row.note },
    { id: 'user', label: 'User', wide: true, cell: (row) => <User name={row.user_id} /> },
    { id: 'scope', label: 'Scope', wide: true, width: 'minmax(150px, 1.5fr)', cell: scope, title: scope },
    { id: 'created', label: 'Created', wide: true, cell: (row) => <Time at={row.created_at} /> },
    { id: 'expires', label: 'Expires', cell: (row) => (row.revoked ? <Badge tone="red">revoked</Badge> : isOver(row, at) ? <Badge>expired</Badge> : <Time at={row.expires_at} />) },
    {
      id: 'revoke',
      label: <span class="sr-only">Actions</span>,
      width: '90px',
      align: 'right',
      cell: (row) =>
        !isOver(row, at) && (
          <Button size="small" aria-label={`Revoke token ${row.token_id}`} onClick={() => void revoke(row)}>
            Revoke
          </Button>
        ),
    },
  ];
  return (
    <div class="stack">
      {error ? <ErrorBox error={error} onRetry={reload} /> : null}
      <div class="row">
        <Checkbox label="Show revoked and expired" checked={all === '1'} onChange={(checked) => setAll(checked ? '1' : '')} />
        <span class="spacer" />
        <Button kind="primary" icon="submit" onClick={() => setMaking(true)}>
          New token
        </Button>
      </div>
      <Table
        label="Tokens"
        rows={rows}
        columns={columns}
        rowKey={(row) => row.token_id}
        empty={
          <Empty title="No tokens" icon="admin">
            A token lets programs call the API over the network: in CI, in notebooks, on other machines.
          </Empty>
        }
      />
      {making && <NewTokenDialog onClose={() => setMaking(false)} onChanged={reload} />}
    </div>
  );
}

function scope(token: Token): string {
  const parts = [token.role as string];
  if (token.tenant_id) parts.push(`in ${token.tenant_id}`);
  if (token.actions.length > 0) parts.push(`only ${token.actions.join(', ')}`);
  if (token.jobs_left !== null) parts.push(`${token.jobs_left} jobs left`);
  if (token.gpu_hours_left !== null) parts.push(`${token.gpu_hours_left} GPU-hours left`);
  return parts.join(', ');
}

function NewTokenDialog({ onClose, onChanged }: { onClose: () => void; onChanged: () => void }) {
  const who = user.value;
  const top = who ? ROLES.indexOf(highestRole(who) ?? 'viewer') : 0;
  const roles = ROLES.filter((_, index) => index <= top);
  const [note, setNote] = useState('');
  const [expires, setExpires] = useState(String(30 * DAY));
  const [role, setRole] = useState<string>(roles.includes('user') ? 'user' : 'viewer');
  const [tenant, setTenant] = useState('');
  const [owner, setOwner] = useState('');
  const [actions, setActions] = useState<readonly string[]>([]);
  const [made, setMade] = useState<NewToken | null>(null);
  if (made) {
    return (
      <ShownOnce name="token" text="Keep it like a password." secret={made.token} onClose={onClose}>
        <p class="muted">
          {made.ends_with_parent && 'It ends with the token of this session. '}
          Expires <Time at={made.expires_at} kind="full" />.
        </p>
      </ShownOnce>
    );
  }
  const run = () => {
    const body = {
      note: note.trim(),
      role: role as Role,
      expires_in_s: Number(expires),
      ...(tenant.trim() ? { tenant_id: tenant.trim() } : {}),
      ...(owner.trim() ? { user_id: owner.trim() } : {}),
      ...(actions.length > 0 ? { actions } : {}),
    };
    return api.post<NewToken>('/tokens', body);
  };
  const done = (token: NewToken) => {
    setMade(token);
    onChanged();
  };
  return (
    <FormDialog title="New token" action="Make token" run={run} onDone={done} onClose={onClose}>
      {(errorOf) => (
        <>
          <Input label="Note" value={note} onInput={setNote} placeholder="CI of project x" maxLength={200} error={errorOf('note')} hint="What it is for." />
          <div class="form-grid">
            <Select label="Expires after" value={expires} options={EXPIRIES} onChange={setExpires} hint={`On ${new Date(serverNow() + Number(expires) * 1000).toLocaleDateString()}`} />
            <Select label="Role" value={role} options={roles} onChange={setRole} error={errorOf('role')} />
            <Input label="Only in tenant" value={tenant} onInput={setTenant} placeholder="any" error={errorOf('tenant_id')} />
            {may('administer') && <Input label="For user" value={owner} onInput={setOwner} placeholder={who?.user_id ?? ''} error={errorOf('user_id')} />}
          </div>
          <fieldset class="admin-actions">
            <legend>Only for these actions</legend>
            {ACTIONS.map(([action, text]) => (
              <Checkbox
                key={action}
                label={text}
                checked={actions.includes(action)}
                onChange={(checked) => setActions(checked ? [...actions, action] : actions.filter((one) => one !== action))}
              />
            ))}
            <p class="field-hint">None chosen: all that the role allows.</p>
          </fieldset>
        </>
      )}
    </FormDialog>
  );
}
