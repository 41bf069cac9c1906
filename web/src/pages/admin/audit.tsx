/** Audit log: every change with its user, newest first. Pages are loaded as the user scrolls. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { api, isAbort } from '../../api/client';
import { Dialog } from '../../components/Dialog';
import { Code } from '../../components/Code';
import { Input, Select } from '../../components/Field';
import { KeyValue } from '../../components/KeyValue';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Table, type Column } from '../../components/Table';
import { Time } from '../../components/Time';
import { User } from '../../components/User';
import { setQuery, useQueryParam } from '../../router';
import type { AuditEntry } from './types';

const PAGE = 200;
const TYPING_MS = 300;
const TIMES = [
  { value: '', label: 'Any time' },
  { value: '1h', label: 'Last hour' },
  { value: '1d', label: 'Last day' },
  { value: '7d', label: 'Last 7 days' },
  { value: '30d', label: 'Last 30 days' },
];

interface AuditPage {
  entries: AuditEntry[];
  next_cursor: number | null;
}

/** What differs between two states of a thing, as lines; the whole of it if one is missing. */
export function changes(before: unknown, after: unknown): string {
  if (!isRecord(before) || !isRecord(after)) return short(after ?? before);
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const differ = names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return differ.map((name) => `${name}: ${short(before[name])} → ${short(after[name])}`).join(', ');
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function short(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (isRecord(value)) return fields(value).join(', ') || 'nothing';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** "weight: 2", "limits.gpu_milli: 4000"; what is empty or false is left out. */
function fields(value: Record<string, unknown>, prefix = ''): string[] {
  return Object.entries(value).flatMap(([name, part]) => {
    if (part === null || part === '' || part === false || (Array.isArray(part) && part.length === 0)) return [];
    if (isRecord(part)) return fields(part, `${prefix}${name}.`);
    return [`${prefix}${name}: ${short(part)}`];
  });
}

export function Audit() {
  const [user] = useQueryParam('user');
  const [action] = useQueryParam('action');
  const [target] = useQueryParam('target');
  const [since, setSince] = useQueryParam('since');
  const { entries, error, more, isComplete, reload } = useEntries({ user, action, target, since });
  const [open, setOpen] = useState<AuditEntry | null>(null);
  const columns: Column<AuditEntry>[] = [
    { id: 'at', label: 'Time', width: 'minmax(96px, 1fr)', cell: (row) => <Time at={row.at} kind="short" /> },
    { id: 'user', label: 'User', cell: (row) => <User name={row.user_id} /> },
    { id: 'action', label: 'Action', cell: (row) => <button type="button" class="admin-link" onClick={() => setOpen(row)}>{row.action}</button> },
    { id: 'target', label: 'Target', cell: (row) => row.target || '–', title: (row) => row.target },
    { id: 'change', label: 'Change', wide: true, width: 'minmax(160px, 3fr)', cell: (row) => <span class="muted">{changes(row.before, row.after)}</span>, title: (row) => changes(row.before, row.after) },
    { id: 'via', label: 'Via', wide: true, width: '90px', cell: (row) => row.via, title: (row) => row.address },
  ];
  return (
    <div class="stack">
      <div class="form-grid">
        <Typed label="User" name="user" value={user} placeholder="any" />
        <Typed label="Action" name="action" value={action} placeholder="any, such as tenant or token.create" />
        <Typed label="Target" name="target" value={target} placeholder="any" />
        <Select label="Time" value={since} options={TIMES} onChange={setSince} />
      </div>
      {error ? <ErrorBox error={error} onRetry={reload} /> : null}
      {entries === null ? (
        !error && <Skeleton lines={8} height="28px" />
      ) : (
        <Table
          label="Audit log"
          rows={entries}
          columns={columns}
          rowKey={(row) => row.audit_id}
          onEnd={isComplete ? undefined : more}
          empty={
            <Empty title="No changes match" icon="reports">
              Every change of tenants, roles, tokens, nodes and windows is recorded here and cannot be removed.
            </Empty>
          }
        />
      )}
      {open && (
        <Dialog title={`${open.action} ${open.target}`} wide onClose={() => setOpen(null)}>
          <KeyValue
            columns
            pairs={[
              ['Time', <Time at={open.at} kind="full" />],
              ['User', open.user_id],
              ['Via', `${open.via} ${open.address}`],
              open.token_id !== null && ['Token', open.token_id],
            ]}
          />
          {open.before !== null && (
            <section>
              <h3>Before</h3>
              <Code text={JSON.stringify(open.before, null, 2)} />
            </section>
          )}
          {open.after !== null && (
            <section>
              <h3>After</h3>
              <Code text={JSON.stringify(open.after, null, 2)} />
            </section>
          )}
        </Dialog>
      )}
    </div>
  );
}

/** A field whose text goes to the URL after a pause. */
function Typed({ label, name, value, placeholder }: { label: string; name: string; value: string; placeholder: string }) {
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <Input
      label={label}
      value={text}
      placeholder={placeholder}
      onInput={(next) => {
        setText(next);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => setQuery({ [name]: next.trim() }), TYPING_MS);
      }}
    />
  );
}

function useEntries(filter: { user: string; action: string; target: string; since: string }) {
  const [entries, setEntries] = useState<AuditEntry[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [turn, setTurn] = useState(0);
  const state = useRef({ cursor: null as number | null, busy: false, stop: new AbortController() });
  const [isComplete, setComplete] = useState(false);
  const load = (cursor: number | null) => {
    const { current } = state;
    if (current.busy) return;
    current.busy = true;
    const { signal } = current.stop;
    api
      .get<AuditPage>('/audit', { query: { ...filter, limit: PAGE, cursor }, signal })
      .then((page) => {
        if (signal.aborted) return;
        current.cursor = page.next_cursor;
        setComplete(page.next_cursor === null);
        setEntries((before) => (cursor === null ? page.entries : [...(before ?? []), ...page.entries]));
        setError(null);
      })
      .catch((failure: unknown) => {
        if (!signal.aborted && !isAbort(failure)) setError(failure);
      })
      .finally(() => {
        if (!signal.aborted) current.busy = false;
      });
  };
  useEffect(() => {
    const { current } = state;
    current.stop.abort();
    current.stop = new AbortController();
    current.busy = false;
    load(null);
    return () => current.stop.abort();
  }, [filter.user, filter.action, filter.target, filter.since, turn]);
  return {
    entries,
    error,
    isComplete,
    more: () => state.current.cursor !== null && load(state.current.cursor),
    reload: () => setTurn(turn + 1),
  };
}
