/** Buttons: `primary` for the one main action of a page, `danger` for actions that destroy work. */

import type { AnchorHTMLAttributes, ButtonHTMLAttributes, ComponentChildren } from 'preact';
import { Icon, type IconName } from './Icon';

type ButtonAttributes = Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'size' | 'icon'>;

export interface ButtonProps extends ButtonAttributes {
  kind?: 'primary' | 'plain' | 'quiet' | 'danger';
  size?: 'small' | 'medium';
  icon?: IconName;
  /** Shows that the action is under way and refuses further clicks. */
  busy?: boolean;
  children?: ComponentChildren;
}

export function Button({ kind = 'plain', size = 'medium', icon, busy, children, class: extra, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      class={`button button-${kind} button-${size} ${String(extra ?? '')}`}
      disabled={Boolean(rest.disabled) || busy}
      aria-busy={busy}
    >
      {busy ? <span class="spinner" aria-hidden="true" /> : icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** A button that shows only an icon; `label` is its name and its title. */
export function IconButton({ label, icon, ...rest }: Omit<ButtonProps, 'children'> & { label: string; icon: IconName }) {
  return <Button kind="quiet" {...rest} icon={icon} class={`button-icon ${String(rest.class ?? '')}`} aria-label={label} title={label} />;
}

/** A link that looks like a button. */
export function ButtonLink({
  kind = 'plain',
  icon,
  children,
  ...rest
}: AnchorHTMLAttributes<HTMLAnchorElement> & { kind?: ButtonProps['kind']; icon?: IconName; children?: ComponentChildren }) {
  return (
    <a {...rest} class={`button button-${kind}`}>
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}
