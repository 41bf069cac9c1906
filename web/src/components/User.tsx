/** A user's name with the colour that it has on every page. */

import { sharesColour, userColour } from '../state/userColours';

export function UserDot({ name }: { name: string }) {
  return <span class={`user-dot ${sharesColour(name) ? 'user-ring' : ''}`} style={{ '--user': userColour(name) }} aria-hidden="true" />;
}

export function User({ name }: { name: string }) {
  return (
    <span class="user">
      <UserDot name={name} />
      {name}
    </span>
  );
}
