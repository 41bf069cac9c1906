/** Channel to a program inside a job over a WebSocket: bytes both ways, with at most 256 KiB under way in each direction. */

export interface ChannelEvents {
  /** `done` is to be called when the output was dealt with. */
  output: (data: Uint8Array, done: () => void) => void;
  opened: (where: { attempt_id: string; node_id: string }) => void;
  /** Nothing follows. `lost`: the connection broke, and the program may still run. */
  closed: (end: Closed) => void;
}

export interface Closed {
  kind: 'refused' | 'ended' | 'lost';
  text: string;
}

/** What is used of a WebSocket. */
export interface Socket {
  binaryType: string;
  send(data: string | Uint8Array): void;
  close(): void;
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number; reason: string; wasClean: boolean }) => void) | null;
}

export interface Asked {
  command: string[];
  rows: number;
  cols: number;
}

interface Told {
  opened?: { attempt_id: string; node_id: string };
  refused?: { detail?: string; title?: string };
  taken?: number;
  over?: { exit_code: number | null; detail: string; lost: boolean };
}

const WINDOW = 256 * 1024;
const PIECE = 32 * 1024;

export class Channel {
  private untaken = 0;
  private queue: Uint8Array[] = [];
  private end: Closed | null = null;
  private isOpen = false;

  constructor(
    private readonly socket: Socket,
    asked: Asked,
    private readonly events: ChannelEvents,
  ) {
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => socket.send(JSON.stringify({ ...asked, tty: true, term: 'xterm-256color' }));
    socket.onmessage = ({ data }) => (typeof data === 'string' ? this.told(JSON.parse(data) as Told) : this.printed(data as ArrayBuffer));
    socket.onclose = () => this.close(this.end ?? { kind: 'lost', text: this.isOpen ? 'The connection to the server broke.' : 'The server did not accept the connection.' });
  }

  type(data: Uint8Array): void {
    for (let start = 0; start < data.length; start += PIECE) this.queue.push(data.subarray(start, start + PIECE));
    this.flush();
  }

  resize(rows: number, cols: number): void {
    if (this.isOpen && this.end === null) this.socket.send(JSON.stringify({ resize: [rows, cols] }));
  }

  /** Leaves: a program gets SIGHUP, the job's own terminal goes on. */
  leave(): void {
    this.end ??= { kind: 'ended', text: '' };
    this.socket.close();
  }

  private flush(): void {
    while (this.isOpen && this.end === null) {
      const next = this.queue[0];
      if (next === undefined || this.untaken + next.length > WINDOW) return;
      this.queue.shift();
      this.untaken += next.length;
      this.socket.send(next);
    }
  }

  private told(message: Told): void {
    if (message.opened) {
      this.isOpen = true;
      this.events.opened(message.opened);
    }
    if (message.taken !== undefined) this.untaken -= message.taken;
    if (message.refused) {
      this.end = { kind: 'refused', text: message.refused.detail ?? message.refused.title ?? 'The server refused this.' };
    }
    if (message.over) {
      const { exit_code, detail, lost } = message.over;
      const text = detail || (exit_code === null ? 'The session ended.' : `The program ended with exit code ${exit_code}.`);
      this.end = { kind: lost ? 'lost' : 'ended', text };
    }
    this.flush();
  }

  private printed(buffer: ArrayBuffer): void {
    // The first byte tells stdout from stderr, which a terminal shows alike.
    const data = new Uint8Array(buffer, 1);
    this.events.output(data, () => {
      if (data.length > 0 && this.end === null) this.socket.send(JSON.stringify({ taken: data.length }));
    });
  }

  private close(end: Closed): void {
    this.end = end;
    this.events.closed(end);
  }
}
