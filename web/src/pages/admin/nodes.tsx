/** Nodes that wait for approval, and the join tokens by which nodes join. */

import { useState } from 'preact/hooks';
import { api } from '../../api/client';
import { Badge } from '../../components/Badge';
import { Button } from '../../components/Button';
import { Code } from '../../components/Code';
import { FormDialog, confirm } from '../../components/Dialog';
import { Checkbox, Input, Select } from '../../components/Field';
import { Panel } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Table, type Column } from '../../components/Table';
import { Time } from '../../components/Time';
import { toast } from '../../components/Toast';
import { useQueryParam } from '../../router';
import { now } from '../../state/clock';
import { useResource } from '../../state/resource';
import { ShownOnce } from './ShownOnce';
import { isOver, type JoinToken, type NewJoinToken, type WaitingNode } from './types';

const HOUR = 3600;
const EXPIRIES = [
  { value: String(HOUR), label: '1 hour' },
  { value: String(24 * HOUR), label: '1 day' },
  { value: String(7 * 24 * HOUR), label: '7 days' },
  { value: String(30 * 24 * HOUR), label: '30 days' },
];

export function NodeAdmission() {
  const { data, error, reload } = useResource(
    async (signal) => {
      const [nodes, tokens] = await Promise.all([
        api.get<{ nodes: WaitingNode[] }>('/nodes', { signal }),
        api.get<{ join_tokens: JoinToken[] }>('/join-tokens', { signal }),
      ]);
      return { waiting: nodes.nodes.filter((node) => node.approval), tokens: tokens.join_tokens };
    },
    [],
    { kinds: [] },
  );
  const [all, setAll] = useQueryParam('all');
  const [making, setMaking] = useState(false);
  if (!data) return error ? <ErrorBox error={error} onRetry={reload} /> : <Skeleton lines={6} height="28px" />;
  const approve = async (node: WaitingNode) => {
    const done = await confirm({
      title: `Approve ${node.node_id}?`,
      text: (
        <p>
          The node joined from <b>{node.approval?.address ?? 'an unknown address'}</b> by join token {node.approval?.token_id}. Once it is approved, jobs
          with their data and secrets are sent to it.
        </p>
      ),
      action: 'Approve node',
      run: () => api.post(`/nodes/${encodeURIComponent(node.node_id)}/approve`),
    });
    if (done) {
      toast(`Node ${node.node_id} is approved.`);
      reload();
    }
  };
  const revoke = async (token: JoinToken) => {
    const done = await confirm({
      title: `Revoke join token ${token.token_id}?`,
      text: <p>No further node can join by it. Nodes that have joined stay.</p>,
      action: 'Revoke join token',
      danger: true,
      run: () => api.del(`/join-tokens/${token.token_id}`),
    });
    if (done) reload();
  };
  const at = now.value;
  const isSpent = (token: JoinToken) => isOver(token, at) || token.uses_left === 0;
  const tokens = data.tokens.filter((token) => all === '1' || !isSpent(token)).sort((one, other) => other.token_id - one.token_id);
  const waiting: Column<WaitingNode>[] = [
    { id: 'node', label: 'Node', width: 'minmax(130px, 2fr)', cell: (row) => row.node_id, title: (row) => row.node_id },
    { id: 'address', label: 'Address', cell: (row) => row.approval?.address ?? '–' },
    { id: 'token', label: 'Join token', wide: true, cell: (row) => row.approval?.token_id },
    { id: 'since', label: 'Joined', cell: (row) => <Time at={row.approval?.since} /> },
    {
      id: 'approve',
      label: <span class="sr-only">Actions</span>,
      width: '110px',
      align: 'right',
      cell: (row) => (
        <Button size="small" kind="primary" aria-label={`Approve ${row.node_id}`} onClick={() => void approve(row)}>
          Approve
        </Button>
      ),
    },
  ];
  const columns: Column<JoinToken>[] = [
    { id: 'id', label: 'Token', width: '64px', cell: (row) => row.token_id },
    { id: 'note', label: 'Note', width: 'minmax(110px, 2fr)', cell: (row) => row.note || row.node_name || <span class="muted">–</span>, title: (row) => row.note },
    { id: 'uses', label: 'Nodes left', cell: (row) => row.uses_left ?? 'any number' },
    { id: 'pool', label: 'Pool', wide: true, cell: (row) => row.pool ?? 'any' },
    { id: 'by', label: 'Created by', wide: true, cell: (row) => row.created_by },
    { id: 'expires', label: 'Expires', cell: (row) => (row.revoked ? <Badge tone="red">revoked</Badge> : isSpent(row) ? <Badge>{row.uses_left === 0 ? 'used' : 'expired'}</Badge> : <Time at={row.expires_at} />) },
    {
      id: 'revoke',
      label: <span class="sr-only">Actions</span>,
      width: '90px',
      align: 'right',
      cell: (row) =>
        !isSpent(row) && (
          <Button size="small" aria-label={`Revoke join token ${row.token_id}`} onClick={() => void revoke(row)}>
            Revoke
          </Button>
        ),
    },
  ];
  return (
    <div class="stack">
      {error ? <ErrorBox error={error} onRetry={reload} /> : null}
      <Panel title="Waiting for approval" flush>
        <Table label="Nodes that wait for approval" rows={data.waiting} columns={waiting} rowKey={(row) => row.node_id} empty={<Empty title="No node waits for approval" icon="nodes" />} />
      </Panel>
      <Panel
        title="Join tokens"
        flush
        actions={
          <>
            <Checkbox label="Show used and expired" checked={all === '1'} onChange={(on) => setAll(on ? '1' : '')} />
            <Button kind="primary" icon="submit" onClick={() => setMaking(true)}>
              New join token
            </Button>
          </>
        }
      >
        <Table
          label="Join tokens"
          rows={tokens}
          columns={columns}
          rowKey={(row) => row.token_id}
          empty={
            <Empty title="No join tokens" icon="nodes">
              A new machine joins the cluster by a token: <code>tgpu agent --server URL --join @FILE</code>
            </Empty>
          }
        />
      </Panel>
      {making && <NewJoinTokenDialog onClose={() => setMaking(false)} onChanged={reload} />}
    </div>
  );
}

function NewJoinTokenDialog({ onClose, onChanged }: { onClose: () => void; onChanged: () => void }) {
  const [note, setNote] = useState('');
  const [expires, setExpires] = useState(String(HOUR));
  const [uses, setUses] = useState('1');
  const [pool, setPool] = useState('');
  const [made, setMade] = useState<NewJoinToken | null>(null);
  if (made) {
    return (
      <ShownOnce name="join token" text="Keep it in a file that only you can read, on the new machine." secret={made.token} onClose={onClose}>
        <p class="muted">Then run there:</p>
        <Code text={`tgpu agent --server ${location.origin} --join @FILE`} />
      </ShownOnce>
    );
  }
  const run = () => {
    const body = {
      note: note.trim(),
      expires_in_s: Number(expires),
      uses: uses.trim() === '' ? null : Number(uses),
      ...(pool.trim() ? { pool: pool.trim() } : {}),
    };
    return api.post<NewJoinToken>('/join-tokens', body);
  };
  const done = (token: NewJoinToken) => {
    setMade(token);
    onChanged();
  };
  return (
    <FormDialog title="New join token" action="Make join token" run={run} onDone={done} onClose={onClose}>
      {(errorOf) => (
        <>
          <Input label="Note" value={note} onInput={setNote} placeholder="rack 7" error={errorOf('note')} />
          <div class="form-grid">
            <Select label="Expires after" value={expires} options={EXPIRIES} onChange={setExpires} />
            <Input label="For how many nodes" type="number" min={1} value={uses} onInput={setUses} placeholder="any number" error={errorOf('uses')} />
            <Input label="Pool" value={pool} onInput={setPool} placeholder="as the node says" error={errorOf('pool')} />
          </div>
        </>
      )}
    </FormDialog>
  );
}
