/** Queues and tenants: fair share against use, quotas, and why the first job of each queue is pending. */

import './queues.css';
import { useEffect, useState } from 'preact/hooks';
import { api } from '../../api/client';
import { Badge } from '../../components/Badge';
import { Bar } from '../../components/Bar';
import { Button, IconButton } from '../../components/Button';
import { Page, Panel, Stat } from '../../components/Page';
import { Search } from '../../components/Search';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { amount, count, mebibytes, number, percent } from '../../format';
import { href, useQueryList, useQueryParam } from '../../router';
import { useResource } from '../../state/resource';
import { AddTenantDialog, PERIODS, QuotaDialog, Weight } from './edit';
import { rowsOf, servedNext, type TenantRow } from './tree';
import type { Queue, Quota, ShareList, Tenant } from './types';

const AGAIN_MS = 10_000;
const MOST_ROWS = 300;
const RESOURCES: Record<string, string> = { gpu: 'of the GPUs', cpu: 'of the CPUs', memory: 'of the memory', other: 'of a named resource' };

interface Data {
  shares: ShareList;
  tenants: Tenant[];
  queues: Queue[];
}

async function load(signal: AbortSignal): Promise<Data> {
  const [shares, tenants, queues] = await Promise.all([
    api.get<ShareList>('/shares', { signal }),
    api.get<{ tenants: Tenant[] }>('/tenants', { signal }),
    api.get<{ queues: Queue[] }>('/queues', { signal }),
  ]);
  return { shares, tenants: tenants.tenants, queues: queues.queues };
}

export default function Queues() {
  const { data, error, reload } = useResource(load, [], { kinds: null, debounceMs: 2000 });
  useEffect(() => {
    const timer = setInterval(() => document.hidden || reload(), AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  const [search, setSearch] = useQueryParam('search');
  const [closed, setClosed] = useQueryList('closed');
  const [opened, setOpened] = useQueryList('open');
  const [most, setMost] = useState(MOST_ROWS);
  const [adding, setAdding] = useState(false);
  if (!data) {
    return (
      <Page title="Queues and tenants">
        {error ? <ErrorBox error={error} onRetry={reload} /> : <Skeleton lines={8} height="34px" />}
      </Page>
    );
  }
  const { shares, tenants, queues } = data;
  const rows = rowsOf(shares.tenants, tenants, queues, new Set(closed), search);
  const parents = shares.tenants.filter((share) => share.may.add).map((share) => share.tenant_id);
  const next = servedNext(shares.tenants);
  const pending = queues.reduce((sum, queue) => sum + queue.depth, 0);
  const held = shares.tenants.filter((share) => share.parent_id === null).reduce((sum, share) => sum + share.held.gpu, 0);
  const toggle = (set: (values: readonly string[]) => void, values: readonly string[], id: string) =>
    set(values.includes(id) ? values.filter((value) => value !== id) : [...values, id]);
  return (
    <Page
      title="Queues and tenants"
      actions={
        (shares.may_add || parents.length > 0) && (
          <Button icon="submit" onClick={() => setAdding(true)}>
            Add tenant
          </Button>
        )
      }
    >
      {error ? <ErrorBox error={error} onRetry={reload} /> : null}
      <div class="queue-stats">
        <Stat label="GPUs in use" value={`${amount(held)} of ${amount(shares.total.gpu)}`} hint={`${amount(shares.total.cpu)} CPUs, ${mebibytes(shares.total.mem_mb)} memory`} />
        <Stat label="Tenants with jobs" value={`${number(shares.tenants.filter((share) => share.active).length)} of ${number(shares.tenants.length)}`} hint={shares.complete ? undefined : 'of those you may see'} />
        <Stat label="Pending tasks" value={number(pending)} hint={pending ? `in ${count(queues.length, 'queue')}` : 'every queue is empty'} />
        <Stat
          label="Served next"
          value={next ? <span class="cut">{next.tenant_id}</span> : '–'}
          hint={next ? `uses ${percent(next.dominant_share)}, the least for its weight` : 'no tenant has pending jobs'}
        />
      </div>
      <Panel
        title="Fair share and use"
        flush
        actions={shares.tenants.length > 8 && <Search value={search} onSearch={setSearch} label="Search tenants" />}
      >
        <div class="tenants" role="table" aria-label="Tenants">
          <div class="tenant-head" role="row">
            <span role="columnheader">Tenant</span>
            <span role="columnheader" class="tenant-number">Weight</span>
            <span role="columnheader">Fair share and use</span>
            <span role="columnheader" class="tenant-number">GPUs</span>
            <span role="columnheader" class="tenant-number">Running</span>
            <span role="columnheader" class="tenant-number">Pending</span>
          </div>
          {rows.slice(0, most).map((row) => (
            <TenantItem
              key={row.share.tenant_id}
              row={row}
              isDetailed={opened.includes(row.share.tenant_id)}
              onFold={() => toggle(setClosed, closed, row.share.tenant_id)}
              onDetails={() => toggle(setOpened, opened, row.share.tenant_id)}
              onChanged={reload}
            />
          ))}
        </div>
        {rows.length === 0 && (
          <Empty title={search ? 'No tenant matches' : 'No tenants'} icon="queues">
            {search ? `No tenant has “${search}” in its name.` : 'Tenants appear with their first job, or when an operator adds one.'}
          </Empty>
        )}
        {rows.length > most && (
          <div class="more">
            <Button onClick={() => setMost(most + MOST_ROWS)}>Show {number(Math.min(MOST_ROWS, rows.length - most))} more</Button>
          </div>
        )}
        <p class="panel-note">
          <b>Fair share</b> is a tenant's part by weight among the siblings that have jobs. <b>Use</b> is the largest part that it
          holds of any resource. The tenant with the least use for its weight is served first.
        </p>
      </Panel>
      {adding && <AddTenantDialog parents={parents} atTop={shares.may_add} onClose={() => setAdding(false)} onChanged={reload} />}
    </Page>
  );
}

interface ItemProps {
  row: TenantRow;
  isDetailed: boolean;
  onFold: () => void;
  onDetails: () => void;
  onChanged: () => void;
}

function TenantItem({ row, isDetailed, onFold, onDetails, onChanged }: ItemProps) {
  const { share, tenant, depth } = row;
  const name = share.tenant_id.slice(share.tenant_id.lastIndexOf('/') + 1);
  const queued = row.queues.reduce((sum, queue) => sum + queue.depth, 0);
  return (
    <div class={`tenant ${isDetailed ? 'tenant-open' : ''}`} role="rowgroup">
      <div class={`tenant-row ${share.active ? '' : 'tenant-idle'}`} role="row">
        <div role="cell" class="tenant-name" style={{ paddingLeft: `${depth * 18}px` }}>
          {row.hasChildren ? (
            <IconButton
              size="small"
              icon={row.isOpen ? 'down' : 'right'}
              label={`${row.isOpen ? 'Hide' : 'Show'} tenants below ${share.tenant_id}`}
              aria-expanded={row.isOpen}
              onClick={onFold}
            />
          ) : (
            <span class="tenant-gap" />
          )}
          <button type="button" class="tenant-link cut" title={share.tenant_id} aria-expanded={isDetailed} onClick={onDetails}>
            {depth > 0 ? name : share.tenant_id}
          </button>
          {tenant?.archived && <Badge>archived</Badge>}
        </div>
        <div role="cell" class="tenant-number" data-label="Weight">
          <Weight share={share} tenant={tenant} onChanged={onChanged} />
        </div>
        <div role="cell" class="tenant-bars">
          <ShareBars row={row} />
        </div>
        <div role="cell" class="tenant-number" data-label="GPUs">{amount(share.held.gpu)}</div>
        <div role="cell" class="tenant-number" data-label="Running">{number(share.running_jobs)}</div>
        <div role="cell" class="tenant-number" data-label="Pending">
          {share.pending_jobs || queued ? (
            <a href={href('/jobs', { tenant_id: share.tenant_id, status: 'pending' })}>{number(Math.max(share.pending_jobs, queued))}</a>
          ) : (
            '0'
          )}
        </div>
      </div>
      {isDetailed && (
        <div role="row">
          <div role="cell" class="tenant-details">
            <Details row={row} onChanged={onChanged} />
          </div>
        </div>
      )}
    </div>
  );
}

/** Two bars, one above the other, on the same scale: fair share, and what is held. */
function ShareBars({ row: { share } }: { row: TenantRow }) {
  const { fair_share: fair, dominant_share: use } = share;
  const of = RESOURCES[share.dominant_resource] ?? '';
  const isOver = fair !== null && use > fair + 0.005;
  const text = `${fair === null ? '' : `Fair share ${percent(fair)}, `}use ${percent(use)} ${of}`;
  return (
    <div class="share-bars" role="img" aria-label={`${share.tenant_id}: ${text}`} title={text}>
      {fair !== null && (
        <div class="share-line">
          <span class="share-track">
            <span class="share-fair" style={{ width: `${fair * 100}%` }} />
          </span>
          <span class="share-text muted">{percent(fair)} share</span>
        </div>
      )}
      <div class="share-line">
        <span class="share-track">
          <span class={`share-use ${isOver ? 'share-over' : ''}`} style={{ width: `${Math.min(1, use) * 100}%` }} />
        </span>
        <span class="share-text">
          {percent(use)} used{isOver ? ' ▲' : ''}
        </span>
      </div>
    </div>
  );
}

function Details({ row, onChanged }: { row: TenantRow; onChanged: () => void }) {
  const [editing, setEditing] = useState(false);
  const { tenant, share, queues } = row;
  return (
    <div class="tenant-columns">
      <section>
        <header class="row">
          <h3>Quota</h3>
          <span class="spacer" />
          {share.may.edit && tenant && (
            <Button size="small" onClick={() => setEditing(true)}>
              Edit quota
            </Button>
          )}
        </header>
        {tenant && <QuotaBars quota={tenant.quota} />}
        {tenant?.budget_gpu_hours != null && (
          <Bar
            label={`Budget of ${tenant.tenant_id}`}
            parts={[{ label: 'GPU-hours used', value: tenant.budget_used_gpu_hours ?? 0, colour: 'var(--chart-5)' }]}
            total={tenant.budget_gpu_hours}
            unit="GPU-hours"
            legend
          />
        )}
      </section>
      <section>
        <h3>Queues</h3>
        {queues.length === 0 ? (
          <p class="muted">No pending jobs.</p>
        ) : (
          <ul class="queues">
            {queues.map((queue) => (
              <li key={queue.queue_id}>
                <div class="row">
                  <Badge tone={queue.priority_class === 'default' ? 'gray' : 'accent'}>{queue.priority_class}</Badge>
                  <b>{count(queue.depth, 'pending task')}</b>
                  {queue.head_job_id !== null && (
                    <a href={href(`/jobs/${queue.head_job_id}`)} title="The first in the queue">
                      job {queue.head_job_id}
                    </a>
                  )}
                </div>
                {queue.head_reasons.map((reason) => (
                  <p key={reason.code} class="queue-reason">
                    {reason.text}
                  </p>
                ))}
              </li>
            ))}
          </ul>
        )}
      </section>
      {editing && tenant && <QuotaDialog tenant={tenant} onClose={() => setEditing(false)} onChanged={onChanged} />}
    </div>
  );
}

interface Line {
  label: string;
  used: number;
  burst: number;
  limit: number;
  format: (value: number) => string;
  /** A part of `used` that running tasks have reserved. */
  reserved?: number;
}

function QuotaBars({ quota }: { quota: Quota }) {
  const lines: Line[] = [];
  const add = (label: string, limit: number | null | undefined, used: number, burst: number, format = amount as Line['format'], reserved?: number) => {
    if (limit !== null && limit !== undefined) lines.push({ label, limit, used, burst, format, reserved });
  };
  add('GPUs', quota.gpu_limit, quota.gpu_used, quota.gpu_burst);
  for (const [model, limit] of Object.entries(quota.gpu_type_limits)) {
    add(`GPUs like ${model}`, limit, quota.gpu_type_used[model] ?? 0, quota.gpu_type_burst[model] ?? 0);
  }
  add('CPUs', quota.cpu_limit, quota.cpu_used, quota.cpu_burst);
  add('Memory', quota.mem_limit_mb, quota.mem_used_mb, quota.mem_burst_mb, mebibytes);
  add('Disk', quota.disk_limit_mb, quota.disk_used_mb, quota.disk_burst_mb, mebibytes);
  for (const [name, limit] of Object.entries(quota.generic_limits)) {
    add(name, limit, quota.generic_used[name] ?? 0, quota.generic_burst[name] ?? 0);
  }
  add('Running tasks', quota.running_jobs_limit, quota.running_jobs_used, 0);
  add('Pending tasks', quota.waiting_jobs_limit, quota.waiting_jobs_used, 0);
  const period = PERIODS.find((one) => one.value === quota.gpu_hours_period)?.label.toLowerCase() ?? '';
  add(`GPU-hours ${period}`, quota.gpu_hours_limit, quota.gpu_hours_used, 0, amount, quota.gpu_hours_reserved);
  if (lines.length === 0) return <p class="muted">No limits: jobs are bound by the fair share alone.</p>;
  return (
    <ul class="quota">
      {lines.map((line) => (
        <QuotaLine key={line.label} {...line} />
      ))}
    </ul>
  );
}

function QuotaLine({ label, used, burst, limit, format, reserved = 0 }: Line) {
  const isFull = used >= limit;
  const parts = [
    { label: 'used', value: used - reserved, colour: isFull ? 'var(--amber)' : 'var(--accent)' },
    { label: 'reserved by running tasks', value: reserved, colour: 'var(--accent)', striped: true },
    { label: 'burst', value: burst, colour: 'var(--purple)', striped: true },
  ];
  return (
    <li>
      <div class="row quota-text">
        <span>{label}</span>
        <span class="spacer" />
        <span>
          <b>{format(used)}</b> of {format(limit)}
          {burst > 0 && <span class="muted"> + {format(burst)} burst</span>}
          {isFull && <span class="quota-full"> full</span>}
        </span>
      </div>
      <Bar label={label} parts={parts} total={limit} mark={burst > 0 ? { value: limit, label: 'limit' } : undefined} format={format} />
    </li>
  );
}
