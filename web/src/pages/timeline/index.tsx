/** Timeline: which job held which device when, and what is reserved ahead. */

import './timeline.css';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Badge } from '../../components/Badge';
import { Button, IconButton } from '../../components/Button';
import { Segments, Select } from '../../components/Field';
import { Icon } from '../../components/Icon';
import { Page } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { Table, type Column } from '../../components/Table';
import { Time } from '../../components/Time';
import { User } from '../../components/User';
import { capital, count, duration, fullTime, number } from '../../format';
import { href, navigate, setQuery, useQueryParam } from '../../router';
import { now as clock } from '../../state/clock';
import { theme } from '../../state/theme';
import { AXIS_HEIGHT, blockAt, drawAxis, drawRows, isOtherFailure, prepared, type Scene } from './draw';
import { heightOf, rowsOf, visibleRows, type Block, type NodeData } from './rows';
import { bounded, pan, recent, zoom, type Range } from './scale';
import { usePages } from './pages';

const HOUR = 3_600_000;
const PRESETS = [
  { value: String(6 * HOUR), label: '6 h' },
  { value: String(24 * HOUR), label: '1 d' },
  { value: String(72 * HOUR), label: '3 d' },
  { value: String(168 * HOUR), label: '1 w' },
] as const;
const FEW_NODES = 6;

/** The range in the URL, or the recent one, which goes along with the clock. */
function useRange(): { range: Range; isLive: boolean; past: string; set: (range: Range) => void; follow: (past: string) => void } {
  const [since] = useQueryParam('since');
  const [until] = useQueryParam('until');
  const [past] = useQueryParam('past', String(24 * HOUR));
  // Once a minute is enough for the range; the line of now moves by itself.
  const minute = Math.floor(clock.value / 60_000) * 60_000;
  const from = Date.parse(since);
  const to = Date.parse(until);
  const isLive = !(from < to);
  const length = PRESETS.some((preset) => preset.value === past) ? Number(past) : 24 * HOUR;
  const range = useMemo(
    () => (isLive ? recent(minute, length) : bounded({ from, until: to }, minute)),
    [isLive, from, to, isLive ? minute : 0, length],
  );
  return {
    range,
    isLive,
    past: isLive ? String(length) : '',
    set: (next) => setQuery({ since: new Date(next.from).toISOString(), until: new Date(next.until).toISOString() }),
    follow: (value) => setQuery({ since: null, until: null, past: value === String(24 * HOUR) ? null : value }),
  };
}

export default function TimelinePage() {
  const { range, isLive, past, set, follow } = useRange();
  const [view, setView] = useQueryParam('view', 'chart');
  const [pool, setPool] = useQueryParam('pool');
  const pages = usePages(range, pool);
  const pools = usePools(pages.nodes);
  const { first, error } = pages;
  return (
    <Page
      title="Timeline"
      aside={first && <span class="muted">{count(first.node_count, 'node')}</span>}
      actions={
        <>
          {pools.length > 1 && (
            <Select compact label="Pool" value={pool} onChange={setPool} options={[{ value: '', label: 'All pools' }, ...pools]} />
          )}
          <Segments label="View" value={view} onChange={setView} options={[{ value: 'chart', label: 'Chart' }, { value: 'table', label: 'Table' }]} />
        </>
      }
    >
      <div class="timeline-tools">
        <Segments label="Range" value={past} onChange={follow} options={PRESETS} />
        <div class="row timeline-buttons">
          <IconButton label="Earlier" icon="left" onClick={() => set(pan(range, -0.5, clock.peek()))} />
          <IconButton label="Later" icon="right" onClick={() => set(pan(range, 0.5, clock.peek()))} />
          <Button aria-label="Zoom in" title="Zoom in" class="button-icon" onClick={() => set(zoom(range, 2, 0.5, clock.peek()))}>
            +
          </Button>
          <Button aria-label="Zoom out" title="Zoom out" class="button-icon" onClick={() => set(zoom(range, 0.5, 0.5, clock.peek()))}>
            −
          </Button>
          <Button icon="clock" disabled={isLive} onClick={() => follow(String(24 * HOUR))}>
            Now
          </Button>
        </div>
        <span class="timeline-range muted">
          <Time at={range.from} kind="short" /> to <Time at={range.until} kind="short" />
        </span>
        <span class="spacer" />
        {view !== 'table' && <Legend />}
      </div>
      {error ? <ErrorBox error={error} onRetry={pages.reload} /> : null}
      {first && <Notes pages={pages} />}
      {!first ? (
        !error && <Skeleton lines={8} height="28px" />
      ) : first.node_count === 0 ? (
        <Empty title={pool ? 'No nodes in this pool' : 'No nodes yet'} icon="nodes">
          A node appears here once its agent has joined the cluster.
        </Empty>
      ) : view === 'table' ? (
        <AttemptTable nodes={pages.nodes} range={range} onEnd={pages.more} />
      ) : (
        <Chart nodes={pages.nodes} range={range} onRange={set} onVisible={pages.show} hasMore={pages.hasMore} onEnd={pages.more} />
      )}
    </Page>
  );
}

function usePools(nodes: readonly NodeData[]): string[] {
  const known = useRef(new Set<string>());
  for (const { node } of nodes) known.current.add(node.pool);
  return [...known.current].sort();
}

function Notes({ pages }: { pages: ReturnType<typeof usePages> }) {
  const { first, isSummed } = pages;
  if (!first) return null;
  const notes: string[] = [];
  if (isSummed) notes.push('There are too many finished attempts to draw each: gray columns show how much of a node they used. Zoom in to see them.');
  if (!first.planned_known) notes.push('No leader answered, so reservations ahead are missing.');
  if (!first.complete) notes.push('Jobs that you may not see are left out.');
  return notes.length > 0 ? (
    <p class="timeline-note" role="status">
      <Icon name="info" /> {notes.join(' ')}
    </p>
  ) : null;
}

function Legend() {
  const items: [string, string][] = [
    ['key-ran', 'Ran'],
    ['key-ahead', 'Until its time limit'],
    ['key-planned', 'Reserved ahead'],
    ['key-failed', 'Failed'],
    ['key-preempted', 'Preempted'],
    ['key-window', 'Maintenance, drain'],
  ];
  return (
    <ul class="timeline-legend" aria-label="Legend">
      {items.map(([key, text]) => (
        <li key={key}>
          <span class={`timeline-key ${key}`} aria-hidden="true" />
          {text}
        </li>
      ))}
    </ul>
  );
}

interface ChartProps {
  nodes: readonly NodeData[];
  range: Range;
  onRange: (range: Range) => void;
  /** The nodes in view, by index: their data is loaded. */
  onVisible: (first: number, last: number) => void;
  hasMore: boolean;
  onEnd: () => void;
}

function Chart({ nodes, range, onRange, onVisible, hasMore, onEnd }: ChartProps) {
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  // With few nodes their devices are shown at once; a click changes it.
  const openAtFirst = nodes.length <= FEW_NODES && !hasMore;
  const open = useMemo(
    () => new Set(nodes.map(({ node }) => node.node_id).filter((name) => openAtFirst !== toggled.has(name))),
    [nodes, openAtFirst, toggled],
  );
  const rows = useMemo(() => rowsOf(nodes, open), [nodes, open]);
  const byName = useMemo(() => new Map(nodes.map((data) => [data.node.node_id, data])), [nodes]);
  const [size, setSize] = useState({ width: 800, height: 400 });
  const [scrollTop, setScrollTop] = useState(0);
  const [hover, setHover] = useState<{ block: Block; x: number; y: number } | null>(null);
  const [drafted, setDrafted] = useState<Range | null>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const tracks = useRef<HTMLCanvasElement>(null);
  const axis = useRef<HTMLCanvasElement>(null);
  const area = useRef<HTMLDivElement>(null);
  const latest = useRef({ range, width: size.width });
  const shown = drafted ?? range;
  latest.current = { range: shown, width: size.width };
  const scene: Scene = {
    nodes: byName, rows, range: shown, now: clock.value, theme: theme.value, scrollTop, active: hover?.block ?? null,
  };
  const visible = visibleRows(rows, scrollTop, scrollTop + size.height);

  useEffect(() => setDrafted(null), [range]);

  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (area.current && scroller.current) setSize({ width: area.current.clientWidth, height: scroller.current.clientHeight });
    });
    if (scroller.current) observer.observe(scroller.current);
    return () => observer.disconnect();
  }, []);

  const indexOf = useMemo(() => new Map(nodes.map((data, at) => [data.node.node_id, at])), [nodes]);
  const firstNode = indexOf.get(visible[0]?.node_id ?? '') ?? 0;
  const lastNode = indexOf.get(visible.at(-1)?.node_id ?? '') ?? 0;
  useEffect(() => {
    onVisible(firstNode, lastNode);
    if (hasMore && lastNode >= nodes.length - 1) onEnd();
  }, [firstNode, lastNode, nodes.length, hasMore, range]);

  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const pen = tracks.current && prepared(tracks.current, size.width, size.height);
      if (pen) drawRows(pen, scene, size.width, size.height);
      const ruler = axis.current && prepared(axis.current, size.width, AXIS_HEIGHT);
      if (ruler) drawAxis(ruler, scene, size.width);
    });
    return () => cancelAnimationFrame(frame);
  });

  // Moves are drawn at once and written to the URL after a pause.
  const settle = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const draft = (next: Range, pauseMs = 250) => {
    latest.current.range = next;
    setDrafted(next);
    clearTimeout(settle.current);
    settle.current = setTimeout(() => onRange(next), pauseMs);
  };
  useEffect(() => () => clearTimeout(settle.current), []);

  useEffect(() => {
    const element = area.current;
    if (!element) return;
    const onWheel = (event: WheelEvent) => {
      const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!isSideways && !event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      const { range: current, width } = latest.current;
      if (event.ctrlKey || event.metaKey) {
        const share = (event.clientX - element.getBoundingClientRect().left) / width;
        draft(zoom(current, 2 ** (-event.deltaY / 300), Math.min(1, Math.max(0, share)), clock.peek()));
      } else {
        draft(pan(current, (isSideways ? event.deltaX : event.deltaY) / width, clock.peek()));
      }
    };
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  }, []);

  const drag = useRef<{ x: number; y: number; range: Range; top: number; moved: boolean } | null>(null);
  const point = (event: PointerEvent): [number, number] => {
    const box = tracks.current?.getBoundingClientRect();
    return box ? [event.clientX - box.left, event.clientY - box.top] : [0, 0];
  };
  const onPointerDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    drag.current = { x: event.clientX, y: event.clientY, range: shown, top: scrollTop, moved: false };
    area.current?.setPointerCapture(event.pointerId);
  };
  const onPointerMove = (event: PointerEvent) => {
    const begun = drag.current;
    if (begun) {
      const [dx, dy] = [event.clientX - begun.x, event.clientY - begun.y];
      if (!begun.moved && Math.abs(dx) + Math.abs(dy) < 5) return;
      begun.moved = true;
      setHover(null);
      draft(pan(begun.range, -dx / size.width, clock.peek()));
      // With a finger the browser scrolls up and down by itself.
      if (scroller.current && event.pointerType !== 'touch') scroller.current.scrollTop = begun.top - dy;
      return;
    }
    const [x, y] = point(event);
    const found = blockAt(scene, x, y, size.width);
    setHover(found ? { block: found.block, x, y } : null);
  };
  const onPointerUp = (event: PointerEvent) => {
    const moved = drag.current?.moved ?? false;
    drag.current = null;
    if (moved || event.button !== 0) return;
    const [x, y] = point(event);
    const found = blockAt(scene, x, y, size.width);
    if (!found) return;
    if (event.pointerType === 'touch') setHover({ block: found.block, x, y });
    else navigate(`/jobs/${found.block.job_id}`);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const current = latest.current.range;
    const at = clock.peek();
    const next = {
      ArrowLeft: () => pan(current, event.shiftKey ? -0.5 : -0.1, at),
      ArrowRight: () => pan(current, event.shiftKey ? 0.5 : 0.1, at),
      '+': () => zoom(current, 1.5, 0.5, at),
      '=': () => zoom(current, 1.5, 0.5, at),
      '-': () => zoom(current, 1 / 1.5, 0.5, at),
      '0': () => recent(at),
    }[event.key];
    if (!next) return;
    event.preventDefault();
    draft(next());
  };
  const toggle = (name: string) => {
    const changed = new Set(toggled);
    if (!changed.delete(name)) changed.add(name);
    setToggled(changed);
  };
  const total = heightOf(rows);
  const height = Math.max(90, Math.min(total, Math.max(260, window.innerHeight - 300)));
  return (
    <div class="timeline">
      <div class="timeline-axis">
        <div class="timeline-corner">Nodes</div>
        <canvas ref={axis} aria-hidden="true" />
      </div>
      <div
        class="timeline-scroll"
        ref={scroller}
        style={{ height: `${height}px` }}
        onScroll={(event) => {
          setScrollTop(event.currentTarget.scrollTop);
          setHover(null);
        }}
      >
        <div class="timeline-body" style={{ height: `${total}px` }}>
          <div class="timeline-labels">
            {visible.map((row) => {
              const data = byName.get(row.node_id);
              return (
                <div
                  key={`${row.node_id} ${row.device}`}
                  class={`timeline-label ${row.device === null ? 'timeline-node' : ''}`}
                  style={{ transform: `translateY(${row.y}px)`, height: `${row.height}px` }}
                >
                  {row.device === null && data ? <NodeLabel data={data} isOpen={open.has(row.node_id)} onToggle={() => toggle(row.node_id)} /> : row.label}
                </div>
              );
            })}
          </div>
          <div
            class={`timeline-area ${hover ? 'timeline-hit' : ''}`}
            ref={area}
            role="group"
            tabIndex={0}
            aria-label="Timeline chart. Left and right arrow keys move in time, plus and minus zoom, 0 shows the last day. The table view lists the same attempts."
            onPointerDown={onPointerDown}
            onPointerMove={onPointerMove}
            onPointerUp={onPointerUp}
            onPointerCancel={() => (drag.current = null)}
            onPointerLeave={() => drag.current || setHover(null)}
            onKeyDown={onKeyDown}
          >
            <canvas ref={tracks} class="timeline-tracks" aria-hidden="true" />
            {hover && <Tooltip {...hover} top={scrollTop} width={size.width} height={size.height} />}
          </div>
        </div>
      </div>
      <p class="timeline-help muted">
        Drag to move. <kbd>Ctrl</kbd> + wheel, <kbd>+</kbd> or <kbd>−</kbd> zoom. A click opens the job.
      </p>
    </div>
  );
}

function NodeLabel({ data, isOpen, onToggle }: { data: NodeData; isOpen: boolean; onToggle: () => void }) {
  const { node } = data;
  return (
    <>
      <button
        type="button"
        class="timeline-toggle"
        aria-expanded={isOpen}
        aria-label={`${isOpen ? 'Hide' : 'Show'} devices of ${node.node_id}`}
        onClick={onToggle}
      >
        <Icon name={isOpen ? 'down' : 'right'} size={12} />
      </button>
      <a class="cut" href={href(`/nodes/${encodeURIComponent(node.node_id)}`)} title={node.node_id}>
        {node.node_id}
      </a>
      {node.status === 'draining' && <span class="timeline-mark" title={node.drain_reason} aria-hidden="true" />}
      {node.status !== 'ready' && (
        <Badge tone={node.status === 'draining' ? 'amber' : 'red'} title={node.drain_reason}>
          {node.status}
        </Badge>
      )}
    </>
  );
}

const KINDS: Record<Block['kind'], string> = {
  ran: 'Ended',
  runs: 'Running',
  starts: 'Starting',
  reservation: 'Reserved (backfill)',
  claim: 'Claimed: preempted jobs are leaving',
};

export function outcome(block: Block): string {
  if (block.kind !== 'ran') return KINDS[block.kind];
  if (block.failed) return 'Failed';
  if (block.cause === 'exited') return 'Completed';
  if (block.cause === null) return 'Ended';
  return capital(block.cause).replaceAll('-', ' ');
}

function Tooltip({ block, x, y, top, width, height }: { block: Block; x: number; y: number; top: number; width: number; height: number }) {
  const isPlanned = block.kind === 'reservation' || block.kind === 'claim';
  const rows: [string, ComponentChildren][] = [
    ['User', <User name={block.user} />],
    ['Where', `${block.node_id}${block.devices.length ? `, GPU ${block.devices.join(', ')}` : ''}`],
    [isPlanned ? 'Starts by' : 'Started', fullTime(block.from)],
    [
      block.kind === 'ran' ? 'Ended' : isPlanned || block.until > block.certain ? 'Ends by' : 'Runs for',
      block.kind === 'ran' || isPlanned || block.until > block.certain ? fullTime(block.until) : duration((block.certain - block.from) / 1000),
    ],
  ];
  if (block.kind === 'ran') rows.push(['Ran for', duration((block.until - block.from) / 1000)]);
  const isLow = y > height - 170;
  return (
    <div
      class="timeline-tip"
      role="status"
      style={{
        left: `${Math.max(4, Math.min(x + 14, width - 276))}px`,
        top: `${top + (isLow ? y - 12 : y + 16)}px`,
        transform: isLow ? 'translateY(-100%)' : 'none',
      }}
    >
      <div class="row">
        <b class="cut">
          <a href={href(`/jobs/${block.job_id}`)}>Job {block.job_id}</a> {block.name}
        </b>
        <span class="spacer" />
        <Badge tone={block.failed || isOtherFailure(block.cause) ? 'red' : block.cause === 'preempted' ? 'purple' : isPlanned ? 'accent' : block.kind === 'ran' ? 'gray' : 'green'}>
          {outcome(block)}
        </Badge>
      </div>
      <dl>
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

const COLUMNS: readonly Column<Block>[] = [
  { id: 'job', label: 'Attempt', width: '90px', cell: (row) => <a href={href(`/jobs/${row.job_id}`)}>{row.label}</a> },
  { id: 'name', label: 'Name', width: 'minmax(110px, 2fr)', cell: (row) => row.name || <span class="muted">–</span>, title: (row) => row.name },
  { id: 'user', label: 'User', cell: (row) => <User name={row.user} /> },
  { id: 'outcome', label: 'State', cell: outcome, title: outcome },
  { id: 'node', label: 'Node', wide: true, cell: (row) => row.node_id, title: (row) => row.node_id },
  { id: 'devices', label: 'GPUs', wide: true, width: '90px', cell: (row) => row.devices.join(', ') || '–' },
  { id: 'from', label: 'Start', cell: (row) => <Time at={row.from} kind="short" /> },
  { id: 'until', label: 'End', wide: true, cell: (row) => (row.kind === 'runs' && row.until === row.certain ? '–' : <Time at={row.until} kind="short" />) },
];

function AttemptTable({ nodes, range, onEnd }: { nodes: readonly NodeData[]; range: Range; onEnd: () => void }) {
  const blocks = useMemo(
    () =>
      nodes
        .flatMap((data) => data.blocks)
        .filter((block) => block.until >= range.from && block.from <= range.until)
        .sort((one, other) => other.from - one.from),
    [nodes, range],
  );
  return (
    <>
      <p class="muted">{number(blocks.length)} attempts and reservations on {count(nodes.length, 'node')}, the latest first.</p>
      <Table
        label="Attempts and reservations"
        rows={blocks}
        columns={COLUMNS}
        rowKey={(row) => `${row.kind} ${row.label} ${row.node_id}`}
        rowHref={(row) => `/jobs/${row.job_id}`}
        onEnd={onEnd}
        empty={<Empty title="Nothing ran in this range" icon="timeline" />}
      />
    </>
  );
}

