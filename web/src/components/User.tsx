/** A user's name with the colour that it has on every page. */

import { userColour } from '../format';

export function User({ name }: { name: string }) {
  return (
    <span class="user">
      <span class="user-dot" style={{ background: userColour(name) }} aria-hidden="true" />
      {name}
    </span>
  );
}
