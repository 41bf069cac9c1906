import { afterEach, describe, expect, it, vi } from 'vitest';
import { EventParser, EventStream, backOff, type StreamEvent, type StreamPorts } from './events';

const whole = 'id: 7\nevent: submitted\ndata: {"seq":7}\n\n: heartbeat\n\ndata: a\ndata: b\n\n';
const frames = [
  { event: 'submitted', data: '{"seq":7}', id: '7' },
  { event: 'message', data: 'a\nb', id: '7' },
];

describe('parser', () => {
  it('reads frames, comments, ids and data of several lines', () => {
    expect(new EventParser().push(whole)).toEqual(frames);
  });

  it('reads frames that are split at any place, with any line ending', () => {
    for (const ending of ['\n', '\r\n', '\r']) {
      const text = whole.replaceAll('\n', ending);
      for (let at = 0; at <= text.length; at++) {
        const parser = new EventParser();
        expect([...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))]).toEqual(frames);
      }
      const parser = new EventParser();
      expect([...text].flatMap((letter) => parser.push(letter))).toEqual(frames);
    }
  });

  it('keeps colons and one leading space of a value, and ignores unknown fields', () => {
    expect(new EventParser().push('data:  a: b\nretry: 5\nnonsense\n\n')).toEqual([
      { event: 'message', data: ' a: b', id: null },
    ]);
  });

  it('dispatches nothing without data', () => {
    expect(new EventParser().push('event: x\nid: 3\n\n')).toEqual([]);
  });
});

describe('back-off', () => {
  it('doubles up to a limit, with jitter', () => {
    expect([1, 2, 3, 20].map((attempt) => backOff(attempt, 1))).toEqual([500, 1000, 2000, 15_000]);
    expect(backOff(1, 0)).toBe(250);
  });
});

/** A server whose connections the test holds open. */
class Server {
  readonly requests: { path: string; headers: Record<string, string> }[] = [];
  readonly connections: ReadableStreamDefaultController<Uint8Array>[] = [];
  statuses: number[] = [];
  reconnections = 0;

  readonly ports: StreamPorts = {
    open: async (path, headers, signal) => {
      this.requests.push({ path, headers });
      const status = this.statuses.shift() ?? 200;
      if (status === 0) throw new TypeError('network');
      if (status !== 200) return new Response('{}', { status });
      return new Response(
        new ReadableStream<Uint8Array>({
          start: (controller) => {
            this.connections.push(controller);
            controller.enqueue(new TextEncoder().encode(': following\n\n'));
            signal.addEventListener('abort', () => {
              try {
                controller.error(signal.reason);
              } catch {
                // closed already
              }
            });
          },
        }),
      );
    },
    refused: async () => {},
    reconnected: () => (this.reconnections += 1),
    pauseMs: () => 1,
  };

  say(text: string): void {
    this.connections.at(-1)?.enqueue(new TextEncoder().encode(text));
  }

  hangUp(): void {
    this.connections.at(-1)?.close();
  }
}

function following(server: Server, kinds: string[] | null = null) {
  const stream = new EventStream(server.ports);
  const seen: StreamEvent[] = [];
  stream.subscribe(kinds, (event) => seen.push(event));
  opened.push(stream);
  return { stream, seen };
}

const opened: EventStream[] = [];
afterEach(() => opened.splice(0).forEach((stream) => stream.close()));
const eventually = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 2 });

describe('stream', () => {
  it('delivers events of the kinds that a subscriber asked for', async () => {
    const server = new Server();
    const { stream, seen } = following(server, ['started']);
    stream.start();
    await eventually(() => expect(stream.state.value).toBe('live'));
    server.say('event: submitted\ndata: 1\n\nevent: started\ndata: {"job_id":42}\n\n');
    await eventually(() => expect(seen).toEqual([{ kind: 'started', data: { job_id: 42 } }]));
  });

  it('continues after the last event when the connection is lost', async () => {
    const server = new Server();
    const { stream, seen } = following(server);
    stream.start();
    await eventually(() => expect(stream.state.value).toBe('live'));
    server.say('id: 7\ndata: 1\n\n');
    await eventually(() => expect(seen).toHaveLength(1));
    server.statuses = [0, 503];
    server.hangUp();
    await eventually(() => expect(server.connections).toHaveLength(2));
    expect(server.requests.map(({ headers }) => headers['Last-Event-ID'])).toEqual([undefined, '7', '7', '7']);
    await eventually(() => expect(stream.state.value).toBe('live'));
    expect(server.reconnections).toBe(1);
    expect(seen.map(({ kind }) => kind)).not.toContain('resync');
  });

  it('asks subscribers to load again when events may have been missed', async () => {
    const server = new Server();
    const { stream, seen } = following(server, ['started']);
    stream.start();
    await eventually(() => expect(stream.state.value).toBe('live'));
    server.hangUp();
    await eventually(() => expect(seen).toEqual([{ kind: 'resync', data: null }]));
  });

  it('stops at a refused session and starts again on demand', async () => {
    const server = new Server();
    server.statuses = [401];
    const { stream } = following(server);
    stream.start();
    await eventually(() => expect(stream.state.value).toBe('idle'));
    expect(server.requests).toHaveLength(1);
    stream.start();
    await eventually(() => expect(stream.state.value).toBe('live'));
  });

  it('reconnects once with the overview when pages want it, and without it afterwards', async () => {
    const server = new Server();
    const { stream } = following(server);
    stream.start();
    await eventually(() => expect(stream.state.value).toBe('live'));
    stream.wantOverview(true);
    stream.wantOverview(true);
    await eventually(() => expect(server.requests.at(-1)?.path).toBe('/events?overview=true'));
    stream.wantOverview(false);
    stream.wantOverview(false);
    await eventually(() => expect(server.requests.at(-1)?.path).toBe('/events'));
    expect(server.requests).toHaveLength(3);
  });

  it('survives data that is no JSON and a subscriber that throws', async () => {
    vi.stubGlobal('reportError', () => {});
    const server = new Server();
    const { stream, seen } = following(server);
    stream.subscribe(null, () => {
      throw new Error('broken page');
    });
    stream.start();
    await eventually(() => expect(stream.state.value).toBe('live'));
    server.say('data: {nonsense\n\ndata: 2\n\ndata: 3\n\n');
    await eventually(() => expect(seen.map(({ data }) => data)).toEqual([2, 3]));
    vi.unstubAllGlobals();
  });
});
