/** Short messages at the edge of the window, announced to screen readers. */

import { signal } from '@preact/signals';
import { errorText, isAbort } from '../api/client';
import { IconButton } from './Button';
import { Icon } from './Icon';

interface Message {
  id: number;
  tone: 'info' | 'success' | 'error';
  text: string;
  action?: { label: string; run: () => void };
}

const messages = signal<readonly Message[]>([]);
let nextId = 1;
const SHOWN_MS = 5000;
const MOST = 4;

/** Shows a message for some seconds; an error stays until it is closed. */
export function toast(text: string, options: { tone?: Message['tone']; action?: Message['action'] } = {}): void {
  const id = nextId++;
  const tone = options.tone ?? 'success';
  messages.value = [...messages.value.slice(1 - MOST), { id, tone, text, action: options.action }];
  if (tone !== 'error') setTimeout(() => close(id), SHOWN_MS);
}

/** Shows what went wrong. An aborted request is no error. */
export function toastError(error: unknown): void {
  if (!isAbort(error)) toast(errorText(error), { tone: 'error' });
}

function close(id: number): void {
  messages.value = messages.value.filter((message) => message.id !== id);
}

const ICONS = { info: 'info', success: 'check', error: 'error' } as const;

export function ToastHost() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {messages.value.map((message) => (
        <div key={message.id} class={`toast toast-${message.tone}`}>
          <Icon name={ICONS[message.tone]} />
          <span class="toast-text">{message.text}</span>
          {message.action && (
            <button
              type="button"
              class="button button-quiet button-small"
              onClick={() => {
                close(message.id);
                message.action?.run();
              }}
            >
              {message.action.label}
            </button>
          )}
          <IconButton label="Close message" icon="close" size="small" onClick={() => close(message.id)} />
        </div>
      ))}
    </div>
  );
}
