/** Tabs. Arrow keys move between them; the panel is named by its tab. */

import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';

export interface Tab {
  id: string;
  label: ComponentChildren;
}

export interface TabsProps {
  tabs: readonly Tab[];
  current: string;
  onChange: (id: string) => void;
  /** Name of the row of tabs, for screen readers. */
  label: string;
  /** Content of the current tab. */
  children: ComponentChildren;
}

export function Tabs({ tabs, current, onChange, label, children }: TabsProps) {
  const base = useId();
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // A narrow screen shows only some of the tabs.
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [current]);
  const onKeyDown = (event: KeyboardEvent) => {
    const at = tabs.findIndex((tab) => tab.id === current);
    const go = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (go === undefined) return;
    event.preventDefault();
    const index = (go + tabs.length) % tabs.length;
    onChange(tabs[index]?.id ?? current);
    list.current?.querySelectorAll<HTMLElement>('[role=tab]')[index]?.focus();
  };
  return (
    <div class="tabs">
      <div role="tablist" class="tab-list" aria-label={label} ref={list} onKeyDown={onKeyDown}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            class="tab"
            id={`${base}-${tab.id}`}
            aria-selected={tab.id === current}
            aria-controls={`${base}-panel`}
            tabIndex={tab.id === current ? 0 : -1}
            onClick={() => onChange(tab.id)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${base}-panel`} class="tab-panel" aria-labelledby={`${base}-${current}`}>
        {children}
      </div>
    </div>
  );
}
