/** Form fields: a label, the control, a hint, and the error that the server or the page found. */

import type { ComponentChildren, TextareaHTMLAttributes } from 'preact';
import { useId } from 'preact/hooks';

interface Labelled {
  label: ComponentChildren;
  hint?: ComponentChildren;
  error?: string | null;
}

interface FieldProps extends Labelled {
  /** Draws the control with these attributes, which tie it to label, hint and error. */
  children: (ids: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: boolean }) => ComponentChildren;
}

export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ');
  return (
    <div class="field">
      <label class="field-label" for={id}>
        {label}
      </label>
      {children({ id, 'aria-describedby': described || undefined, 'aria-invalid': error ? true : undefined })}
      {hint && (
        <p class="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error && (
        <p class="field-error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

export interface InputProps extends Labelled {
  value: string;
  onInput: (value: string) => void;
  type?: 'text' | 'number' | 'password' | 'email' | 'url' | 'date' | 'datetime-local';
  name?: string;
  placeholder?: string;
  disabled?: boolean;
  required?: boolean;
  min?: number | string;
  max?: number | string;
  step?: number | string;
  maxLength?: number;
  list?: string;
  spellcheck?: boolean;
  autoFocus?: boolean;
  onBlur?: () => void;
  onKeyDown?: (event: KeyboardEvent) => void;
}

export function Input({ label, hint, error, value, onInput, type = 'text', ...rest }: InputProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <input
          autoComplete="off"
          {...rest}
          {...ids}
          type={type as 'text'}
          class="input"
          value={value}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export interface TextAreaProps extends Labelled, Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, 'label' | 'onInput' | 'value'> {
  value: string;
  onInput: (value: string) => void;
  mono?: boolean;
}

export function TextArea({ label, hint, error, value, onInput, mono, ...rest }: TextAreaProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <textarea
          spellcheck={!mono}
          {...rest}
          {...ids}
          class={`input ${mono ? 'mono' : ''}`}
          value={value}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export interface SelectProps extends Labelled {
  value: string;
  options: readonly (string | { value: string; label: string; disabled?: boolean })[];
  onChange: (value: string) => void;
  name?: string;
  disabled?: boolean;
  /** Shows no label; it still names the control. */
  compact?: boolean;
}

export function Select({ label, hint, error, value, options, onChange, compact, ...rest }: SelectProps) {
  const control = (ids: object) => (
    <select {...rest} {...ids} class="input select" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {options.map((option) => {
        const one = typeof option === 'string' ? { value: option, label: option } : option;
        return (
          <option key={one.value} value={one.value} disabled={one.disabled} selected={one.value === value}>
            {one.label}
          </option>
        );
      })}
    </select>
  );
  if (compact) return control({ 'aria-label': String(label) });
  return (
    <Field label={label} hint={hint} error={error}>
      {control}
    </Field>
  );
}

export interface CheckboxProps extends Omit<Labelled, 'error'> {
  checked: boolean;
  onChange: (checked: boolean) => void;
  disabled?: boolean;
}

export function Checkbox({ label, hint, checked, onChange, disabled }: CheckboxProps) {
  const id = useId();
  return (
    <div class="checkbox">
      <input
        type="checkbox"
        id={id}
        checked={checked}
        disabled={disabled}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      {hint && (
        <p class="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

/** A few choices side by side, one of them chosen. */
export function Segments<Value extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: Value;
  options: readonly { value: Value; label: ComponentChildren }[];
  onChange: (value: Value) => void;
}) {
  const name = useId();
  return (
    <div role="radiogroup" aria-label={label} class="segments">
      {options.map((option) => (
        <label key={option.value} class="segment">
          <input type="radio" name={name} checked={option.value === value} onChange={() => onChange(option.value)} />
          <span>{option.label}</span>
        </label>
      ))}
    </div>
  );
}
