/** Text in a fixed-width font, with a button that copies it. It is always drawn as text. */

import { useState } from 'preact/hooks';
import { IconButton } from './Button';
import { toast } from './Toast';

export function Code({ text, wrap = true, label = 'Copy' }: { text: string; wrap?: boolean; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      toast('The browser did not allow to copy. Select the text and copy it by hand.', { tone: 'error' });
    }
  };
  return (
    <div class="code">
      <pre class={wrap ? 'code-wrap' : ''} tabIndex={0}>
        <code>{text}</code>
      </pre>
      <IconButton label={copied ? 'Copied' : label} icon={copied ? 'check' : 'copy'} size="small" onClick={() => void copy()} />
    </div>
  );
}

/** A sentence in which commands stand between backticks. */
export function Prose({ text }: { text: string }) {
  return <>{text.split('`').map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}
