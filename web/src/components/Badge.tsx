/** Badges. A status has its own colour, its own shape and its name, so that no colour is needed to read it. */

import type { ComponentChildren } from 'preact';
import type { JobStatus, NodeState } from '../api/types';

export type Tone = 'green' | 'amber' | 'red' | 'blue' | 'purple' | 'gray' | 'accent';

export function Badge({ tone = 'gray', title, children }: { tone?: Tone; title?: string; children: ComponentChildren }) {
  return (
    <span class={`badge tone-${tone}`} title={title}>
      {children}
    </span>
  );
}

type Shape = 'ring' | 'half' | 'dot' | 'back' | 'check' | 'cross' | 'slash' | 'square' | 'triangle';

const SHAPES: Record<Shape, ComponentChildren> = {
  ring: <circle cx="6" cy="6" r="4" class="shape-line" stroke-dasharray="2.500 1.700" />,
  half: (
    <>
      <circle cx="6" cy="6" r="4" class="shape-line" />
      <path d="M6 2a4 4 0 0 1 0 8z" class="shape-fill" />
    </>
  ),
  dot: <circle cx="6" cy="6" r="4.500" class="shape-fill" />,
  back: <path d="M2.500 4.500h4.500a2.500 2.500 0 0 1 0 5H4.500M4.500 2.500l-2 2 2 2" class="shape-line" />,
  check: <path d="M2 6.500l2.700 2.700L10 3.300" class="shape-line" />,
  cross: <path d="M2.800 2.800l6.400 6.400M9.200 2.800L2.800 9.200" class="shape-line" />,
  slash: (
    <>
      <circle cx="6" cy="6" r="4.200" class="shape-line" />
      <path d="M3.200 8.800l5.600-5.600" class="shape-line" />
    </>
  ),
  square: <path d="M2.500 2.500h7v7h-7z" class="shape-line" />,
  triangle: <path d="M6 1.800l4.600 8.400H1.400z" class="shape-fill" />,
};

const STATUSES: Record<JobStatus | NodeState, { tone: Tone; shape: Shape }> = {
  pending: { tone: 'amber', shape: 'ring' },
  scheduled: { tone: 'blue', shape: 'half' },
  running: { tone: 'green', shape: 'dot' },
  preempted: { tone: 'purple', shape: 'back' },
  completed: { tone: 'gray', shape: 'check' },
  failed: { tone: 'red', shape: 'cross' },
  cancelled: { tone: 'gray', shape: 'slash' },
  ready: { tone: 'green', shape: 'dot' },
  draining: { tone: 'amber', shape: 'triangle' },
  offline: { tone: 'red', shape: 'square' },
};

/** The colour of a status, as a custom property: for bars, charts and canvas. */
export function statusColour(status: string): string {
  return `var(--${STATUSES[status as JobStatus]?.tone ?? 'gray'})`;
}

/** Shape and name of a job status or a node state. `quiet`: without a coloured ground, for tables. */
export function StatusBadge({ status, quiet, children }: { status: string; quiet?: boolean; children?: ComponentChildren }) {
  const { tone, shape } = STATUSES[status as JobStatus] ?? { tone: 'gray' as Tone, shape: 'square' as Shape };
  return (
    <span class={`${quiet ? 'status' : 'badge status'} tone-${tone}`}>
      <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
        {SHAPES[shape]}
      </svg>
      {children ?? status}
    </span>
  );
}
