/** Dialogs on the native <dialog>: the browser keeps the focus inside, and Escape closes it. */

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { errorText } from '../api/client';
import { Button, IconButton } from './Button';

export interface DialogProps {
  title: string;
  onClose: () => void;
  /** Buttons at the bottom, the main action last. */
  actions?: ComponentChildren;
  wide?: boolean;
  children: ComponentChildren;
}

/** Open while it is rendered. The focus returns to where it was. */
export function Dialog({ title, onClose, actions, wide, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    if (dialog && !dialog.open) dialog.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={`dialog ${wide ? 'dialog-wide' : ''}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => event.target === ref.current && onClose()}
    >
      <div class="dialog-body">
        <header class="dialog-header">
          <h2 id={id}>{title}</h2>
          <IconButton label="Close" icon="close" onClick={onClose} />
        </header>
        <div class="dialog-content">{children}</div>
        {actions && <footer class="dialog-actions">{actions}</footer>}
      </div>
    </dialog>
  );
}

export interface Question {
  title: string;
  /** What the action does and what cannot be undone. */
  text: ComponentChildren;
  /** The verb: "Cancel 3 jobs". */
  action: string;
  danger?: boolean;
  /** Done while the dialog shows that it is under way; an error is shown in the dialog. */
  run?: () => Promise<unknown>;
}

interface Asked extends Question {
  answer: (done: boolean) => void;
}

const asked = signal<Asked | null>(null);

/** Asks before an action: `if (await confirm({…}))`. With `run`, true means that it was done. */
export function confirm(question: Question): Promise<boolean> {
  asked.value?.answer(false);
  return new Promise((resolve) => {
    asked.value = {
      ...question,
      answer: (done) => {
        asked.value = null;
        resolve(done);
      },
    };
  });
}

/** Where `confirm` shows its dialog; once in the layout. */
export function ConfirmHost() {
  const question = asked.value;
  return question && <ConfirmDialog key={question.title} {...question} />;
}

function ConfirmDialog({ title, text, action, danger, run, answer }: Asked) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const act = async () => {
    if (!run) return answer(true);
    setBusy(true);
    setProblem('');
    try {
      await run();
      answer(true);
    } catch (error) {
      setProblem(errorText(error));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={() => answer(false)}
      actions={
        <>
          <Button onClick={() => answer(false)}>Back</Button>
          <Button kind={danger ? 'danger' : 'primary'} busy={busy} onClick={() => void act()}>
            {action}
          </Button>
        </>
      }
    >
      {text}
      {problem && (
        <p class="field-error" role="alert">
          {problem}
        </p>
      )}
    </Dialog>
  );
}
