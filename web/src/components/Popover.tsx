/** A button that opens a panel below it. Escape and a click elsewhere close it. */

import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';

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
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) => {
      if (event.target instanceof Node && !root.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
    };
  }, [open]);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
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
        ref={button}
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
