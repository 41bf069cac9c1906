/** Legend of the GPU map: users by the GPUs that they hold. A click shows only one of them. */

import { useState } from 'preact/hooks';
import { UserDot } from '../../components/User';
import { amount } from '../../format';
import type { Shares } from '../../state/overview';

const FEW = 12;

export function Legend({ shares, user, onUser }: { shares: Shares; user: string | null; onUser: (user: string | null) => void }) {
  const [all, setAll] = useState(false);
  const shown = all ? shares.users : shares.users.slice(0, FEW);
  const more = shares.users.length - shown.length;
  return (
    <ul class="map-legend" aria-label="Users by GPUs held">
      {shown.map(({ name, gpus }) => (
        <li key={name}>
          <button
            type="button"
            class={`legend-user ${user === name ? 'legend-chosen' : ''}`}
            aria-pressed={user === name}
            title={user === name ? 'Show all users' : `Show only the GPUs of ${name}`}
            onClick={() => onUser(user === name ? null : name)}
          >
            <UserDot name={name} />
            {name} <b>{amount(gpus)}</b>
          </button>
        </li>
      ))}
      {more > 0 && (
        <li>
          <button type="button" class="legend-user" onClick={() => setAll(true)}>
            {more} more …
          </button>
        </li>
      )}
      {shares.hidden > 0 && (
        <li class="legend-other">
          <span class="user-dot legend-hidden" aria-hidden="true" /> other users <b>{amount(shares.hidden)}</b>
        </li>
      )}
      <li class="legend-other">
        <span class="user-dot legend-free" aria-hidden="true" /> free <b>{amount(Math.round(shares.free * 1000) / 1000)}</b>
      </li>
    </ul>
  );
}
