/** Open and closed state of a button with a panel below it. A click or the focus elsewhere closes the panel. */

import { useEffect, useRef, useState } from 'preact/hooks';

export function useDropdown(onOpen?: (root: HTMLElement) => void) {
  const [isOpen, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOpen || !root.current) return;
    onOpen?.(root.current);
    const outside = (event: Event) => {
      if (event.target instanceof Node && !root.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
    };
  }, [isOpen]);
  /** Closes it and returns the focus to the button. */
  const close = () => {
    setOpen(false);
    root.current?.querySelector('button')?.focus();
  };
  return { root, isOpen, setOpen, close };
}
