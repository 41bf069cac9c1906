/** Lines of a log in memory: bytes come in at either end, rows of a fixed height go out. Oldest lines are dropped first. */

import type { LogChunk } from './logFollower';
import { PLAIN, overwritten, plainText, styleAfter, type Style } from './ansi';

export interface Line {
  text: string;
  /** Style in which it begins. */
  style: Style;
  /** When its beginning arrived, in milliseconds since 1970; null: no time was recorded. */
  time: number | null;
  /** Not output: something that the reader has to know. */
  mark?: string;
}

/** A row of the view: a line, or a part of one that is too long for a row. */
export interface Row {
  line: number;
  from: number;
  to: number;
}

export interface Match {
  line: number;
  from: number;
  to: number;
}

/** Longer lines are shown in several rows, also without wrapping. */
export const LONGEST_ROW = 2000;
const MOST_LINES = 200_000;
const MOST_CHARACTERS = 24_000_000;
const MOST_MATCHES = 20_000;

export class LogBuffer {
  /** Numbers of lines go on when old ones are dropped: `first` is the number of the oldest. */
  first = 0;
  lines: Line[] = [];
  /** Whether lines were dropped from memory at the beginning. */
  dropped = false;
  private characters = 0;
  private decoder = new TextDecoder();
  private open = '';
  private hasOpen = false;
  private style: Style = PLAIN;
  private time: number | null = null;

  get end(): number {
    return this.first + this.lines.length;
  }

  line(number: number): Line | undefined {
    return this.lines[number - this.first];
  }

  /** The text of a line as it is shown. */
  shown(number: number): string {
    const line = this.line(number);
    return line === undefined ? '' : (line.mark ?? plainText(line.text));
  }

  append({ bytes, time }: LogChunk): void {
    this.time = time;
    const text = this.decoder.decode(bytes, { stream: true });
    const parts = text.split('\n');
    const last = parts.pop() ?? '';
    for (const part of parts) this.finish(part);
    this.open += last;
    this.showOpen();
    this.trim();
  }

  /** Older output, directly before everything that is here. Returns how many lines were added. */
  prepend(chunks: readonly LogChunk[]): number {
    const before = linesOf(chunks);
    const last = before.pop();
    const oldest = this.lines[0];
    if (last && last.text !== '') {
      this.characters += last.text.length;
      if (oldest !== undefined && oldest.mark === undefined) Object.assign(oldest, { text: last.text + oldest.text, time: last.time });
      else before.push(last);
    }
    let style = PLAIN;
    for (const line of before) {
      line.style = style;
      style = styleAfter(line.text, style);
      this.characters += line.text.length;
    }
    this.lines = [...before, ...this.lines];
    this.first -= before.length;
    return before.length;
  }

  /** Ends the open line and adds a mark below it. The next output begins a new line. */
  mark(text: string): void {
    if (this.hasOpen) this.finish('');
    this.decoder = new TextDecoder();
    this.style = PLAIN;
    this.push({ text: '', style: PLAIN, time: null, mark: text });
  }

  clear(): void {
    this.first = this.end;
    this.lines = [];
    this.characters = 0;
    this.decoder = new TextDecoder();
    this.open = '';
    this.hasOpen = false;
    this.style = PLAIN;
    this.dropped = false;
  }

  private finish(rest: string): void {
    const text = this.open + rest;
    if (this.hasOpen) this.replaceOpen(text);
    else this.push({ text: shortened(text), style: this.style, time: this.time });
    this.style = styleAfter(text, this.style);
    this.open = '';
    this.hasOpen = false;
  }

  private showOpen(): void {
    if (this.open === '') return;
    // A progress bar writes one line over and over: only its last version is kept.
    const at = this.open.lastIndexOf('\r', this.open.length - 2);
    if (at > 0) this.open = this.open.slice(at);
    if (this.hasOpen) this.replaceOpen(this.open);
    else this.push({ text: this.open, style: this.style, time: this.time });
    this.hasOpen = true;
  }

  private replaceOpen(text: string): void {
    const line = this.lines.at(-1);
    if (line === undefined) return;
    this.characters += text.length - line.text.length;
    this.lines[this.lines.length - 1] = { ...line, text: shortened(text) };
  }

  private push(line: Line): void {
    this.lines.push(line);
    this.characters += line.text.length;
  }

  private trim(): void {
    if (this.lines.length <= MOST_LINES && this.characters <= MOST_CHARACTERS) return;
    let many = Math.max(0, this.lines.length - MOST_LINES);
    let left = this.characters;
    for (let at = 0; at < many; at++) left -= this.lines[at]?.text.length ?? 0;
    while (left > MOST_CHARACTERS && many < this.lines.length - 1) left -= this.lines[many++]?.text.length ?? 0;
    // Some more, so that it is not done for each line.
    const extra = Math.min(this.lines.length - 1 - many, Math.floor(MOST_LINES / 20));
    for (let at = many; at < many + extra; at++) left -= this.lines[at]?.text.length ?? 0;
    this.lines = this.lines.slice(many + extra);
    this.first += many + extra;
    this.characters = left;
    this.dropped = true;
  }
}

/** Each with the time of its first character; the last one has no end. */
function linesOf(chunks: readonly LogChunk[]): Line[] {
  const decoder = new TextDecoder();
  const lines: Line[] = [{ text: '', style: PLAIN, time: null }];
  for (const { bytes, time } of chunks) {
    decoder
      .decode(bytes, { stream: true })
      .split('\n')
      .forEach((text, index) => {
        const open = lines.at(-1);
        if (index > 0 || open === undefined) lines.push({ text, style: PLAIN, time });
        else if (open.text === '') Object.assign(open, { text, time });
        else open.text += text;
      });
  }
  return lines;
}

function shortened(text: string): string {
  return text.includes('\r') ? overwritten(text) : text;
}

/** Rows of all lines, each with at most `width` characters. It follows a buffer at the cost of what is new. */
export class LogRows {
  rows: Row[] = [];
  private first = 0;
  /** Lines before this one have their rows. */
  private done = 0;

  constructor(readonly width: number) {}

  update(buffer: LogBuffer): this {
    if (buffer.first < this.first || buffer.first >= this.done) {
      this.rows = [];
      this.done = buffer.first;
    } else if (buffer.first > this.first) {
      this.rows = this.rows.slice(rowAt(this.rows, buffer.first, 0));
    }
    this.first = buffer.first;
    // The last line may have grown since.
    const from = Math.max(this.first, Math.min(this.done, buffer.end) - 1);
    while ((this.rows.at(-1)?.line ?? -Infinity) >= from) this.rows.pop();
    for (let line = from; line < buffer.end; line++) this.add(buffer, line);
    this.done = buffer.end;
    return this;
  }

  private add(buffer: LogBuffer, line: number): void {
    const found = buffer.line(line);
    if (found === undefined) return;
    const short = found.mark !== undefined || found.text.length <= this.width;
    const length = short ? 0 : plainText(found.text).length;
    if (length <= this.width) this.rows.push({ line, from: 0, to: Infinity });
    for (let from = 0; length > this.width && from < length; from += this.width) {
      this.rows.push({ line, from, to: Math.min(length, from + this.width) });
    }
  }
}

/** The row that shows the character of a line. */
export function rowAt(rows: readonly Row[], line: number, character: number): number {
  let low = 0;
  let high = rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    const row = rows[middle];
    if (row !== undefined && (row.line < line || (row.line === line && row.from <= character))) low = middle;
    else high = middle - 1;
  }
  return low;
}

export interface Found {
  matches: Match[];
  /** There are more than are kept. */
  more: boolean;
  /** What is wrong with a regular expression. */
  error: string | null;
}

/** Every place where the text occurs, small and capital letters alike; `regex`: as a regular expression. */
export function search(buffer: LogBuffer, text: string, regex: boolean): Found {
  if (text === '') return { matches: [], more: false, error: null };
  let pattern: RegExp;
  try {
    pattern = new RegExp(regex ? text : text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi');
  } catch (error) {
    return { matches: [], more: false, error: `Not a regular expression: ${messageOf(error)}` };
  }
  const matches: Match[] = [];
  for (let line = buffer.first; line < buffer.end; line++) {
    if (buffer.line(line)?.mark !== undefined) continue;
    for (const match of buffer.shown(line).matchAll(pattern)) {
      if (match[0] === '') break;
      if (matches.length >= MOST_MATCHES) return { matches, more: true, error: null };
      matches.push({ line, from: match.index, to: match.index + match[0].length });
    }
  }
  return { matches, more: false, error: null };
}

function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/^Invalid regular expression: /, '').replace(/^\/.*\/[a-z]*: /, '');
}
