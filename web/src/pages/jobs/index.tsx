/** Jobs: which jobs are there, and what is to be done with them? Search, filters, order and columns are in the URL. */

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, isAbort } from '../../api/client';
import { subscribe } from '../../api/events';
import type { JobEvent } from '../../api/types';
import { Button, ButtonLink } from '../../components/Button';
import { Page } from '../../components/Page';
import { Search } from '../../components/Search';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Table } from '../../components/Table';
import { count, number } from '../../format';
import { href, query, setQuery, useQueryList, useQueryParam } from '../../router';
import { may } from '../../state/session';
import { BulkBar } from './BulkBar';
import { COLUMNS, DEFAULT_COLUMNS, tableColumns } from './columns';
import { ColumnChooser, FilterBar, filterNames, filters } from './Filters';
import '../../components/plain-table.css';
import './jobs.css';
import type { JobPage, JobRow } from '../../api/jobs';
import { wantReasons } from './why';
import { ListWindow, isPlaceholder, type Slot } from './window';

const REFRESH_MS = 1000;
const LONGEST_REFRESH_MS = 10_000;
/** A page spends at most this part of the time on waiting for the server. */
const REFRESH_SHARE = 20;
/** Counting reads every job that matches: while events come in, it is done less often than the rows are loaded. */
const COUNT_MS = 5000;
const IDLE_MS = 250;

export default function Jobs() {
  const [text, setText] = useQueryParam('q');
  const [sort] = useQueryParam('sort', 'id');
  const [order] = useQueryParam('order', 'desc');
  const [columnIds, setColumnIds] = useQueryList('columns');
  const chosen = columnIds.length ? columnIds : DEFAULT_COLUMNS;
  const wanted = JSON.stringify([filters(query.value), text, sort, order]);
  const [selected, setSelected] = useState<Set<number>>(new Set());
  const { list, newJobs, showNew, onRange } = useJobs(wanted, chosen.includes('reason'), chosen.includes('expected'));
  const columns = useMemo(() => tableColumns(chosen), [chosen.join()]);
  const filterCount = filterNames(query.value).length;
  useEffect(() => setSelected(new Set()), [wanted]);

  const total = list.loaded ? `${number(list.total)}${list.exact ? '' : '+'} ${list.total === 1 ? 'job' : 'jobs'}` : '';
  return (
    <Page
      title="Jobs"
      aside={<span aria-live="polite">{total}</span>}
      actions={
        may('submit') && (
          <ButtonLink kind="primary" icon="submit" href={href('/submit')}>
            Submit a job
          </ButtonLink>
        )
      }
    >
      <div class="row jobs-tools">
        <Search
          value={text}
          onSearch={(next) => setText(next)}
          label="Search jobs"
          placeholder="Search by name, user, id or start of command"
        />
        <FilterBar />
        <span class="spacer" />
        <ColumnChooser columns={COLUMNS} chosen={chosen} onChange={(ids) => setColumnIds(sameSet(ids, DEFAULT_COLUMNS) ? [] : ids)} />
      </div>
      {list.error !== null && <ErrorBox error={list.error} onRetry={() => void list.refresh()} />}
      <div class="jobs-table">
        {newJobs > 0 && (
          <Button class="jobs-new" size="small" kind="primary" icon="up" onClick={showNew}>
            {count(newJobs, 'new job')}
          </Button>
        )}
        {!list.loaded && list.error === null ? (
          <Skeleton lines={12} height="22px" />
        ) : (
          <Table<Slot<JobRow>>
            label="Jobs"
            rows={list.slots}
            columns={columns}
            rowKey={(row) => (isPlaceholder(row) ? -1 - row.index : row.job_id)}
            rowLabel={(row) => (isPlaceholder(row) ? 'row' : `job ${row.job_id}`)}
            rowHref={(row) => (isPlaceholder(row) ? href('/jobs') : href(`/jobs/${row.job_id}`))}
            rowClass={(row) => (!isPlaceholder(row) && row.ended_at ? 'job-over' : '')}
            sort={{ column: sort, descending: order === 'desc' }}
            onSort={(next) => {
              const down = next.column === sort ? next.descending : next.column !== 'name' && next.column !== 'user' && next.column !== 'tenant';
              setQuery({ sort: next.column === 'id' ? null : next.column, order: down ? null : 'asc' });
            }}
            selected={selected}
            onSelect={(keys) => setSelected(new Set([...keys].map(Number).filter((key) => key > 0)))}
            onRange={onRange}
            total={list.total}
            height="max(320px, calc(100dvh - 190px))"
            empty={
              text || filterCount ? (
                <Empty
                  title="No job matches"
                  icon="search"
                  action={<Button onClick={() => setQuery({ q: null, ...cleared() })}>Remove search and filters</Button>}
                >
                  Jobs that ended long ago may have been removed.
                </Empty>
              ) : (
                <Empty title="There are no jobs yet" icon="jobs">
                  Submit one here, or at a command line: <code>tgpu run -- nvidia-smi</code>
                </Empty>
              )
            }
          />
        )}
      </div>
      {selected.size > 0 && (
        <BulkBar
          selected={selected}
          rows={list.slots}
          total={list.total}
          onSelectAll={async () => {
            const { job_ids } = await api.get<{ job_ids: number[] }>('/jobs', { query: { ...request(wanted), view: 'ids', limit: 10_000 } });
            setSelected(new Set(job_ids));
          }}
          onClear={() => setSelected(new Set())}
          onDone={() => void list.refresh()}
        />
      )}
    </Page>
  );
}

function cleared(): Record<string, null> {
  return Object.fromEntries(filterNames(query.value).map((name) => [name, null]));
}

function sameSet(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((name) => other.includes(name));
}

function request(wanted: string): Record<string, string | readonly string[]> {
  const [chosen, q, sort, order] = JSON.parse(wanted) as [Record<string, string>, string, string, string];
  return { ...chosen, q, sort, order };
}

/** The list in the current order. While the user reads further down, jobs that are submitted meanwhile do not move it. */
function useJobs(wanted: string, withReasons: boolean, withStarts: boolean) {
  const [, redraw] = useState({});
  const view = useRef({ first: 0, last: 0, newest: 0, fixed: false, reasons: withReasons, starts: withStarts, tookMs: 0, counted: true });
  view.current.reasons = withReasons;
  view.current.starts = withStarts;
  const [newJobs, setNewJobs] = useState(0);
  const byId = wanted.includes('"id","desc"');

  const list = useMemo(() => {
    view.current = { ...view.current, first: 0, last: 0, newest: 0, fixed: false };
    const counted = { total: 0, exact: true, at: -Infinity };
    return new ListWindow<JobRow>(
      async (skip, limit, signal) => {
        const upTo = view.current.fixed && view.current.newest ? { ids: `1-${view.current.newest}` } : {};
        const asked = performance.now();
        const total = asked - counted.at > COUNT_MS;
        const page = await api.get<JobPage>('/jobs', {
          query: { ...request(wanted), ...upTo, view: 'list', actions: true, total: total || null, expected_start: view.current.starts || null, skip, limit },
          signal,
        });
        view.current.tookMs = performance.now() - asked;
        view.current.counted = total;
        if (!view.current.fixed && skip === 0) view.current.newest = page.jobs[0]?.job_id ?? 0;
        if (total) Object.assign(counted, { total: page.total ?? 0, exact: page.total_is_exact ?? true, at: asked });
        else if (page.jobs.length < limit && page.jobs.length > 0) counted.total = skip + page.jobs.length;
        return { rows: page.jobs, total: counted.total, exact: counted.exact };
      },
      () => redraw({}),
    );
  }, [wanted]);

  useEffect(() => {
    setNewJobs(0);
    list.show(0, 0);
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = false;
    let again = false;
    const pauseMs = () => Math.max(REFRESH_MS, Math.min(LONGEST_REFRESH_MS, REFRESH_SHARE * view.current.tookMs));
    const refresh = async () => {
      timer = undefined;
      if (busy) return void (again = true);
      busy = true;
      try {
        await list.refresh();
      } catch (error) {
        if (!isAbort(error)) throw error;
      } finally {
        busy = false;
        if (again) {
          again = false;
          timer ??= setTimeout(() => void refresh(), pauseMs());
        } else if (!view.current.counted) {
          timer ??= setTimeout(() => void refresh(), COUNT_MS);
        }
      }
    };
    const end = subscribe(null, (event) => {
      if (event.kind === 'overview') return;
      if (event.kind === 'submitted' && view.current.fixed && (event.data as JobEvent).job_id > view.current.newest) {
        setNewJobs((before) => before + 1);
      }
      timer ??= setTimeout(() => void refresh(), pauseMs());
    });
    return () => {
      end();
      clearTimeout(timer);
      list.stop();
    };
  }, [list]);

  const idle = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(idle.current), []);
  const onRange = (first: number, last: number) => {
    view.current.first = first;
    view.current.last = last;
    const fixed = byId && first > 0;
    if (view.current.fixed && !fixed) {
      view.current.fixed = false;
      setNewJobs(0);
      void list.refresh();
    }
    view.current.fixed = fixed;
    list.show(first, last);
    clearTimeout(idle.current);
    idle.current = setTimeout(() => {
      if (!view.current.reasons) return;
      const rows = list.slots.slice(view.current.first, view.current.last + 1);
      wantReasons(rows.filter((row): row is JobRow => !isPlaceholder(row)));
    }, IDLE_MS);
  };
  const showNew = () => document.querySelector('.jobs-table .table')?.scrollTo({ top: 0 });
  return { list, newJobs, showNew, onRange };
}
