/** A button that opens a menu. Arrow keys move, Enter chooses, Escape closes. */

import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { useDropdown } from './dropdown';
import { Icon, type IconName } from './Icon';

export interface MenuItem {
  label: ComponentChildren;
  icon?: IconName;
  /** An action, or the address of a page. */
  onSelect?: () => void;
  href?: string;
  danger?: boolean;
  disabled?: boolean;
  /** Of a choice among several. */
  checked?: boolean;
}

export interface MenuProps {
  /** Content of the button. */
  label: ComponentChildren;
  /** Name of the button, if `label` is only an icon. */
  name?: string;
  /** 'separator' draws a line; null and false leave an item out. */
  items: readonly (MenuItem | 'separator' | null | false)[];
  /** Above the items: not a choice. */
  header?: ComponentChildren;
  align?: 'left' | 'right';
  kind?: 'plain' | 'quiet' | 'primary';
  disabled?: boolean;
}

export function Menu({ label, name, items, header, align = 'left', kind = 'plain', disabled }: MenuProps) {
  const { root, isOpen: open, setOpen, close } = useDropdown((list) => choices(list)[0]?.focus());
  const id = useId();

  const onKeyDown = (event: KeyboardEvent) => {
    if (!open) {
      if (event.key !== 'ArrowDown') return;
      event.preventDefault();
      setOpen(true);
      return;
    }
    const all = choices(root.current);
    const at = all.indexOf(document.activeElement as HTMLElement);
    const go = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (go !== undefined) {
      event.preventDefault();
      all[(go + all.length) % all.length]?.focus();
    } else if (event.key === 'Escape' || event.key === 'Tab') {
      event.preventDefault();
      event.stopPropagation();
      close();
    } else if (event.key.length === 1 && /\S/.test(event.key)) {
      const letter = event.key.toLowerCase();
      const next = [...all.slice(at + 1), ...all.slice(0, at + 1)];
      next.find((item) => item.textContent?.trim().toLowerCase().startsWith(letter))?.focus();
    }
  };

  return (
    <div class="menu" ref={root} onKeyDown={onKeyDown}>
      <button
        type="button"
        class={`button button-${kind}`}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-label={name}
        title={name}
        disabled={disabled}
        onClick={() => setOpen(!open)}
      >
        {label}
      </button>
      {open && (
        <div class={`menu-list menu-${align}`}>
          {header && <div class="menu-header">{header}</div>}
          <div role="menu" id={id} aria-label={name ?? 'Menu'}>
            {items.map((item, index) => {
              if (item === 'separator') return <div key={index} role="separator" class="menu-line" />;
              return item && <Item key={index} item={item} close={close} />;
            })}
          </div>
        </div>
      )}
    </div>
  );
}

function Item({ item, close }: { item: MenuItem; close: () => void }) {
  const content = (
    <>
      {item.checked === undefined ? item.icon && <Icon name={item.icon} /> : <Mark on={item.checked} />}
      <span>{item.label}</span>
    </>
  );
  const shared = { class: `menu-item ${item.danger ? 'menu-danger' : ''}`, tabIndex: -1 };
  if (item.href) {
    return (
      <a {...shared} role="menuitem" href={item.href} onClick={() => setTimeout(close)}>
        {content}
      </a>
    );
  }
  return (
    <button
      {...shared}
      type="button"
      role={item.checked === undefined ? 'menuitem' : 'menuitemradio'}
      aria-checked={item.checked}
      disabled={item.disabled}
      onClick={() => {
        close();
        item.onSelect?.();
      }}
    >
      {content}
    </button>
  );
}

function Mark({ on }: { on: boolean }) {
  return <span class="menu-mark">{on && <Icon name="check" />}</span>;
}

function choices(root: HTMLElement | null): HTMLElement[] {
  return [...(root?.querySelectorAll<HTMLElement>('.menu-item:not([disabled])') ?? [])];
}
