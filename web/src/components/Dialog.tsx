/** Dialogs on the native <dialog>: the browser keeps the focus inside, and Escape closes it. */

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { ApiError, errorText } from '../api/client';
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

export interface FormDialogProps<Result> {
  title: string;
  /** The verb: "Make token". */
  action: string;
  danger?: boolean;
  wide?: boolean;
  disabled?: boolean;
  /** Done while the dialog shows that it is under way; an error is shown in the dialog. */
  run: () => Promise<Result>;
  onDone: (result: Result) => void;
  onClose: () => void;
  /** `errorOf(field)` is what the server has against the field of that name. Other errors are shown below the fields. */
  children: ComponentChildren | ((errorOf: (field: string) => string | null) => ComponentChildren);
}

/** A dialog with one action: fields to fill in, or a question. */
export function FormDialog<Result>({ title, action, danger, wide, disabled, run, onDone, onClose, children }: FormDialogProps<Result>) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const id = useId();
  const act = async (event: Event) => {
    event.preventDefault();
    if (busy || disabled) return;
    setBusy(true);
    setProblem(null);
    try {
      onDone(await run());
    } catch (error) {
      setProblem(error);
    }
    setBusy(false);
  };
  const blamed = problem instanceof ApiError || problem instanceof FieldError ? problem.field : null;
  let isShown = problem === null;
  const errorOf = (field: string) => {
    if (problem === null || field !== blamed) return null;
    isShown = true;
    return errorText(problem);
  };
  const content = typeof children === 'function' ? children(errorOf) : children;
  return (
    <Dialog
      title={title}
      wide={wide}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Back</Button>
          <Button kind={danger ? 'danger' : 'primary'} type="submit" form={id} busy={busy} disabled={disabled}>
            {action}
          </Button>
        </>
      }
    >
      <form id={id} class="dialog-form" noValidate onSubmit={(event) => void act(event)}>
        {content}
        {!isShown && (
          <p class="field-error" role="alert">
            {errorText(problem)}
          </p>
        )}
      </form>
    </Dialog>
  );
}

/** What the page itself has against a field, before anything is sent. */
export class FieldError extends Error {
  constructor(
    readonly field: string,
    text: string,
  ) {
    super(text);
  }
}

export interface Question {
  title: string;
  /** What the action does and what cannot be undone. */
  text: ComponentChildren;
  action: string;
  danger?: boolean;
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
  if (!question) return null;
  const { text, answer, run, ...rest } = question;
  return (
    <FormDialog key={rest.title} {...rest} run={run ?? (async () => {})} onDone={() => answer(true)} onClose={() => answer(false)}>
      {text}
    </FormDialog>
  );
}
