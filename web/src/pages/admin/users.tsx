/** Users and roles: members of tenants and of the whole cluster. */

import { useState } from 'preact/hooks';
import { api } from '../../api/client';
import type { Role } from '../../api/types';
import { Badge } from '../../components/Badge';
import { Button, IconButton } from '../../components/Button';
import { FormDialog, confirm } from '../../components/Dialog';
import { Input, Select } from '../../components/Field';
import { Search } from '../../components/Search';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Table, type Column } from '../../components/Table';
import { Time } from '../../components/Time';
import { toast, toastError } from '../../components/Toast';
import { User } from '../../components/User';
import { useQueryParam } from '../../router';
import { useResource } from '../../state/resource';
import { may } from '../../state/session';
import type { ShareList } from '../queues/types';
import { EVERYWHERE, ROLES, type Member } from './types';

const rank = (role: Role | null | undefined) => (role ? ROLES.indexOf(role) : -1);
const shown = (tenant_id: string) => (tenant_id === EVERYWHERE ? 'Whole cluster' : tenant_id);
const roleGiven = (user_id: string, role: Role, tenant_id: string) =>
  `${user_id} has the role ${role} in ${tenant_id === EVERYWHERE ? 'the whole cluster' : tenant_id} now.`;
const pathOf = (user_id: string, tenant_id: string) =>
  tenant_id === EVERYWHERE
    ? `/members/${encodeURIComponent(user_id)}`
    : `/tenants/${tenant_id.split('/').map(encodeURIComponent).join('/')}/members/${encodeURIComponent(user_id)}`;

export function Users() {
  const { data, error, reload } = useResource(
    async (signal) => {
      const [members, shares] = await Promise.all([
        api.get<{ members: Member[] }>('/members', { signal }),
        api.get<ShareList>('/shares', { signal }),
      ]);
      return { members: members.members, shares };
    },
    [],
  );
  const [search, setSearch] = useQueryParam('search');
  const [adding, setAdding] = useState(false);
  if (!data) return error ? <ErrorBox error={error} onRetry={reload} /> : <Skeleton lines={6} height="28px" />;
  const highest = new Map<string, Role>(
    data.shares.tenants.flatMap((share) => (share.may.highest_role ? [[share.tenant_id, share.may.highest_role] as const] : [])),
  );
  if (may('administer')) highest.set(EVERYWHERE, 'admin');
  const mayChange = (member: Member) => rank(highest.get(member.tenant_id)) >= rank(member.role);
  const text = search.toLowerCase();
  const rows = data.members.filter((member) => `${member.user_id} ${member.tenant_id} ${member.role}`.toLowerCase().includes(text));
  const change = async (member: Member, role: Role) => {
    try {
      await api.put(pathOf(member.user_id, member.tenant_id), { role });
      toast(roleGiven(member.user_id, role, member.tenant_id));
    } catch (failure) {
      toastError(failure);
    }
    reload();
  };
  const remove = async (member: Member) => {
    const done = await confirm({
      title: `Remove ${member.user_id}?`,
      text: (
        <p>
          {member.user_id} loses the role <b>{member.role}</b> in <b>{shown(member.tenant_id)}</b>. Roles in other tenants stay, and running jobs go
          on.
        </p>
      ),
      action: 'Remove role',
      danger: true,
      run: () => api.del(pathOf(member.user_id, member.tenant_id)),
    });
    if (done) reload();
  };
  const columns: Column<Member>[] = [
    { id: 'user', label: 'User', width: 'minmax(80px, 1fr)', cell: (row) => <><User name={row.user_id} />{!row.has_account && <> <Badge tone="amber" title="This server has no account of that name: the role is of no use">no account</Badge></>}</> },
    { id: 'tenant', label: 'Tenant', width: 'minmax(70px, 1.5fr)', cell: (row) => (row.tenant_id === EVERYWHERE ? <b>Whole cluster</b> : row.tenant_id), title: (row) => row.tenant_id },
    {
      id: 'role',
      label: 'Role',
      width: '116px',
      cell: (row) => {
        const top = rank(highest.get(row.tenant_id));
        if (!mayChange(row)) return row.role;
        return (
          <select
            class="input select admin-role"
            aria-label={`Role of ${row.user_id} in ${shown(row.tenant_id)}`}
            value={row.role}
            onChange={(event) => void change(row, event.currentTarget.value as Role)}
          >
            {ROLES.filter((role) => rank(role) <= top).map((role) => (
              <option key={role} value={role} selected={role === row.role}>
                {role}
              </option>
            ))}
          </select>
        );
      },
    },
    { id: 'by', label: 'Given by', wide: true, cell: (row) => row.by },
    { id: 'at', label: 'Since', wide: true, cell: (row) => <Time at={row.at} /> },
    {
      id: 'remove',
      label: <span class="sr-only">Actions</span>,
      width: '48px',
      cell: (row) => mayChange(row) && <IconButton size="small" icon="close" label={`Remove ${row.user_id} from ${shown(row.tenant_id)}`} onClick={() => void remove(row)} />,
    },
  ];
  return (
    <div class="stack">
      {error ? <ErrorBox error={error} onRetry={reload} /> : null}
      <div class="row">
        <Search value={search} onSearch={setSearch} label="Search users" />
        <span class="spacer" />
        {highest.size > 0 && (
          <Button kind="primary" icon="submit" onClick={() => setAdding(true)}>
            Give a role
          </Button>
        )}
      </div>
      <Table
        label="Users and roles"
        rows={rows}
        columns={columns}
        rowKey={(row) => `${row.user_id} ${row.tenant_id}`}
        empty={
          <Empty title={search ? 'No match' : 'No roles were given'} icon="user">
            {search ? 'No user, tenant or role has this text.' : 'Users have what the settings and tenant rules give them.'}
          </Empty>
        }
      />
      <p class="muted">A role holds in a tenant and in all tenants below it. Administrators named in the settings are not listed.</p>
      {adding && <GiveRole highest={highest} onClose={() => setAdding(false)} onChanged={reload} />}
    </div>
  );
}

function GiveRole({ highest, onClose, onChanged }: { highest: ReadonlyMap<string, Role>; onClose: () => void; onChanged: () => void }) {
  const places = [...highest.keys()].sort();
  const [typed, setUser] = useState('');
  const [place, setPlace] = useState(places[0] ?? '');
  const [chosen, setRole] = useState<Role>('user');
  const allowed = ROLES.filter((one) => rank(one) <= rank(highest.get(place)));
  const role = allowed.includes(chosen) ? chosen : 'user';
  const user = typed.trim();
  return (
    <FormDialog
      title="Give a role"
      action="Give role"
      disabled={!user}
      run={() => api.put(pathOf(user, place), { role })}
      onDone={() => {
        toast(roleGiven(user, role, place));
        onChanged();
        onClose();
      }}
      onClose={onClose}
    >
      <Input label="User" value={typed} onInput={setUser} placeholder="alice" hint="The name of an account on the server." />
      <Select label="Tenant" value={place} options={places.map((value) => ({ value, label: shown(value) }))} onChange={setPlace} />
      <Select label="Role" value={role} options={allowed} onChange={(value) => setRole(value as Role)} />
      <ul class="admin-hints muted">
        <li><b>viewer</b> sees jobs and logs of the tenant</li>
        <li><b>user</b> also submits jobs</li>
        <li><b>operator</b> also manages jobs and tenants below</li>
        <li><b>admin</b> may do everything there</li>
      </ul>
    </FormDialog>
  );
}
