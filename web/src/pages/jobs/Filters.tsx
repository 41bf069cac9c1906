/** Filters and columns of the job table, kept in the URL. */

import { useState } from 'preact/hooks';
import { Badge, StatusBadge } from '../../components/Badge';
import { Button } from '../../components/Button';
import { Checkbox, Input } from '../../components/Field';
import { Icon } from '../../components/Icon';
import { Popover } from '../../components/Popover';
import { query, setQuery, useQueryList } from '../../router';
import { user } from '../../state/session';

const STATUSES = ['running', 'scheduled', 'pending', 'preempted', 'failed', 'cancelled', 'completed'];
const CLASSES = ['real-time', 'high', 'default', 'low', 'best-effort'];
const CAUSES = [
  'exited',
  'signalled',
  'out-of-memory',
  'time-limit',
  'disk-limit',
  'node-lost',
  'could-not-start',
  'waited-too-long',
  'dependency-failed',
  'deadline',
];
const NAMES = ['status', 'user', 'tenant_id', 'priority_class', 'node', 'cause', 'since', 'ended_since'] as const;
const LABELS: Record<(typeof NAMES)[number], string> = {
  status: 'Status',
  user: 'User',
  tenant_id: 'Tenant',
  priority_class: 'Class',
  node: 'Node',
  cause: 'Cause',
  since: 'Submitted since',
  ended_since: 'Ended since',
};

/** The filters of the URL, as the server takes them. */
export function filters(params: URLSearchParams): Record<string, string> {
  return Object.fromEntries(NAMES.map((name) => [name, params.get(name) ?? '']).filter(([, value]) => value !== ''));
}

export function filterNames(params: URLSearchParams): (typeof NAMES)[number][] {
  return NAMES.filter((name) => params.get(name));
}

export function FilterBar() {
  const [statuses, setStatuses] = useQueryList('status');
  const [users, setUsers] = useQueryList('user');
  const me = user.value?.user_id ?? '';
  const isMine = users.length === 1 && (users[0] === 'me' || users[0] === me);
  const others = filterNames(query.value).filter((name) => name !== 'status' && !(name === 'user' && isMine));
  return (
    <>
      <Popover
        name="Filter by status"
        active={statuses.length > 0}
        label={
          <>
            Status {statuses.length > 0 && <Badge tone="accent">{statuses.length}</Badge>}
            <Icon name="down" size={12} />
          </>
        }
      >
        <div class="filter-list">
          <div class="row">
            <Button size="small" onClick={() => setStatuses(['running', 'scheduled', 'pending', 'preempted'])}>
              Live
            </Button>
            <Button size="small" onClick={() => setStatuses(['failed', 'cancelled', 'completed'])}>
              Ended
            </Button>
            <Button size="small" kind="quiet" onClick={() => setStatuses([])}>
              All
            </Button>
          </div>
          {STATUSES.map((status) => (
            <Checkbox
              key={status}
              label={<StatusBadge status={status} quiet />}
              checked={statuses.includes(status)}
              onChange={(on) => setStatuses(on ? [...statuses, status] : statuses.filter((one) => one !== status))}
            />
          ))}
        </div>
      </Popover>
      <Button aria-pressed={isMine} class={isMine ? 'button-active' : ''} icon="user" onClick={() => setUsers(isMine ? [] : ['me'])}>
        Mine
      </Button>
      <Popover
        name="More filters"
        active={others.length > 0}
        label={
          <>
            <Icon name="filter" /> Filters {others.length > 0 && <Badge tone="accent">{others.length}</Badge>}
          </>
        }
      >
        {(close) => <MoreFilters close={close} />}
      </Popover>
      {others.map((name) => (
        <span key={name} class="filter-chip">
          {LABELS[name]}: <b>{query.value.get(name)}</b>
          <button type="button" aria-label={`Remove the filter ${LABELS[name]}`} onClick={() => setQuery({ [name]: null })}>
            <Icon name="close" size={12} />
          </button>
        </span>
      ))}
    </>
  );
}

function MoreFilters({ close }: { close: () => void }) {
  const [values, setValues] = useState<Record<string, string>>(() => filters(query.value));
  const field = (name: (typeof NAMES)[number], placeholder: string) => (
    <Input
      label={LABELS[name]}
      placeholder={placeholder}
      value={values[name] ?? ''}
      onInput={(value) => setValues({ ...values, [name]: value })}
    />
  );
  const several = (name: 'priority_class' | 'cause', choices: readonly string[]) => {
    const chosen = (values[name] ?? '').split(',').filter(Boolean);
    return (
      <fieldset class="filter-set">
        <legend class="field-label">{LABELS[name]}</legend>
        {choices.map((choice) => (
          <Checkbox
            key={choice}
            label={choice}
            checked={chosen.includes(choice)}
            onChange={(on) =>
              setValues({ ...values, [name]: (on ? [...chosen, choice] : chosen.filter((one) => one !== choice)).join(',') })
            }
          />
        ))}
      </fieldset>
    );
  };
  return (
    <form
      class="filter-form"
      onSubmit={(event) => {
        event.preventDefault();
        setQuery(Object.fromEntries(NAMES.map((name) => [name, (values[name] ?? '').trim() || null])));
        close();
      }}
    >
      <div class="filter-columns">
        <div class="stack">
          {field('user', 'alice, bob')}
          {field('tenant_id', 'lab/vision')}
          {field('node', 'node-1')}
          {field('since', '2h, 7d or 2026-01-31')}
          {field('ended_since', '2h, 7d or 2026-01-31')}
        </div>
        <div class="stack">
          {several('priority_class', CLASSES)}
          {several('cause', CAUSES)}
        </div>
      </div>
      <div class="row">
        <Button size="small" kind="quiet" onClick={() => setValues({})}>
          Clear
        </Button>
        <span class="spacer" />
        <Button size="small" kind="primary" type="submit">
          Apply
        </Button>
      </div>
    </form>
  );
}

export function ColumnChooser({
  columns,
  chosen,
  onChange,
}: {
  columns: readonly { id: string; label: string }[];
  chosen: readonly string[];
  onChange: (ids: string[]) => void;
}) {
  return (
    <Popover
      name="Choose columns"
      align="right"
      label={
        <>
          <Icon name="columns" /> Columns
        </>
      }
    >
      <div class="filter-list">
        {columns.map(({ id, label }) => (
          <Checkbox
            key={id}
            label={label}
            checked={chosen.includes(id)}
            onChange={(on) => {
              const next = columns.map((column) => column.id).filter((one) => (one === id ? on : chosen.includes(one)));
              if (next.length > 0) onChange(next);
            }}
          />
        ))}
        <Button size="small" kind="quiet" onClick={() => onChange([])}>
          Default columns
        </Button>
      </div>
    </Popover>
  );
}
