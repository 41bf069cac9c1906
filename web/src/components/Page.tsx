/** Frame of a page: its heading, actions beside it, and content. Panels group the content. */

import type { ComponentChildren } from 'preact';
import { usePageTitle } from '../router';

export interface PageFrameProps {
  title: string;
  /** Shown instead of `title`, which stays the title of the browser's tab. */
  heading?: ComponentChildren;
  /** Beside the heading: status, counts. */
  aside?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}

export function Page({ title, heading, aside, actions, children }: PageFrameProps) {
  usePageTitle(title);
  return (
    <div class="page">
      <header class="page-header">
        <h1>{heading ?? title}</h1>
        {aside && <div class="page-aside">{aside}</div>}
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function Panel({
  title,
  actions,
  flush,
  children,
}: {
  title?: ComponentChildren;
  actions?: ComponentChildren;
  /** Without padding, for tables and charts. */
  flush?: boolean;
  children: ComponentChildren;
}) {
  return (
    <section class="panel">
      {(title || actions) && (
        <header class="panel-header">
          {title && <h2>{title}</h2>}
          {actions && <div class="panel-actions">{actions}</div>}
        </header>
      )}
      <div class={flush ? '' : 'panel-content'}>{children}</div>
    </section>
  );
}

/** A number with its name: "12 running". */
export function Stat({ label, value, hint }: { label: string; value: ComponentChildren; hint?: ComponentChildren }) {
  return (
    <div class="stat">
      <div class="stat-label">{label}</div>
      <div class="stat-value">{value}</div>
      {hint && <div class="stat-hint">{hint}</div>}
    </div>
  );
}
