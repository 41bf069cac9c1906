/** Terminal output as styled text: colours are kept, every other control sequence is dropped, nothing is markup.
 *
 * It builds spans instead of HTML: the Content-Security-Policy forbids style attributes in markup, which a converter to
 * HTML needs for 256 colours, and text from jobs never passes through a parser of HTML this way.
 */

export interface Style {
  /** Index 0–15 of the palette, or a colour of CSS. */
  fg?: number | string;
  bg?: number | string;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
  inverse?: boolean;
}

export interface Span {
  text: string;
  style: Style;
}

export const PLAIN: Style = Object.freeze({});

// CSI sequences, OSC strings up to BEL or ST, other escapes of two characters, and single control characters but tab.
const CONTROL =
  // eslint-disable-next-line no-control-regex
  /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|\x9b([0-?]*)[ -/]*([@-~])|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** The text without control sequences. */
export function plainText(line: string): string {
  const last = overwritten(line);
  return last.includes('\x1b') || /[\x00-\x08\x0b-\x1f\x7f-\x9f]/.test(last) ? last.replace(CONTROL, '') : last;
}

/** What a terminal shows of a line that was written over after carriage returns: the last version. */
export function overwritten(line: string): string {
  const text = line.endsWith('\r') ? line.slice(0, -1) : line;
  const at = text.lastIndexOf('\r');
  return at < 0 ? text : text.slice(at + 1);
}

/** Spans of a line that begins in the style `from`. */
export function spansOf(line: string, from: Style = PLAIN): Span[] {
  const text = overwritten(line);
  const spans: Span[] = [];
  let style = from;
  let at = 0;
  const add = (part: string) => {
    if (part === '') return;
    const last = spans.at(-1);
    if (last && last.style === style) last.text += part;
    else spans.push({ text: part, style });
  };
  for (const match of text.matchAll(CONTROL)) {
    add(text.slice(at, match.index));
    at = match.index + match[0].length;
    if ((match[2] ?? match[4]) === 'm') style = changed(style, match[1] ?? match[3] ?? '');
  }
  add(text.slice(at));
  return spans;
}

/** The style after the line, for the next one. */
export function styleAfter(line: string, from: Style): Style {
  if (!line.includes('\x1b') && !line.includes('\x9b')) return from;
  let style = from;
  for (const match of line.matchAll(CONTROL)) {
    if ((match[2] ?? match[4]) === 'm') style = changed(style, match[1] ?? match[3] ?? '');
  }
  return style;
}

function changed(before: Style, text: string): Style {
  const codes = text === '' ? [0] : text.split(/[;:]/).map((part) => (part === '' ? 0 : Number(part)));
  let style: Style = { ...before };
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at] ?? 0;
    if (code === 0) style = {};
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 22) style.bold = style.dim = undefined;
    else if (code === 23) style.italic = undefined;
    else if (code === 24) style.underline = undefined;
    else if (code === 27) style.inverse = undefined;
    else if (code >= 30 && code <= 37) style.fg = code - 30;
    else if (code >= 90 && code <= 97) style.fg = code - 82;
    else if (code === 39) style.fg = undefined;
    else if (code >= 40 && code <= 47) style.bg = code - 40;
    else if (code >= 100 && code <= 107) style.bg = code - 92;
    else if (code === 49) style.bg = undefined;
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(codes, at + 1);
      at += used;
      if (code === 38) style.fg = colour;
      else style.bg = colour;
    }
  }
  return style;
}

function extended(codes: readonly number[], at: number): [colour: number | string | undefined, used: number] {
  const byte = (index: number) => Math.max(0, Math.min(255, codes[index] ?? 0));
  if (codes[at] === 2) return [`rgb(${byte(at + 1)}, ${byte(at + 2)}, ${byte(at + 3)})`, 4];
  if (codes[at] !== 5) return [undefined, 1];
  const index = byte(at + 1);
  if (index < 16) return [index, 2];
  if (index >= 232) {
    const gray = 8 + (index - 232) * 10;
    return [`rgb(${gray}, ${gray}, ${gray})`, 2];
  }
  const level = (value: number) => (value === 0 ? 0 : 55 + value * 40);
  const cube = index - 16;
  return [`rgb(${level(Math.floor(cube / 36))}, ${level(Math.floor(cube / 6) % 6)}, ${level(cube % 6)})`, 2];
}
