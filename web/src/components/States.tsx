/** What a page shows while it has no data: nothing there, an error, or still loading. */

import type { ComponentChildren } from 'preact';
import { ApiError, OfflineError, errorText } from '../api/client';
import { Button } from './Button';
import { Prose } from './Code';
import { Icon, type IconName } from './Icon';

/** Nothing there: what would be here, and how to get it. */
export function Empty({ title, icon, children, action }: { title: string; icon?: IconName; children?: ComponentChildren; action?: ComponentChildren }) {
  return (
    <div class="empty">
      {icon && <Icon name={icon} size={24} />}
      <p class="empty-title">{title}</p>
      {children && <p class="empty-text">{children}</p>}
      {action}
    </div>
  );
}

export function ErrorBox({ error, onRetry, title }: { error: unknown; onRetry?: () => void; title?: string }) {
  const heading = title ?? (error instanceof OfflineError ? 'No connection' : headingOf(error));
  return (
    <div class="error-box" role="alert">
      <Icon name="error" />
      <div>
        <p class="error-title">{heading}</p>
        <p>
          <Prose text={errorText(error)} />
        </p>
      </div>
      {onRetry && (
        <Button size="small" icon="refresh" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

function headingOf(error: unknown): string {
  if (!(error instanceof ApiError)) return 'Something went wrong in this page';
  if (error.status === 404) return 'Not found';
  if (error.status === 403) return 'No permission';
  return error.status >= 500 ? 'The server cannot answer now' : 'The server refused this';
}

/** Gray lines in place of content that is being loaded. They appear after a moment, so that quick answers do not flicker. */
export function Skeleton({ lines = 3, height }: { lines?: number; height?: string }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} class="skeleton-line" style={{ width: `${[100, 92, 97, 74, 88][index % 5]}%`, ...(height ? { height } : {}) }} />
      ))}
    </div>
  );
}
