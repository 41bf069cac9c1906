/** Terminal: a shell inside a running job, or the job's own terminal. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, api, errorText } from '../../api/client';
import { Badge } from '../../components/Badge';
import { Button, ButtonLink } from '../../components/Button';
import { Segments } from '../../components/Field';
import { Page } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { href, useQueryParam, type PageProps } from '../../router';
import { useResource } from '../../state/resource';
import { theme, token } from '../../state/theme';
import { isOver, type Job } from '../../api/jobs';
import { Channel, type Closed, type Socket } from './channel';
import { allowStyleAttributes, strictDocument, withStrictStyles } from './strictDocument';
import '../../components/ansi.css';
import './terminal.css';

type State = { kind: 'connecting' } | { kind: 'open'; node: string } | Closed;

/** Starts the user's usual shell, whichever there is. */
const SHELL = ['/bin/sh', '-c', 'command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i'];

export default function TerminalPage({ params }: PageProps<'/jobs/:job_id/terminal'>) {
  const job = useResource((signal) => api.get<Job>(`/jobs/${encodeURIComponent(params.job_id)}`, { query: { actions: true }, signal }), [params.job_id]);
  const data = job.data;
  const back = (
    <ButtonLink icon="left" href={href(`/jobs/${params.job_id}`)}>
      Job {params.job_id}
    </ButtonLink>
  );
  if (!data) {
    return (
      <Page title={`Terminal of job ${params.job_id}`} actions={back}>
        {job.error instanceof ApiError && job.error.status === 404 ? (
          <Empty title={`There is no job ${params.job_id}`} icon="jobs">
            It may have been removed, or you do not have the permission to see it.
          </Empty>
        ) : job.error !== null ? (
          <ErrorBox error={job.error} onRetry={job.reload} />
        ) : (
          <Skeleton lines={6} />
        )}
      </Page>
    );
  }
  if (!data.actions?.includes('terminal')) {
    return (
      <Page title={`Terminal of job ${data.job_id}`} actions={back}>
        <Empty title="No terminal" icon="terminal" action={<Button icon="refresh" onClick={job.reload}>Check again</Button>}>
          {isOver(data)
            ? 'The job is over, and only a running job can be entered.'
            : data.status === 'running'
              ? "Only the job's user and administrators of its tenant may enter it."
              : 'The job does not run yet, or you do not have the permission to enter it.'}
        </Empty>
      </Page>
    );
  }
  return <Terminal job={data} back={back} />;
}

function Terminal({ job, back }: { job: Job; back: preact.ComponentChildren }) {
  const [mode, setMode] = useQueryParam('mode', 'shell');
  const [task] = useQueryParam('task', '');
  const [state, setState] = useState<State>({ kind: 'connecting' });
  const [turn, setTurn] = useState(0);
  const place = useRef<HTMLDivElement>(null);
  const attach = job.pty && mode === 'attach';

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let ended = false;
    let end = () => {};
    setState({ kind: 'connecting' });
    open(element, job.job_id, task, attach ? [] : SHELL, (next) => !ended && setState(next))
      .then((stop) => (ended ? stop() : (end = stop)))
      .catch((error: unknown) => !ended && setState({ kind: 'refused', text: errorText(error) }));
    return () => {
      ended = true;
      end();
    };
  }, [job.job_id, task, attach, turn]);

  const isClosed = state.kind !== 'connecting' && state.kind !== 'open';
  return (
    <Page
      title={`Terminal of job ${job.job_id}`}
      heading={`Terminal of job ${job.job_id}`}
      aside={<StateBadge state={state} />}
      actions={
        <>
          {job.pty && (
            <Segments
              label="What to open"
              value={attach ? 'attach' : 'shell'}
              onChange={(value) => setMode(value)}
              options={[
                { value: 'shell', label: 'New shell' },
                { value: 'attach', label: "The job's terminal" },
              ]}
            />
          )}
          {back}
        </>
      }
    >
      <div class="terminal-box">
        <div class="terminal-place" ref={place} />
        {isClosed && (
          <div class="terminal-end" role="status">
            <p>{state.kind === 'lost' ? `${state.text} The program may still be running.` : state.text || 'The session ended.'}</p>
            <Button kind="primary" icon="refresh" onClick={() => setTurn(turn + 1)}>
              {state.kind === 'lost' ? 'Connect again' : 'Open again'}
            </Button>
          </div>
        )}
      </div>
    </Page>
  );
}

function StateBadge({ state }: { state: State }) {
  if (state.kind === 'connecting') return <Badge tone="amber">Connecting…</Badge>;
  if (state.kind === 'open') return <Badge tone="green">Connected to {state.node}</Badge>;
  return <Badge tone={state.kind === 'ended' ? 'gray' : 'red'}>{state.kind === 'refused' ? 'Refused' : state.kind === 'lost' ? 'Connection lost' : 'Ended'}</Badge>;
}

/** Opens terminal and connection; returns a function that closes both. */
async function open(element: HTMLElement, jobId: number, task: string, command: string[], changed: (state: State) => void): Promise<() => void> {
  const [{ Terminal: XTerm }, { FitAddon }] = await Promise.all([
    import('@xterm/xterm'),
    import('@xterm/addon-fit'),
    import('@xterm/xterm/css/xterm.css'),
  ]);
  element.replaceChildren();
  allowStyleAttributes();
  const terminal = new XTerm({
    cursorBlink: true,
    fontFamily: token('--mono'),
    fontSize: 13,
    scrollback: 5000,
    screenReaderMode: false,
    theme: colours(),
    documentOverride: strictDocument(),
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  withStrictStyles(() => terminal.open(element));
  fit.fit();
  terminal.textarea?.setAttribute('aria-label', `Terminal of job ${jobId}`);
  const { ticket } = await api.post<{ ticket: string }>('/session/tickets');
  const address = new URL(`/jobs/${jobId}/terminal${task ? `?task=${encodeURIComponent(task)}` : ''}`, location.href);
  address.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
  const socket = new WebSocket(address, ['tgpu.terminal', `tgpu.ticket.${ticket}`]);
  const channel = new Channel(socket as unknown as Socket, { command, rows: terminal.rows, cols: terminal.cols }, {
    output: (data, done) => terminal.write(data, done),
    opened: ({ node_id }) => {
      changed({ kind: 'open', node: node_id });
      terminal.focus();
    },
    closed: (end) => {
      terminal.options.disableStdin = true;
      terminal.options.cursorBlink = false;
      changed(end);
    },
  });
  const encoder = new TextEncoder();
  terminal.onData((text) => channel.type(encoder.encode(text)));
  terminal.onBinary((text) => channel.type(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
  terminal.onResize(({ rows, cols }) => channel.resize(rows, cols));
  const resize = new ResizeObserver(() => fit.fit());
  resize.observe(element);
  const endTheme = theme.subscribe(() => (terminal.options.theme = colours()));
  return () => {
    resize.disconnect();
    endTheme();
    channel.leave();
    terminal.dispose();
  };
}

const BASIC = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const NAMES = [...BASIC, ...BASIC.map((name) => `bright${name.charAt(0).toUpperCase()}${name.slice(1)}`)];

function colours(): Record<string, string> {
  const palette = Object.fromEntries(NAMES.map((name, index) => [name, token(`--ansi-${index}`)]));
  return { ...palette, background: token('--surface'), foreground: token('--text'), cursor: token('--accent-text'), selectionBackground: `${token('--accent')}55` };
}
