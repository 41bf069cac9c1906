import { describe, expect, it } from 'vitest';
import { plainText, spansOf } from './ansi';
import { LogBuffer, LogRows, rowAt, search } from './logBuffer';

const bytes = (text: string, time: number | null = null) => ({ bytes: new TextEncoder().encode(text), time });

function buffer(...parts: string[]): LogBuffer {
  const made = new LogBuffer();
  for (const part of parts) made.append(bytes(part));
  return made;
}

const shown = (made: LogBuffer) => Array.from({ length: made.end - made.first }, (_, index) => made.shown(made.first + index));

describe('LogBuffer', () => {
  it('makes lines of parts that end anywhere', () => {
    expect(shown(buffer('on', 'e\ntw', 'o\nthr'))).toEqual(['one', 'two', 'thr']);
  });

  it('decodes characters that are split between parts', () => {
    const made = new LogBuffer();
    const euro = bytes('a€b\n');
    made.append({ ...euro, bytes: euro.bytes.slice(0, 2) });
    made.append({ ...euro, bytes: euro.bytes.slice(2) });
    expect(shown(made)).toEqual(['a€b']);
  });

  it('shows the last version of a line that is written over', () => {
    const made = buffer('10 %\r', '20 %\r', '30 %\r');
    expect(shown(made)).toEqual(['30 %']);
    made.append(bytes('100 %\ndone\r\n'));
    expect(shown(made)).toEqual(['100 %', 'done']);
  });

  it('keeps a bounded number of lines and goes on counting', () => {
    const made = new LogBuffer();
    for (let part = 0; part < 30; part++) made.append(bytes('x\n'.repeat(10_000)));
    expect(made.lines.length).toBeLessThanOrEqual(200_000);
    expect(made.end).toBe(300_000);
    expect(made.dropped).toBe(true);
  });

  it('puts older output in front and joins the line in between', () => {
    const made = buffer('ne\ntwo\n');
    expect(made.prepend([bytes('rest\nzero\no')])).toBe(2);
    expect(shown(made)).toEqual(['rest', 'zero', 'one', 'two']);
  });

  it('gives each line the time at which its beginning arrived', () => {
    const made = new LogBuffer();
    for (const [text, time] of [['a', 10], ['b\nc\n', 20], ['d\n', null]] as const) made.append(bytes(text, time));
    expect(made.lines.map(({ text, time }) => [text, time])).toEqual([
      ['ab', 10],
      ['c', 20],
      ['d', null],
    ]);
    made.prepend([bytes('x', 1), bytes('y\n', 2), bytes('z', 3)]);
    expect(made.lines.slice(0, 2).map(({ text, time }) => [text, time])).toEqual([
      ['xy', 1],
      ['zab', 3],
    ]);
  });

  it('adds marks as lines of their own', () => {
    const made = buffer('half');
    made.mark('skipped 3 MiB');
    made.append(bytes('next\n'));
    expect(shown(made)).toEqual(['half', 'skipped 3 MiB', 'next']);
    expect(search(made, 'skipped', false).matches).toEqual([]);
  });

  it('splits long lines into rows', () => {
    const made = buffer(`${'x'.repeat(1_000_000)}\nshort\n`);
    const { rows } = new LogRows(2000).update(made);
    expect(rows.length).toBe(501);
    expect(rows[499]).toEqual({ line: 0, from: 998_000, to: 1_000_000 });
    expect(rowAt(rows, 0, 2500)).toBe(1);
    expect(rowAt(rows, 1, 0)).toBe(500);
  });
});

describe('LogRows', () => {
  it('follows a log that grows, is written over and drops its oldest lines', () => {
    const made = new LogBuffer();
    const rows = new LogRows(10);
    const check = () => expect(rows.update(made).rows).toEqual(new LogRows(10).update(made).rows);
    for (const part of ['a', 'bc\n', 'x'.repeat(25), '\r50', '\nd\ne']) {
      made.append(bytes(part));
      check();
    }
    for (let part = 0; part < 25; part++) {
      made.append(bytes('y\n'.repeat(10_000)));
      rows.update(made);
    }
    check();
    made.prepend([bytes('older\n')]);
    check();
    made.clear();
    made.append(bytes('new\n'));
    check();
  });
});

describe('search', () => {
  it('finds every place, small and capital letters alike', () => {
    const found = search(buffer('Error: a\nno error, ERROR\n'), 'error', false);
    expect(found.matches.map(({ line, from }) => [line, from])).toEqual([
      [0, 0],
      [1, 3],
      [1, 10],
    ]);
  });

  it('takes a text as it is and a regular expression as one', () => {
    const made = buffer('a.c abc\n');
    expect(search(made, 'a.c', false).matches.length).toBe(1);
    expect(search(made, 'a.c', true).matches.length).toBe(2);
  });

  it('says what is wrong with a broken regular expression', () => {
    const found = search(buffer('x\n'), '[a-', true);
    expect(found.error).toContain('Not a regular expression');
    expect(found.matches).toEqual([]);
  });

  it('ignores colours between letters', () => {
    expect(search(buffer('\x1b[31mer\x1b[0mror\n'), 'error', false).matches).toEqual([{ line: 0, from: 0, to: 5 }]);
  });
});

describe('ansi', () => {
  it('keeps colours and drops every other sequence', () => {
    expect(plainText('\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x07 \x1b(Bplain\x1b[K')).toBe('red plain');
    expect(spansOf('\x1b[1;31mred\x1b[0m x')).toEqual([
      { text: 'red', style: { bold: true, fg: 1 } },
      { text: ' x', style: {} },
    ]);
  });

  it('knows 256 colours and true colours', () => {
    expect(spansOf('\x1b[38;5;196ma\x1b[48;2;1;2;300mb').map((span) => span.style)).toEqual([
      { fg: 'rgb(255, 0, 0)' },
      { fg: 'rgb(255, 0, 0)', bg: 'rgb(1, 2, 255)' },
    ]);
  });

  it('leaves markup as it is', () => {
    expect(spansOf('<img src=x onerror=alert(1)>')).toEqual([{ text: '<img src=x onerror=alert(1)>', style: {} }]);
  });

  it('survives sequences that are cut off', () => {
    expect(plainText('a\x1b[')).toBe('a');
    expect(plainText('a\x1b')).toBe('a');
    expect(plainText('b\x1b]8;;http://x')).toBe('b');
  });
});
