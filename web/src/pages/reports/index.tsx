/** Reports: GPU-hours, waste and waits over a range, by user, tenant, pool, model and more. */

import './reports.css';
import { useMemo, useState } from 'preact/hooks';
import { api, refusal, send } from '../../api/client';
import { Bar } from '../../components/Bar';
import { Button } from '../../components/Button';
import { Input, Segments, Select } from '../../components/Field';
import { Page, Panel, Stat } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Table, type Column, type Sort } from '../../components/Table';
import { toastError } from '../../components/Toast';
import { User } from '../../components/User';
import { NONE, count, duration, number, percent } from '../../format';
import { setQuery, useQueryParam } from '../../router';
import { useResource } from '../../state/resource';
import { GROUPS, RANGES, hours, isTime, nameOf, sorted, type Figures, type Report, type ReportRow, type SortKey } from './report';

const MOST_BARS = 12;
const PARTS = [
  { key: 'used', label: 'Busy', colour: 'var(--chart-3)' },
  { key: 'unknown', label: 'Not measured', colour: 'var(--gray)' },
  { key: 'idle', label: 'Reserved, idle', colour: 'var(--chart-6)', striped: true },
  { key: 'failed', label: 'Failed jobs', colour: 'var(--red)' },
  { key: 'lost', label: 'Lost to preemption or node failure', colour: 'var(--purple)', striped: true },
] as const;

/** Hours with one decimal; a little is not shown as none. */
const inText = (value: number) => (value > 0 && value < 0.05 ? '< 0.1' : number(value, 1));
const inHours = (seconds: number | null) => (seconds === null ? NONE : inText(seconds / 3600));

export default function Reports() {
  const [by, setBy] = useQueryParam('by', 'user');
  const [range, setRange] = useQueryParam('range', '7d');
  const [since] = useQueryParam('since');
  const [until] = useQueryParam('until');
  const isCustom = range === 'custom';
  const query = {
    by,
    detail: true,
    since: isCustom ? startOf(since) : range,
    until: isCustom ? endOf(until) : undefined,
  };
  const isWrong = isCustom && since !== '' && until !== '' && since > until;
  const { data, error, loading, reload } = useResource(
    (signal) => (isWrong ? Promise.resolve(null) : api.get<Report>('/report', { query, signal })),
    [by, query.since, query.until, isWrong],
  );
  const [busy, setBusy] = useState(false);
  const download = async () => {
    setBusy(true);
    try {
      const response = await send('GET', '/report', undefined, { query, headers: { Accept: 'text/csv' } });
      if (!response.ok) throw await refusal(response);
      save(await response.blob(), `tgpu-report-${by}-${isCustom ? `${since}-${until}` : range}.csv`);
    } catch (failure) {
      toastError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Page
      title="Reports"
      aside={data && <span class="muted">{data.covers === 'everybody' ? 'All users' : `Covers ${data.covers}`}</span>}
      actions={
        <Button icon="download" busy={busy} disabled={!data || data.rows.length === 0} onClick={() => void download()}>
          Download CSV
        </Button>
      }
    >
      <div class="report-tools">
        <Select compact label="Group by" value={by} options={GROUPS.map((group) => ({ ...group, label: `By ${group.label.toLowerCase().replace('gpu', 'GPU')}` }))} onChange={setBy} />
        <Segments label="Range" value={range} options={[...RANGES, { value: 'custom', label: 'Custom' }]} onChange={setRange} />
        {isCustom && (
          <div class="report-dates">
            <Input label="From" type="date" value={since} max={until || undefined} onInput={(value) => setQuery({ since: value })} />
            <Input
              label="To"
              type="date"
              value={until}
              min={since || undefined}
              error={isWrong ? 'Must not be before the first day.' : null}
              onInput={(value) => setQuery({ until: value })}
            />
          </div>
        )}
      </div>
      {error ? <ErrorBox error={error} onRetry={reload} /> : null}
      {!data ? !error && <Skeleton lines={8} height="28px" /> : <Shown report={data} by={data.by[0] ?? by} isOld={loading} />}
    </Page>
  );
}

/** The first moment of a day in the viewer's zone. */
function startOf(day: string): string | undefined {
  return day ? new Date(`${day}T00:00:00`).toISOString() : undefined;
}

/** The end of a day, or now if that comes first. */
function endOf(day: string): string | undefined {
  if (!day) return undefined;
  const next = new Date(`${day}T00:00:00`);
  next.setDate(next.getDate() + 1);
  return next.getTime() < Date.now() ? next.toISOString() : undefined;
}

function save(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function Shown({ report, by, isOld }: { report: Report; by: string; isOld: boolean }) {
  const { total } = report;
  const parts = hours(total);
  const wasted = parts.idle + parts.lost + parts.failed;
  if (report.rows.length === 0) {
    return (
      <Empty title="Nothing ran in this range" icon="reports">
        Choose a longer range, or come back when a job has run.
      </Empty>
    );
  }
  return (
    <div class={`stack ${isOld ? 'report-old' : ''}`} aria-busy={isOld}>
      <div class="report-stats">
        <Stat label="GPU-hours" value={inText(total.gpu_hours)} hint={`${count(total.jobs, 'job')}, ${count(total.attempts, 'attempt')}`} />
        <Stat label="Wasted GPU-hours" value={inText(wasted)} hint={total.gpu_s > 0 ? `${percent((wasted * 3600) / total.gpu_s)} of all` : 'no GPU was used'} />
        <Stat label="GPU busy" value={total.gpu_measured_s > 0 ? percent((total.gpu_used_s ?? 0) / total.gpu_measured_s) : NONE} hint="of the time that was measured" />
        <Stat label="Median wait" value={duration(total.wait_p50_s)} hint={`90 % started within ${duration(total.wait_p90_s)}`} />
        <Stat label="CPU-hours" value={inHours(total.cpu_s)} hint={total.cpu_used_s === null ? undefined : `${inHours(total.cpu_used_s)} used`} />
        {report.currency && <Stat label={`Cost (${report.currency})`} value={number(total.cost)} />}
      </div>
      <Panel title={`GPU-hours by ${label(by)}`}>
        <Bars report={report} by={by} />
      </Panel>
      <Panel title="Figures" flush>
        <FiguresTable report={report} by={by} />
      </Panel>
    </div>
  );
}

function label(by: string): string {
  return (GROUPS.find((group) => group.value === by)?.label ?? by).toLowerCase().replace('gpu', 'GPU');
}

function Bars({ report, by }: { report: Report; by: string }) {
  const rows = isTime(by) ? report.rows.slice(-31) : sorted(report.rows, by, 'gpu_s', true).slice(0, MOST_BARS);
  const most = Math.max(...rows.map((row) => row.figures.gpu_s), 1) / 3600;
  if (rows.every((row) => row.figures.gpu_s === 0)) return <p class="muted">No GPU was used in this range; the table below has CPU-hours and waits.</p>;
  const left = report.rows.length - rows.length;
  return (
    <>
      <ul class="report-bars">
        {rows.map((row) => {
          const parts = hours(row.figures);
          return (
            <li key={nameOf(row, by)}>
              <span class="report-name cut" title={nameOf(row, by)}>
                <Name row={row} by={by} />
              </span>
              <Bar
                label={nameOf(row, by)}
                total={most}
                unit="h"
                format={inText}
                parts={PARTS.map((part) => ({ ...part, value: parts[part.key] }))}
              />
              <span class="report-value">{inText(row.figures.gpu_hours)} h</span>
            </li>
          );
        })}
      </ul>
      <ul class="legend">
        {PARTS.map((part) => (
          <li key={part.key}>
            <span class={`legend-key ${'striped' in part ? 'bar-striped' : ''}`} style={{ backgroundColor: part.colour }} />
            {part.label}
          </li>
        ))}
        {left > 0 && <li class="muted">{count(left, 'more row')} in the table</li>}
      </ul>
    </>
  );
}

function Name({ row, by }: { row: ReportRow; by: string }) {
  const name = nameOf(row, by);
  return by === 'user' && row.keys[by] ? <User name={name} /> : <>{name}</>;
}

function FiguresTable({ report, by }: { report: Report; by: string }) {
  const [sort, setSort] = useState<Sort>({ column: 'gpu_s', descending: true });
  const isOrdered = isTime(by);
  const used = isOrdered && sort.column === 'gpu_s' ? { column: 'name', descending: true } : sort;
  const rows = useMemo(
    () => sorted(report.rows, by, used.column as SortKey, used.descending),
    [report.rows, by, used.column, used.descending],
  );
  const figure = (id: keyof Figures, text: string, cell: (figures: Figures) => string, more: Partial<Column<ReportRow>> = {}): Column<ReportRow> => ({
    id,
    label: text,
    align: 'right',
    sortable: true,
    width: 'minmax(84px, 1fr)',
    cell: (row) => cell(row.figures),
    ...more,
  });
  const columns: Column<ReportRow>[] = [
    { id: 'name', label: GROUPS.find((group) => group.value === by)?.label ?? by, sortable: true, width: 'minmax(130px, 2fr)', cell: (row) => <Name row={row} by={by} />, title: (row) => nameOf(row, by) },
    figure('gpu_s', 'GPU-hours', (figures) => inText(figures.gpu_hours)),
    figure('gpu_wasted_s', 'Idle', (figures) => inHours(figures.gpu_wasted_s), { wide: true }),
    figure('failed_gpu_s', 'Failed', (figures) => inHours(figures.failed_gpu_s), { wide: true }),
    figure('lost_gpu_s', 'Lost', (figures) => inHours(figures.lost_gpu_s), { wide: true }),
    figure('cpu_s', 'CPU-hours', (figures) => inHours(figures.cpu_s), { wide: true }),
    figure('jobs', 'Jobs', (figures) => number(figures.jobs), { wide: true }),
    figure('wait_mean_s', 'Mean wait', (figures) => duration(figures.wait_mean_s), { wide: true }),
    figure('wait_p50_s', 'Median wait', (figures) => duration(figures.wait_p50_s)),
    figure('wait_p90_s', '90 % wait', (figures) => duration(figures.wait_p90_s)),
    ...(report.currency ? [figure('cost', report.currency, (figures) => number(figures.cost), { wide: true })] : []),
  ];
  return (
    <Table
      label={`Figures by ${label(by)}`}
      rows={rows}
      columns={columns}
      rowKey={(row) => Object.values(row.keys).join(' ')}
      sort={used}
      onSort={(next) => setSort(next.column !== sort.column && next.column !== 'name' ? { ...next, descending: true } : next)}
    />
  );
}
