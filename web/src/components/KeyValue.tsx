/** Names with their values, in as many columns as there is room for. */

import type { ComponentChildren } from 'preact';

export type Pair = readonly [name: ComponentChildren, value: ComponentChildren];

/** null and false leave a pair out. */
export function KeyValue({ pairs, columns = false }: { pairs: readonly (Pair | null | false)[]; columns?: boolean }) {
  return (
    <dl class={`pairs ${columns ? 'pairs-columns' : ''}`}>
      {pairs.map(
        (pair, index) =>
          pair && (
            <div key={index} class="pair">
              <dt>{pair[0]}</dt>
              <dd>{pair[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
