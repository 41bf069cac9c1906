/** The form: common fields first, others in groups that open by themselves when something in them is set or wrong. */

import { useId } from 'preact/hooks';
import { Checkbox, Input, Select, TextArea } from '../../components/Field';
import { COMMON, GROUPS, type FieldSpec, type Group, type JobField, type Values } from './fields';

export interface FormProps {
  values: Values;
  onChange: (key: string, text: string) => void;
  /** Sentences of the server by the key of the field to blame. */
  errors: Readonly<Record<string, string>>;
  fields: readonly JobField[];
  /** Values to suggest, by key. */
  suggestions: Readonly<Record<string, readonly string[]>>;
  /** Of fields whose usual value depends on the user, by key. */
  placeholders: Readonly<Record<string, string>>;
}

export function Form({ values, onChange, errors, fields, suggestions, placeholders }: FormProps) {
  const known = new Map(fields.map((field) => [field.key, field]));
  const one = (spec: FieldSpec) => (
    <div key={spec.key} class={`submit-field ${spec.wide ? 'wide' : ''}`} data-field={spec.key}>
      <Control
        spec={spec.key in placeholders ? { ...spec, placeholder: placeholders[spec.key] } : spec}
        field={known.get(spec.key)}
        text={values[spec.key] ?? ''}
        onInput={(text) => onChange(spec.key, text)}
        error={errors[spec.key] ?? null}
        suggestions={suggestions[spec.key] ?? []}
      />
    </div>
  );
  return (
    <form class="submit-form" onSubmit={(event) => event.preventDefault()} aria-label="Job">
      <div class="submit-grid">{COMMON.map(one)}</div>
      {GROUPS.map((group) => (
        <FieldGroup key={group.title} group={group} values={values} errors={errors}>
          {one}
        </FieldGroup>
      ))}
    </form>
  );
}

function FieldGroup({
  group,
  values,
  errors,
  children,
}: {
  group: Group;
  values: Values;
  errors: Readonly<Record<string, string>>;
  children: (spec: FieldSpec) => preact.ComponentChildren;
}) {
  const set = group.fields.filter(({ key }) => (values[key] ?? '').trim() !== '');
  const wrong = group.fields.some(({ key }) => errors[key]);
  return (
    <details class="submit-group" open={wrong || undefined}>
      <summary>
        <span class="submit-group-title">{group.title}</span>
        <span class="submit-group-set">{set.length ? set.map((field) => field.label).join(', ') : ''}</span>
      </summary>
      <div class="submit-grid">{group.fields.map(children)}</div>
    </details>
  );
}

interface ControlProps {
  spec: FieldSpec;
  field: JobField | undefined;
  text: string;
  onInput: (text: string) => void;
  error: string | null;
  suggestions: readonly string[];
}

function Control({ spec, field, text, onInput, error, suggestions }: ControlProps) {
  const list = useId();
  const label = field?.text ? <span title={field.text}>{spec.label}</span> : spec.label;
  const common = { label, hint: spec.hint, error };
  switch (spec.kind) {
    case 'switch':
      return <Checkbox label={label} hint={spec.hint} checked={text === 'true'} onChange={(on) => onInput(on ? 'true' : '')} />;
    case 'choice':
      return (
        <Select
          {...common}
          value={text}
          options={[{ value: '', label: spec.key === 'class' ? 'tenant’s default' : 'usual' }, ...(field?.choices ?? []).map((value) => ({ value, label: value }))]}
          onChange={onInput}
        />
      );
    case 'block':
    case 'lines':
    case 'pairs':
      return (
        <TextArea
          {...common}
          mono
          rows={spec.kind === 'block' ? Math.min(14, Math.max(3, text.split('\n').length + 1)) : Math.min(8, Math.max(2, text.split('\n').length))}
          placeholder={spec.placeholder}
          value={text}
          onInput={onInput}
        />
      );
    default:
      return (
        <>
          <Input
            {...common}
            value={text}
            onInput={onInput}
            placeholder={spec.placeholder}
            spellcheck={false}
            list={suggestions.length ? list : undefined}
          />
          {suggestions.length > 0 && (
            <datalist id={list}>
              {suggestions.map((value) => (
                <option key={value} value={value} />
              ))}
            </datalist>
          )}
        </>
      );
  }
}
