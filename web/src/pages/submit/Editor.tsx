/** Text of a job file, with line numbers, marks at lines with problems, and room to drop a file. */

import { useRef, useState } from 'preact/hooks';
import { Button } from '../../components/Button';
import { Icon } from '../../components/Icon';
import { toast } from '../../components/Toast';
import type { FileProblem } from './check';

const MOST_BYTES = 1 << 20;
const PLACEHOLDER = `# A job file of tgpu, a script with #SBATCH lines,
# or a Kubernetes Job. Paste it here, or drop a file.
name: train
command: python train.py
gpus: 1
time: 2h`;

export interface EditorProps {
  text: string;
  onInput: (text: string, name: string) => void;
  problems: readonly FileProblem[];
}

export function Editor({ text, onInput, problems }: EditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const count = Math.max(text.split('\n').length, 14);
  const byLine = new Map<number, string>();
  for (const problem of problems) if (problem.line && !byLine.has(problem.line)) byLine.set(problem.line, problem.text);

  const take = async (file: File | undefined) => {
    if (!file) return;
    if (file.size > MOST_BYTES) {
      toast(`${file.name} is larger than 1 MiB, the most that a job file may have.`, { tone: 'error' });
      return;
    }
    onInput(await file.text(), file.name);
  };

  const goTo = (line: number) => {
    const lines = text.split('\n');
    const begin = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    area.current?.focus();
    area.current?.setSelectionRange(begin, begin + (lines[line - 1]?.length ?? 0));
    const height = area.current ? area.current.scrollHeight / lines.length : 0;
    area.current?.scrollTo({ top: Math.max(0, (line - 4) * height) });
  };

  return (
    <div class="editor-box">
      <div
        class={`editor ${over ? 'editor-over' : ''} ${problems.length ? 'editor-wrong' : ''}`}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          void take(event.dataTransfer?.files[0]);
        }}
      >
        <div class="editor-gutter" ref={gutter} aria-hidden="true">
          {Array.from({ length: count }, (_, index) => (
            <div key={index} class={byLine.has(index + 1) ? 'editor-mark' : ''} title={byLine.get(index + 1)}>
              {index + 1}
            </div>
          ))}
        </div>
        <textarea
          ref={area}
          class="editor-text"
          aria-label="Job file"
          aria-invalid={problems.length > 0 || undefined}
          aria-describedby="editor-problems"
          spellcheck={false}
          autoCapitalize="off"
          wrap="off"
          rows={Math.min(count, 28)}
          placeholder={PLACEHOLDER}
          value={text}
          onInput={(event) => onInput(event.currentTarget.value, '')}
          onScroll={(event) => {
            if (gutter.current) gutter.current.scrollTop = event.currentTarget.scrollTop;
          }}
        />
        {over && <div class="editor-drop">Drop the file to read it</div>}
      </div>
      <div class="editor-tools">
        <Button size="small" icon="reports" onClick={() => chooser.current?.click()}>
          Choose a file
        </Button>
        <input
          ref={chooser}
          type="file"
          class="editor-file"
          aria-label="Job file to read"
          tabIndex={-1}
          onChange={(event) => {
            void take(event.currentTarget.files?.[0]);
            event.currentTarget.value = '';
          }}
        />
        {text && (
          <Button size="small" kind="quiet" onClick={() => onInput('', '')}>
            Clear
          </Button>
        )}
      </div>
      <ul class="editor-problems" id="editor-problems" aria-live="polite">
        {problems.map((problem, index) => (
          <li key={index}>
            <Icon name="error" />
            <span>
              {problem.line !== null && (
                <button type="button" class="link-button" onClick={() => goTo(problem.line ?? 1)}>
                  Line {problem.line}
                </button>
              )}
              {problem.line !== null ? ': ' : ''}
              {problem.text}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
