/** A button that opens a panel below it. Escape and a click elsewhere close it. */

import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { useDropdown } from './dropdown';

export interface PopoverProps {
  /** Content of the button. */
  label: ComponentChildren;
  /** Name of the button and of the panel. */
  name: string;
  align?: 'left' | 'right';
  kind?: 'plain' | 'quiet';
  /** Marks the button: something in the panel is chosen. */
  active?: boolean;
  children: ComponentChildren | ((close: () => void) => ComponentChildren);
}

export function Popover({ label, name, align = 'left', kind = 'plain', active, children }: PopoverProps) {
  const { root, isOpen: open, setOpen, close } = useDropdown();
  const id = useId();
  return (
    <div
      class="menu"
      ref={root}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !open) return;
        event.stopPropagation();
        close();
      }}
    >
      <button
        type="button"
        class={`button button-${kind} ${active ? 'button-active' : ''}`}
        aria-expanded={open}
        aria-haspopup="dialog"
        aria-controls={open ? id : undefined}
        title={name}
        onClick={() => setOpen(!open)}
      >
        {label}
      </button>
      {open && (
        <div class={`menu-list menu-${align} popover`} id={id} role="dialog" aria-label={name}>
          {typeof children === 'function' ? children(close) : children}
        </div>
      )}
    </div>
  );
}
