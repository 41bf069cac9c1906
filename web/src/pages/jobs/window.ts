/** Window on a long list: rows are loaded in chunks as they come into view, and loaded again after events.
 *
 * A row that is not loaded yet is a placeholder with a negative key, so that a table can have as many rows as the
 * server has.
 */

export interface Chunk<Row> {
  rows: Row[];
  total: number;
  exact: boolean;
}

export type LoadChunk<Row> = (skip: number, limit: number, signal: AbortSignal) => Promise<Chunk<Row>>;

export interface Placeholder {
  placeholder: true;
  index: number;
}

export type Slot<Row> = Row | Placeholder;

export function isPlaceholder<Row extends object>(row: Slot<Row>): row is Placeholder {
  return 'placeholder' in row;
}

export const CHUNK = 100;
const MOST_KEPT = 60;

export class ListWindow<Row extends object> {
  total = 0;
  exact = true;
  /** Whether the first answer has come. */
  loaded = false;
  error: unknown = null;
  slots: readonly Slot<Row>[] = [];
  private readonly chunks = new Map<number, Row[]>();
  private readonly loading = new Map<number, AbortController>();
  private range: [number, number] = [0, 0];
  private stopped = false;

  constructor(
    private readonly load: LoadChunk<Row>,
    private readonly changed: () => void,
  ) {}

  /** Rows `first` to `last` are in view. */
  show(first: number, last: number): void {
    this.range = [first, last];
    const wanted = this.wanted();
    // Chunks that were scrolled past are not waited for.
    for (const [index, stop] of this.loading) {
      if (!wanted.includes(index)) stop.abort();
    }
    for (const index of wanted) {
      if (!this.chunks.has(index)) void this.fetch(index);
    }
  }

  /** Loads again what is in view; other chunks are loaded again when they come into view. */
  async refresh(): Promise<void> {
    const wanted = this.wanted();
    for (const index of [...this.chunks.keys()]) {
      if (!wanted.includes(index)) this.chunks.delete(index);
    }
    await Promise.all(wanted.map((index) => this.fetch(index)));
  }

  stop(): void {
    this.stopped = true;
    for (const stop of this.loading.values()) stop.abort();
  }

  private wanted(): number[] {
    const last = this.loaded ? Math.max(0, Math.ceil(this.total / CHUNK) - 1) : 0;
    const from = Math.min(last, Math.floor(this.range[0] / CHUNK));
    const to = Math.min(last, Math.floor(this.range[1] / CHUNK));
    return Array.from({ length: to - from + 1 }, (_, index) => from + index);
  }

  private async fetch(index: number): Promise<void> {
    if (this.stopped) return;
    this.loading.get(index)?.abort();
    const stop = new AbortController();
    this.loading.set(index, stop);
    try {
      const { rows, total, exact } = await this.load(index * CHUNK, CHUNK, stop.signal);
      if (stop.signal.aborted) return;
      this.loaded = true;
      this.error = null;
      this.total = Math.max(total, index * CHUNK + rows.length);
      this.exact = exact;
      this.chunks.delete(index);
      this.chunks.set(index, rows);
      this.trim();
      this.draw();
    } catch (error) {
      if (stop.signal.aborted) return;
      this.error = error;
      this.changed();
    } finally {
      if (this.loading.get(index) === stop) this.loading.delete(index);
    }
  }

  private trim(): void {
    for (const index of [...this.chunks.keys()].slice(0, Math.max(0, this.chunks.size - MOST_KEPT))) {
      this.chunks.delete(index);
    }
  }

  private draw(): void {
    const slots: Slot<Row>[] = [];
    for (let at = 0; at < this.total; at++) {
      const row = this.chunks.get(Math.floor(at / CHUNK))?.[at % CHUNK];
      slots.push(row ?? placeholder(at));
    }
    this.slots = slots;
    this.changed();
  }
}

const placeholders: Placeholder[] = [];

/** The same object every time: a list of 100,000 rows is drawn again and again. */
function placeholder(index: number): Placeholder {
  return (placeholders[index] ??= { placeholder: true, index });
}
