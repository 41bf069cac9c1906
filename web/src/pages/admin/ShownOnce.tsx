/** Dialog that shows a new token once, to be copied. */

import type { ComponentChildren } from 'preact';
import { Button } from '../../components/Button';
import { Code } from '../../components/Code';
import { Dialog } from '../../components/Dialog';

interface ShownOnceProps {
  /** What it is: "join token". */
  name: string;
  /** Where to keep it. */
  text: string;
  secret: string;
  onClose: () => void;
  children: ComponentChildren;
}

export function ShownOnce({ name, text, secret, onClose, children }: ShownOnceProps) {
  return (
    <Dialog
      title={`Copy the ${name} now`}
      onClose={onClose}
      actions={
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <p>It is not shown again. {text}</p>
      <Code text={secret} label={`Copy ${name}`} />
      {children}
    </Dialog>
  );
}
