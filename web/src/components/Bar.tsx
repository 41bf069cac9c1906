/** Stacked horizontal bar with a label for each part: quotas, shares, use against capacity. */

import { amount } from '../format';

export interface BarPart {
  label: string;
  value: number;
  /** Any CSS colour: 'var(--green)', or userColour(name). */
  colour: string;
  /** Drawn with stripes, so that it differs without colour: reserved or unhealthy parts. */
  striped?: boolean;
}

export interface BarProps {
  parts: readonly BarPart[];
  /** What the whole length stands for; the sum of the parts unless given. */
  total?: number;
  /** A line across the bar: the fair share or the quota. */
  mark?: { value: number; label: string };
  /** Unit in the titles: "GPUs". */
  unit?: string;
  /** Names below the bar. */
  legend?: boolean;
  /** What the bar shows, for screen readers: "GPUs of tenant lab". */
  label: string;
  format?: (value: number) => string;
}

export function Bar({ parts, total, mark, unit = '', legend, label, format = amount }: BarProps) {
  const sum = parts.reduce((all, part) => all + part.value, 0);
  const whole = Math.max(total ?? 0, sum, mark?.value ?? 0) || 1;
  const written = (value: number) => `${format(value)}${unit && ` ${unit}`}`;
  const texts = parts.map((part) => `${part.label}: ${written(part.value)}`);
  const most = total === undefined ? '' : ` of ${written(total)}`;
  const line = mark ? `; ${mark.label}: ${written(mark.value)}` : '';
  return (
    <div class="bar-box">
      <div class="bar" role="img" aria-label={`${label}: ${texts.join(', ') || 'nothing'}${most}${line}`}>
        {parts.map((part, index) =>
          part.value > 0 ? (
            <span
              key={part.label}
              class={`bar-part ${part.striped ? 'bar-striped' : ''}`}
              style={{ width: `${(part.value / whole) * 100}%`, backgroundColor: part.colour }}
              title={texts[index]}
            />
          ) : null,
        )}
        {mark && (
          <span class="bar-mark" style={{ left: `${(mark.value / whole) * 100}%` }} title={`${mark.label}: ${written(mark.value)}`} />
        )}
      </div>
      {legend && (
        <ul class="legend" aria-hidden="true">
          {parts.map((part) => (
            <li key={part.label}>
              <span class={`legend-key ${part.striped ? 'bar-striped' : ''}`} style={{ backgroundColor: part.colour }} />
              {part.label} <b>{written(part.value)}</b>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
