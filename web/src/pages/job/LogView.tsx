/** Live log: follows the output, scrolls back, searches, and shows everything as text. */

import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from '@tanstack/virtual-core';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { errorText, isAbort, pause, refusal, send } from '../../api/client';
import { Button, IconButton } from '../../components/Button';
import { Segments, Select } from '../../components/Field';
import { Icon, type IconName } from '../../components/Icon';
import { toast, toastError } from '../../components/Toast';
import { bytes, clockTime, fullTime, number } from '../../format';
import { useQueryParam } from '../../router';
import { read, write } from '../../state/storage';
import { spansOf, type Style } from './ansi';
import { LONGEST_ROW, LogBuffer, LogRows, rowAt, search, type Found, type Match, type Row } from './logBuffer';
import { LogFollower, PART, clipped, type FollowerState, type LogPart, type LogQuestion } from './logFollower';
import '../../components/ansi.css';
import './log.css';

const ROW_HEIGHT = 18;
const REDRAW_MS = 100;
const NEAR_TOP = 600;
/** Characters of a time stamp and the space behind it. */
const STAMP = 13;
/** A search goes back through this many parts at once. */
const MOST_OLDER_PARTS = 40;

export interface LogViewProps {
  jobId: number;
  /** Whether the job may still write. */
  live: boolean;
  attempts: number;
  /** Of a job of several tasks: how many, and how they are numbered. */
  tasks: number;
  taskLabel: string;
  firstTask: number;
}

export function LogView({ jobId, live, attempts, tasks, taskLabel, firstTask }: LogViewProps) {
  const [stream, setStream] = useQueryParam('stream', 'stdout');
  const [task, setTask] = useQueryParam('task', tasks > 1 ? String(firstTask) : '');
  const [attempt, setAttempt] = useQueryParam('attempt', '');
  const source = useMemo(
    () => ({ jobId, stream, task: tasks > 1 && task !== '' ? task : null, attempt: attempt === '' ? null : Number(attempt) }),
    [jobId, stream, task, attempt, tasks > 1],
  );
  const [wrap, toggleWrap] = usePreference('log-wrap');
  const [stamps, toggleStamps] = usePreference('log-times');
  const log = useLog(source, live);
  const follow = log.follow;
  const [text, setText] = useState('');
  const [regex, setRegex] = useState(false);
  const [current, setCurrent] = useState(0);
  const view = useRows(log, wrap, stamps);
  const found = useMemo(() => search(log.buffer, text, regex), [text, regex, log.version]);
  const shown = found.matches[Math.min(current, found.matches.length - 1)] ?? null;

  const goTo = (index: number) => {
    const many = found.matches.length;
    if (many === 0) return;
    const next = (index + many) % many;
    setCurrent(next);
    const match = found.matches[next];
    if (!match) return;
    log.setFollow(false);
    view.scrollTo(rowAt(view.rows, match.line, match.from));
  };
  useEffect(() => {
    if (text !== '' && found.matches.length > 0) goTo(found.matches.length - 1);
  }, [text, regex]);

  const searchOlder = async () => {
    log.setFollow(false);
    for (let part = 0; part < MOST_OLDER_PARTS; part++) {
      const more = await log.loadOlder();
      if (!more || search(log.buffer, text, regex).matches.length > 0) return;
    }
  };

  const download = async () => {
    try {
      const response = await send('GET', `/jobs/${jobId}/logs`, undefined, {
        query: { stream, task: source.task, attempt: source.attempt },
      });
      if (!response.ok) throw await refusal(response);
      const link = document.createElement('a');
      link.href = URL.createObjectURL(await response.blob());
      link.download = `job-${jobId}${source.task === null ? '' : `.${source.task}`}-${stream}.log`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    } catch (error) {
      toastError(error);
    }
  };

  return (
    <div class="log">
      <div class="log-tools" role="toolbar" aria-label="Log">
        <Segments
          label="Output"
          value={stream}
          onChange={(value) => setStream(value)}
          options={[
            { value: 'stdout', label: 'stdout' },
            { value: 'stderr', label: 'stderr' },
          ]}
        />
        {tasks > 1 && (
          <label class="log-task">
            {taskLabel}
            <input
              class="input"
              type="number"
              min={0}
              value={task}
              onChange={(event) => setTask(event.currentTarget.value)}
              aria-label={`${taskLabel} whose output is shown`}
            />
          </label>
        )}
        {attempts > 1 && (
          <Select
            compact
            label="Attempt"
            value={attempt}
            onChange={setAttempt}
            options={[
              { value: '', label: 'Latest attempt' },
              ...Array.from({ length: attempts }, (_, index) => ({ value: String(index + 1), label: `Attempt ${index + 1}` })),
            ]}
          />
        )}
        <LogSearch
          text={text}
          onText={(value) => {
            setText(value);
            setCurrent(0);
          }}
          regex={regex}
          onRegex={setRegex}
          found={found}
          current={Math.min(current, found.matches.length - 1)}
          goTo={goTo}
          onOlder={log.older === 'more' ? () => void searchOlder() : null}
        />
        <span class="spacer" />
        <Toggle on={stamps} onClick={toggleStamps}>
          Time stamps
        </Toggle>
        <Toggle on={wrap} onClick={toggleWrap}>
          Wrap
        </Toggle>
        <Toggle on={follow} icon={follow ? 'pause' : 'down'} onClick={() => log.setFollow(!follow)}>
          {follow ? 'Following' : 'Follow'}
        </Toggle>
        <IconButton size="small" label="Download the whole log" icon="download" onClick={() => void download()} />
      </div>
      <div class={`log-lines ${wrap ? 'log-wrapped' : ''}`} ref={view.scroller} tabIndex={0} role="log" aria-live="off" aria-label={`${stream} of job ${jobId}`}>
        {log.older === 'removed' && log.buffer.lines.length > 0 && <div class="log-begin">Older output is no longer kept.</div>}
        {log.older === 'loading' && <div class="log-begin">Loading older output…</div>}
        <div class="log-rows" style={{ height: `${view.rows.length * ROW_HEIGHT}px` }}>
          {view.virtualizer.getVirtualItems().map((item) => {
            const row = view.rows[item.index];
            return (
              row && (
                <LogRow key={`${row.line}.${row.from}`} buffer={log.buffer} row={row} top={item.start} found={found} current={shown} stamps={stamps} />
              )
            );
          })}
        </div>
        {log.buffer.lines.length === 0 && <EmptyLog state={log.state} live={live} stream={stream} />}
      </div>
      <div class="log-status" aria-live="polite">
        <span>{stateText(log.state, live)}</span>
        {stamps && log.untimed && <span>No times were recorded for some of this output.</span>}
        <span class="spacer" />
        <span>
          {number(log.buffer.lines.length)} lines
          {log.bytesRead > 0 && `, ${bytes(log.bytesRead)} loaded`}
          {log.bytesSkipped > 0 && `, ${bytes(log.bytesSkipped)} skipped`}
        </span>
      </div>
    </div>
  );
}

function Toggle({ on, icon, onClick, children }: { on: boolean; icon?: IconName; onClick: () => void; children: ComponentChildren }) {
  return (
    <Button size="small" {...(icon && { icon })} aria-pressed={on} class={on ? 'button-active' : ''} onClick={onClick}>
      {children}
    </Button>
  );
}

/** On or off, kept by this browser. */
function usePreference(key: string): [boolean, () => void] {
  const [on, setOn] = useState(read(key) === 'on');
  const toggle = () => {
    write(key, on ? null : 'on');
    setOn(!on);
  };
  return [on, toggle];
}

function stateText(state: FollowerState, live: boolean): ComponentChildren {
  if (typeof state === 'object') {
    return (
      <span class="log-problem">
        <Icon name="warning" /> {errorText(state.error)} Trying again…
      </span>
    );
  }
  if (state === 'loading') return 'Loading…';
  if (state === 'waiting') return 'Waiting for the task to start.';
  if (state === 'complete') return 'The output is complete.';
  return live ? 'Live' : 'The output is complete.';
}

function EmptyLog({ state, live, stream }: { state: FollowerState; live: boolean; stream: string }) {
  if (typeof state === 'object' || state === 'loading') return null;
  return (
    <div class="log-empty">
      {state === 'waiting' ? 'The task has not started yet. Its output appears here.' : live ? `Nothing was written to ${stream} yet.` : `Nothing was written to ${stream}.`}
    </div>
  );
}

function LogSearch({
  text,
  onText,
  regex,
  onRegex,
  found,
  current,
  goTo,
  onOlder,
}: {
  text: string;
  onText: (text: string) => void;
  regex: boolean;
  onRegex: (on: boolean) => void;
  found: Found;
  current: number;
  goTo: (index: number) => void;
  /** Goes on in older output; null: all of it is loaded. */
  onOlder: (() => void) | null;
}) {
  return (
    <div class="log-search">
      <div class="search">
        <Icon name="search" />
        <input
          type="search"
          class="input"
          data-search
          value={text}
          aria-label="Search the log"
          placeholder="Search"
          aria-invalid={found.error ? true : undefined}
          title={found.error ?? undefined}
          spellcheck={false}
          onInput={(event) => onText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter') goTo(current + (event.shiftKey ? -1 : 1));
            if (event.key === 'Escape') onText('');
          }}
        />
      </div>
      <button type="button" class={`log-regex ${regex ? 'log-regex-on' : ''}`} aria-pressed={regex} title="Regular expression" onClick={() => onRegex(!regex)}>
        .*
      </button>
      {text !== '' && (
        <>
          <span class="log-count" role="status">
            {found.error ? 'Invalid' : found.matches.length === 0 ? 'No match' : `${number(current + 1)} of ${number(found.matches.length)}${found.more ? '+' : ''}`}
          </span>
          <IconButton size="small" label="Previous match" icon="up" disabled={found.matches.length === 0} onClick={() => goTo(current - 1)} />
          <IconButton size="small" label="Next match" icon="down" disabled={found.matches.length === 0} onClick={() => goTo(current + 1)} />
          {onOlder && found.matches.length === 0 && !found.error && (
            <Button size="small" onClick={onOlder}>
              Search older output
            </Button>
          )}
        </>
      )}
      {found.error && (
        <span class="field-error" role="alert">
          {found.error}
        </span>
      )}
    </div>
  );
}

interface LogRowProps {
  buffer: LogBuffer;
  row: Row;
  top: number;
  found: Found;
  current: Match | null;
  stamps: boolean;
}

function LogRow({ buffer, row, top, found, current, stamps }: LogRowProps) {
  const line = buffer.line(row.line);
  if (line === undefined) return null;
  const style = { transform: `translateY(${top}px)` };
  if (line.mark !== undefined) {
    return (
      <div class="log-row log-mark" style={style}>
        {line.mark}
      </div>
    );
  }
  const matches = found.matches.length ? matchesOf(found.matches, row.line) : [];
  let at = 0;
  const parts: ComponentChildren[] = [];
  for (const span of spansOf(line.text, line.style)) {
    const [from, to] = [Math.max(row.from, at), Math.min(row.to, at + span.text.length)];
    if (from < to) parts.push(...marked(span.text, at, from, to, span.style, matches, current));
    at += span.text.length;
    if (at >= row.to) break;
  }
  return (
    <div class={`log-row ${row.from > 0 ? 'log-continued' : ''}`} style={style}>
      {stamps && (
        <time class="log-time" onPointerEnter={({ currentTarget }) => line.time !== null && (currentTarget.title = fullTime(line.time))}>
          {row.from === 0 && line.time !== null && clockTime(line.time)}
        </time>
      )}
      {parts}
    </div>
  );
}

function marked(
  text: string,
  start: number,
  from: number,
  to: number,
  style: Style,
  matches: readonly Match[],
  current: Match | null,
): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let at = from;
  const add = (until: number, match: Match | null) => {
    if (until <= at) return;
    const part = <Styled key={at} text={text.slice(at - start, until - start)} style={style} />;
    parts.push(
      match ? (
        <mark key={at} class={match === current ? 'log-current' : ''}>
          {part}
        </mark>
      ) : (
        part
      ),
    );
    at = until;
  };
  for (const match of matches) {
    if (match.to <= at || match.from >= to) continue;
    add(Math.min(match.from, to), null);
    add(Math.min(match.to, to), match);
  }
  add(to, null);
  return parts;
}

function Styled({ text, style }: { text: string; style: Style }) {
  const { fg, bg, bold, dim, italic, underline, inverse } = style;
  const [front, back] = inverse ? [bg ?? 'inverse', fg ?? 'inverse'] : [fg, bg];
  const classes = [
    typeof front === 'number' ? `ansi-fg-${front}` : '',
    typeof back === 'number' ? `ansi-bg-${back}` : '',
    front === 'inverse' ? 'ansi-inverse-fg' : '',
    back === 'inverse' ? 'ansi-inverse-bg' : '',
    bold ? 'ansi-bold' : '',
    dim ? 'ansi-dim' : '',
    italic ? 'ansi-italic' : '',
    underline ? 'ansi-underline' : '',
  ].filter(Boolean);
  const colours = {
    ...(typeof front === 'string' && front !== 'inverse' ? { color: front } : {}),
    ...(typeof back === 'string' && back !== 'inverse' ? { backgroundColor: back } : {}),
  };
  if (classes.length === 0 && Object.keys(colours).length === 0) return <>{text}</>;
  return (
    <span class={classes.join(' ')} style={colours}>
      {text}
    </span>
  );
}

function matchesOf(matches: readonly Match[], line: number): Match[] {
  let low = 0;
  let high = matches.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((matches[middle]?.line ?? 0) < line) low = middle + 1;
    else high = middle;
  }
  const found: Match[] = [];
  for (let at = low; matches[at]?.line === line; at++) found.push(matches[at] as Match);
  return found;
}

interface Source {
  jobId: number;
  stream: string;
  task: string | null;
  attempt: number | null;
}

interface Log {
  buffer: LogBuffer;
  version: number;
  state: FollowerState;
  bytesRead: number;
  bytesSkipped: number;
  /** Whether some of it has no times. */
  untimed: boolean;
  follow: boolean;
  setFollow: (on: boolean) => void;
  older: 'more' | 'loading' | 'removed' | 'none';
  /** Loads output before what is here; resolves with whether there is still more. */
  loadOlder: () => Promise<boolean>;
}

/** As GET /jobs/{job_id}/logs answers with `format=json`. */
interface AnsweredPart {
  attempt: number | null;
  offset: number;
  next_offset: number;
  complete: boolean;
  chunks: { time: string | null; text?: string; base64?: string }[];
}

const encoder = new TextEncoder();

async function readPart(source: Source, question: LogQuestion, signal: AbortSignal): Promise<LogPart> {
  const { jobId, stream, task } = source;
  const response = await send('GET', `/jobs/${jobId}/logs`, undefined, {
    query: {
      stream,
      task,
      attempt: question.attempt,
      offset: question.offset,
      last: question.last,
      length: question.length,
      wait: question.wait,
      format: 'json',
    },
    signal,
  });
  if (!response.ok) throw await refusal(response);
  const part = (await response.json()) as AnsweredPart;
  const chunks = part.chunks.map(({ time, text = '', base64 }) => ({
    bytes: base64 ? Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0)) : encoder.encode(text),
    time: time === null ? null : Date.parse(time),
  }));
  return { ...part, chunks, size: part.next_offset - part.offset };
}

function useLog(source: Source, live: boolean): Log {
  const [version, setVersion] = useState(0);
  const [follow, setFollow] = useState(true);
  const isLive = useRef(live);
  isLive.current = live;
  const inner = useMemo(
    () => ({
      buffer: new LogBuffer(),
      state: 'loading' as FollowerState,
      bytesRead: 0,
      bytesSkipped: 0,
      untimed: false,
      older: 'none' as Log['older'],
      follower: null as LogFollower | null,
      stop: new AbortController(),
    }),
    [source],
  );

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const redraw = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        setVersion((value) => value + 1);
      }, REDRAW_MS);
    };
    const stop = new AbortController();
    inner.stop = stop;
    inner.follower = new LogFollower(
      (question, signal) => readPart(source, question, signal),
      {
        output: (chunk) => {
          inner.buffer.append(chunk);
          inner.bytesRead += chunk.bytes.length;
          inner.untimed ||= chunk.time === null;
          inner.older = inner.follower && inner.follower.begin > 0 && inner.older === 'none' ? 'more' : inner.older;
          redraw();
        },
        skipped: (size, why) => {
          inner.bytesSkipped += size;
          inner.buffer.mark(
            why === 'fast' ? `Skipped ${bytes(size)}: the job writes faster than this page can show.` : `${bytes(size)} are no longer kept.`,
          );
          redraw();
        },
        attempt: (value) => {
          inner.buffer.mark(`Attempt ${value}`);
          inner.older = 'none';
          redraw();
        },
        state: (state) => {
          if (inner.state === state) return;
          inner.state = state;
          redraw();
        },
      },
      source.attempt,
      pause,
    );
    inner.follower.run(stop.signal, () => isLive.current).catch((error: unknown) => {
      if (!isAbort(error) && !stop.signal.aborted) reportError(error);
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [inner]);

  const loadOlder = async () => {
    const { follower, buffer } = inner;
    if (inner.older !== 'more' || !follower || follower.attempt === null || buffer.dropped) return false;
    inner.older = 'loading';
    setVersion((value) => value + 1);
    try {
      const from = Math.max(0, follower.begin - PART);
      const part = await readPart(source, { attempt: follower.attempt, offset: from, length: follower.begin - from }, inner.stop.signal);
      const until = follower.begin - part.offset;
      // A character may begin before this part: its rest is read with the next one.
      const first = part.chunks[0]?.bytes ?? [];
      let lead = 0;
      while (part.offset > 0 && lead < 3 && ((first[lead] ?? 0) & 0xc0) === 0x80) lead += 1;
      const older = clipped(part.chunks, lead, until);
      buffer.prepend(older);
      for (const { bytes, time } of older) {
        inner.bytesRead += bytes.length;
        inner.untimed ||= time === null;
      }
      const isGone = part.offset > from;
      follower.begin = part.offset + lead;
      inner.older = isGone ? 'removed' : follower.begin === 0 ? 'none' : 'more';
    } catch (error) {
      inner.older = 'more';
      if (!isAbort(error)) toast(errorText(error), { tone: 'error' });
    }
    setVersion((value) => value + 1);
    return (inner.older as Log['older']) === 'more';
  };

  return { ...inner, version, follow, setFollow, loadOlder };
}

function useRows(log: Log, wrap: boolean, stamps: boolean) {
  const scroller = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(120);
  const [, redraw] = useState({});
  const limit = wrap ? Math.max(20, stamps ? width - STAMP : width) : LONGEST_ROW;
  const index = useMemo(() => new LogRows(limit), [limit, log.buffer]);
  const { rows } = useMemo(() => ({ rows: index.update(log.buffer).rows }), [index, log.version]);
  const options = {
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 20,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => redraw({}),
  };
  const [virtualizer] = useState(() => new Virtualizer<HTMLDivElement, Element>(options));
  virtualizer.setOptions(options);
  useLayoutEffect(() => virtualizer._didMount(), []);
  useLayoutEffect(() => virtualizer._willUpdate());

  const before = useRef({ first: 0, rows: 0 });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    if (log.follow) element.scrollTop = element.scrollHeight;
    else if (log.buffer.first < before.current.first) {
      // Older lines came in front: what the reader sees stays where it is.
      element.scrollTop += Math.max(0, rows.length - before.current.rows) * ROW_HEIGHT;
    }
    before.current = { first: log.buffer.first, rows: rows.length };
  }, [rows, log.version, log.follow]);

  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const measure = () => {
      const sample = document.createElement('span');
      sample.className = 'log-sample';
      sample.textContent = 'x'.repeat(100);
      element.append(sample);
      const each = sample.getBoundingClientRect().width / 100 || 7;
      sample.remove();
      setWidth(Math.floor((element.clientWidth - 26) / each));
    };
    const resize = new ResizeObserver(measure);
    resize.observe(element);
    return () => resize.disconnect();
  }, []);

  const latest = useRef(log);
  latest.current = log;
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    let last = element.scrollTop;
    const onScroll = () => {
      const up = element.scrollTop < last - 1;
      last = element.scrollTop;
      const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < ROW_HEIGHT;
      if (up && !atEnd && latest.current.follow) latest.current.setFollow(false);
      else if (atEnd && !up && !latest.current.follow) latest.current.setFollow(true);
      if (element.scrollTop < NEAR_TOP && !latest.current.follow) void latest.current.loadOlder();
    };
    element.addEventListener('scroll', onScroll, { passive: true });
    return () => element.removeEventListener('scroll', onScroll);
  }, []);

  return { scroller, virtualizer, rows, scrollTo: (row: number) => virtualizer.scrollToIndex(row, { align: 'center' }) };
}
