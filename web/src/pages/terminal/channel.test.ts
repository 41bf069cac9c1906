import { describe, expect, it } from 'vitest';
import { Channel, type Closed, type Socket } from './channel';

class FakeSocket implements Socket {
  binaryType = '';
  sent: (string | Uint8Array)[] = [];
  onopen: Socket['onopen'] = null;
  onmessage: Socket['onmessage'] = null;
  onclose: Socket['onclose'] = null;
  send(data: string | Uint8Array) {
    this.sent.push(data);
  }
  close() {
    this.onclose?.({ code: 1000, reason: '', wasClean: true });
  }
  say(message: object) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

function opened() {
  const socket = new FakeSocket();
  const seen: string[] = [];
  let end: Closed | null = null;
  const done: (() => void)[] = [];
  const channel = new Channel(socket, { command: ['bash'], rows: 24, cols: 80 }, {
    output: (data, taken) => {
      seen.push(new TextDecoder().decode(data));
      done.push(taken);
    },
    opened: ({ node_id }) => seen.push(`opened on ${node_id}`),
    closed: (how) => (end = how),
  });
  socket.onopen?.(new Event('open'));
  return { socket, seen, done, channel, end: () => end };
}

describe('Channel', () => {
  it('says first what to run', () => {
    const { socket } = opened();
    expect(JSON.parse(String(socket.sent[0]))).toEqual({ command: ['bash'], rows: 24, cols: 80, tty: true, term: 'xterm-256color' });
  });

  it('acknowledges output once it is drawn', () => {
    const { socket, seen, done } = opened();
    socket.say({ opened: { attempt_id: '1.0.1', node_id: 'ws1' } });
    socket.onmessage?.({ data: new Uint8Array([1, 104, 105]).buffer });
    expect(seen).toEqual(['opened on ws1', 'hi']);
    expect(socket.sent.length).toBe(1);
    done[0]?.();
    expect(JSON.parse(String(socket.sent[1]))).toEqual({ taken: 2 });
  });

  it('holds back input until the other side has taken what was sent', () => {
    const { socket, channel } = opened();
    socket.say({ opened: { attempt_id: '1.0.1', node_id: 'ws1' } });
    channel.type(new Uint8Array(300 * 1024));
    const sent = () => socket.sent.filter((one) => typeof one !== 'string').reduce((sum, one) => sum + one.length, 0);
    expect(sent()).toBe(256 * 1024);
    socket.say({ taken: 100 * 1024 });
    expect(sent()).toBe(300 * 1024);
  });

  it('keeps what is typed before the terminal is open', () => {
    const { socket, channel } = opened();
    channel.type(new Uint8Array([120]));
    expect(socket.sent.length).toBe(1);
    socket.say({ opened: { attempt_id: '1.0.1', node_id: 'ws1' } });
    expect(socket.sent.length).toBe(2);
  });

  it('tells refusals, ends and broken connections apart', () => {
    for (const [message, expected] of [
      [{ refused: { detail: 'job 1 is over' } }, { kind: 'refused', text: 'job 1 is over' }],
      [{ over: { exit_code: 3, detail: '', lost: false } }, { kind: 'ended', text: 'The program ended with exit code 3.' }],
      [{ over: { exit_code: null, detail: 'its node is away', lost: true } }, { kind: 'lost', text: 'its node is away' }],
      [{}, { kind: 'lost', text: 'The server did not accept the connection.' }],
    ] as const) {
      const { socket, end } = opened();
      socket.say(message);
      socket.close();
      expect(end()).toEqual(expected);
    }
  });
});
