/** Search field. `/` moves the focus to the first one of a page; Escape empties it. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from './Icon';

export interface SearchProps {
  value: string;
  /** Called after a short pause in typing, and at once on Enter. */
  onSearch: (value: string) => void;
  label: string;
  placeholder?: string;
  /** What is wrong with the text, such as a broken regular expression. */
  error?: string | null;
  pauseMs?: number;
}

export function Search({ value, onSearch, label, placeholder, error, pauseMs = 250 }: SearchProps) {
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const say = (next: string, ms: number) => {
    setText(next);
    clearTimeout(timer.current);
    if (ms === 0) onSearch(next);
    else timer.current = setTimeout(() => onSearch(next), ms);
  };
  return (
    <div class={`search ${error ? 'search-invalid' : ''}`}>
      <Icon name="search" />
      <input
        type="search"
        class="input"
        data-search
        value={text}
        aria-label={label}
        aria-invalid={error ? true : undefined}
        title={error ?? undefined}
        placeholder={placeholder ?? label}
        autoComplete="off"
        spellcheck={false}
        onInput={(event) => say(event.currentTarget.value, pauseMs)}
        onKeyDown={(event) => {
          if (event.key === 'Enter') say(event.currentTarget.value, 0);
          if (event.key === 'Escape') {
            if (text === '') event.currentTarget.blur();
            else say('', 0);
            event.stopPropagation();
          }
        }}
      />
      {error && (
        <p class="field-error" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}
