/** Nodes: state, GPUs, use of every node; filtered by the URL; drained and undrained by users with the permission. */

import { useMemo, useState } from 'preact/hooks';
import { api } from '../../api/client';
import { Badge, StatusBadge } from '../../components/Badge';
import { Button } from '../../components/Button';
import { Select } from '../../components/Field';
import { Page } from '../../components/Page';
import { Search } from '../../components/Search';
import { Empty, Skeleton } from '../../components/States';
import { Table, type Column, type Sort } from '../../components/Table';
import { Time } from '../../components/Time';
import { amount, count, mebibytes, number, percent } from '../../format';
import { href, setQuery, useQueryList, useQueryParam } from '../../router';
import { EXTERNAL, FREE, HIDDEN, RESERVED, UNHEALTHY, useOverview, type Cluster } from '../../state/overview';
import { useResource } from '../../state/resource';
import { may } from '../../state/session';
import { userColour } from '../../state/userColours';
import { factsOf } from '../overview/facts';
import { DrainDialog, ReserveDialog, undrain } from './actions';
import { filtered, rowsOf, sorted, type NodeRow, type NodeTerms } from './rows';
import './nodes.css';

export default function Nodes() {
  const cluster = useOverview();
  return cluster ? (
    <Content cluster={cluster} />
  ) : (
    <Page title="Nodes">
      <Skeleton lines={8} />
    </Page>
  );
}

function Content({ cluster }: { cluster: Cluster }) {
  const [status, setStatus] = useQueryParam('status');
  const [pool, setPool] = useQueryParam('pool');
  const [label, setLabel] = useQueryParam('label');
  const [text, setText] = useQueryParam('q');
  const [order] = useQueryList('sort');
  const [selected, setSelected] = useState<Set<string | number>>(new Set());
  const [dialog, setDialog] = useState<'drain' | 'reserve' | null>(null);
  const { drained } = cluster.sections.flags;
  const terms = useResource(
    (signal) => api.get<{ terms: NodeTerms }>('/overview', { query: { terms: true }, signal }).then((answer) => answer.terms),
    [cluster.nodes, drained.length, drained[0], drained.at(-1)],
  );
  const known = terms.data?.labels.length === cluster.nodeCount ? terms.data : null;
  const all = useMemo(() => rowsOf(cluster, known), [cluster, known]);
  const sort: Sort | null = order[0] ? { column: order[0].replace(/^-/, ''), descending: order[0].startsWith('-') } : null;
  const rows = sorted(
    filtered(all, { status: status ? status.split(',') : [], pool: pool ? [pool] : [], label, text }),
    sort?.column ?? '',
    sort?.descending ?? false,
  );
  const pools = [...new Set(cluster.nodes.pool)].sort();
  const mayDrain = may('manage-nodes');
  const mayReserve = may('manage-windows');
  const chosen = all.filter((row) => selected.has(row.name));
  const names = chosen.map((row) => row.name);
  const isFiltered = Boolean(status || pool || label || text);
  return (
    <Page title="Nodes" aside={<Counts cluster={cluster} />}>
      <div class="filters">
        <Search label="Search nodes" placeholder="Name or drain reason" value={text} onSearch={setText} />
        <Select compact label="Status" value={status} onChange={setStatus} options={[{ value: '', label: 'Any status' }, 'ready', 'draining', 'offline']} />
        {pools.length > 1 && (
          <Select compact label="Pool" value={pool} onChange={setPool} options={[{ value: '', label: 'Any pool' }, ...pools]} />
        )}
        <Search label="Filter by label or taint" placeholder="Label or taint: rack=r7" value={label} onSearch={setLabel} />
        {isFiltered && (
          <Button kind="quiet" onClick={() => setQuery({ status: null, pool: null, label: null, q: null })}>
            Clear filters
          </Button>
        )}
      </div>
      {chosen.length > 0 && (
        <div class="selection-bar" role="region" aria-label="Selected nodes">
          <b>{count(chosen.length, 'node')} selected</b>
          {mayDrain && (
            <>
              <Button size="small" onClick={() => setDialog('drain')}>Drain</Button>
              <Button size="small" onClick={() => void undrain(names).then((done) => done && setSelected(new Set()))}>Undrain</Button>
            </>
          )}
          {mayReserve && <Button size="small" onClick={() => setDialog('reserve')}>Reserve</Button>}
          <Button size="small" kind="quiet" onClick={() => setSelected(new Set())}>Clear selection</Button>
        </div>
      )}
      <Table
        label="Nodes"
        rows={rows}
        columns={columnsOf(cluster)}
        rowKey={(row) => row.name}
        rowLabel={(row) => `node ${row.name}`}
        rowHref={(row) => `/nodes/${encodeURIComponent(row.name)}`}
        sort={sort}
        onSort={({ column, descending }) => setQuery({ sort: `${descending ? '-' : ''}${column}` })}
        {...(mayDrain || mayReserve ? { selected, onSelect: setSelected } : {})}
        empty={
          isFiltered ? (
            <Empty title="No node matches the filters" />
          ) : (
            <Empty title="No node has joined yet" icon="nodes">An administrator adds nodes with `tgpu nodes join-token`.</Empty>
          )
        }
      />
      {dialog === 'drain' && <DrainDialog names={names} onClose={() => setDialog(null)} onDone={() => setSelected(new Set())} />}
      {dialog === 'reserve' && <ReserveDialog names={names} onClose={() => setDialog(null)} onDone={() => setSelected(new Set())} />}
    </Page>
  );
}

function Counts({ cluster }: { cluster: Cluster }) {
  const counts = new Map<string, number>();
  for (const status of cluster.nodes.status) counts.set(status, (counts.get(status) ?? 0) + 1);
  return (
    <>
      {[...counts].map(([status, value]) => (
        <StatusBadge key={status} status={status}>
          {number(value)} {status}
        </StatusBadge>
      ))}
    </>
  );
}

function columnsOf(cluster: Cluster): Column<NodeRow>[] {
  const { nodes } = cluster;
  const columns: (Column<NodeRow> | false)[] = [
    {
      id: 'name',
      label: 'Node',
      width: 'minmax(110px, 1.2fr)',
      sortable: true,
      title: (row) => row.name,
      cell: (row) => <a href={href(`/nodes/${encodeURIComponent(row.name)}`)}>{row.name}</a>,
    },
    {
      id: 'status',
      label: 'Status',
      width: 'minmax(96px, 1.4fr)',
      sortable: true,
      title: (row) => row.drainReason,
      cell: (row) => <State cluster={cluster} row={row} />,
    },
    new Set(nodes.pool).size > 1 && { id: 'pool', label: 'Pool', width: 'minmax(70px, 0.7fr)', sortable: true, wide: true, cell: (row) => row.pool },
    cluster.deviceCount > 0 && {
      id: 'gpus',
      label: 'GPUs',
      width: 'minmax(96px, 1.5fr)',
      sortable: true,
      cell: (row) => <MiniMap cluster={cluster} row={row} />,
    },
    {
      id: 'cpu',
      label: 'CPU',
      width: 'minmax(120px, 1fr)',
      sortable: true,
      wide: true,
      cell: (row) => (
        <Meter
          share={row.cpuShare}
          used={ratio(nodes.cpu_used[row.row], nodes.cpu_total[row.row])}
          text={`${number(nodes.cpu_allocated[row.row], 1)} / ${number(nodes.cpu_total[row.row], 1)}`}
          label="CPUs allocated"
        />
      ),
    },
    {
      id: 'memory',
      label: 'Memory',
      width: 'minmax(150px, 1.1fr)',
      sortable: true,
      wide: true,
      cell: (row) => (
        <Meter
          share={row.memShare}
          used={ratio(nodes.mem_used_mb[row.row], nodes.mem_total_mb[row.row])}
          text={`${mebibytes(nodes.mem_allocated_mb[row.row])} / ${mebibytes(nodes.mem_total_mb[row.row])}`}
          label="Memory allocated"
        />
      ),
    },
    { id: 'labels', label: 'Labels and taints', width: 'minmax(120px, 1.5fr)', wide: true, title: labelText, cell: (row) => <Labels row={row} /> },
    {
      id: 'heard',
      label: 'Heartbeat',
      width: '90px',
      wide: true,
      cell: (row) => (nodes.silent_since[row.row] ? <Time at={nodes.silent_since[row.row]} /> : <span class="muted">live</span>),
    },
  ];
  return columns.filter((column) => column !== false);
}

function ratio(part: number | null | undefined, whole: number | undefined): number | null {
  return part === null || part === undefined || !whole ? null : part / whole;
}

function State({ cluster, row }: { cluster: Cluster; row: NodeRow }) {
  return (
    <span class="node-state">
      <StatusBadge status={row.status} quiet />
      {cluster.has('maintenance', row.row) && <Badge tone="purple">maintenance</Badge>}
      {cluster.has('reserved', row.row) && <Badge tone="purple">reserved</Badge>}
      {cluster.has('disk_full', row.row) && <Badge tone="red">disk full</Badge>}
      {row.drainReason && <span class="muted">{row.drainReason}</span>}
    </span>
  );
}

function MiniMap({ cluster, row }: { cluster: Cluster; row: NodeRow }) {
  if (row.gpus === 0) return <span class="muted">–</span>;
  const first = cluster.firstDevice[row.row] ?? 0;
  return (
    <span class="mini">
      <span class="mini-map" role="img" aria-label={`${amount(row.gpusAllocated)} of ${row.gpus} GPUs allocated`}>
        {Array.from({ length: row.gpus }, (_, at) => <MiniCell key={at} cluster={cluster} device={first + at} />)}
      </span>
      <span class="mini-text">
        {amount(row.gpusAllocated)}/{row.gpus}
        {row.busy !== null && <span class="muted"> {percent(row.busy / 100)}</span>}
      </span>
    </span>
  );
}

function MiniCell({ cluster, device }: { cluster: Cluster; device: number }) {
  const facts = factsOf(cluster, device);
  const user = cluster.user[device] ?? FREE;
  const name = cluster.holder(device);
  const state = cluster.state[device] ?? 0;
  const sign = state === UNHEALTHY ? 'mini-ill' : state === EXTERNAL ? 'mini-external' : state === RESERVED ? 'mini-reserved' : '';
  const busy = cluster.busy[device] ?? -1;
  const colour = name ? userColour(name) : user === HIDDEN ? 'var(--gray)' : '';
  const strength = busy < 0 ? 80 : 35 + (65 * busy) / 100;
  return (
    <span
      class={`mini-cell ${sign}`}
      style={colour ? { backgroundColor: `color-mix(in srgb, ${colour} ${strength}%, var(--surface))` } : {}}
      title={[facts.title, facts.holder, facts.job, facts.busy, facts.state].filter(Boolean).join(' · ')}
    />
  );
}

function Meter({ share, used, text, label }: { share: number; used: number | null; text: string; label: string }) {
  const bounded = (value: number) => `${Math.min(1, value) * 100}%`;
  return (
    <span class="meter-cell" title={used === null ? undefined : `${percent(used)} used`}>
      <span class="meter" role="img" aria-label={`${label}: ${percent(share)}${used === null ? '' : `, ${percent(used)} used`}`}>
        <span class="meter-allocated" style={{ width: bounded(share) }} />
        {used !== null && <span class="meter-used" style={{ width: bounded(used) }} />}
      </span>
      <span class="meter-text">{text}</span>
    </span>
  );
}

/** Labels that users gave. Every node also has its names as labels, which say nothing new here. */
function ownLabels(row: NodeRow): [string, string][] {
  return Object.entries(row.labels).filter(([key]) => key !== 'tgpu/host' && key !== 'tgpu/node');
}

function labelText(row: NodeRow): string {
  return [...row.taints, ...Object.entries(row.labels).map(([key, value]) => `${key}=${value}`)].join('\n');
}

function Labels({ row }: { row: NodeRow }) {
  return (
    <span class="labels">
      {row.taints.map((taint) => <Badge key={taint} tone="amber" title="Taint">{taint}</Badge>)}
      {ownLabels(row).map(([key, value]) => (
        <span key={key} class="label-text">{key}={value}</span>
      ))}
    </span>
  );
}
