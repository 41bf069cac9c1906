/** Actions on the selected jobs: asked about with their consequences, and reported on job by job. */

import { useState } from 'preact/hooks';
import { Button } from '../../components/Button';
import { Dialog, FormDialog } from '../../components/Dialog';
import { toast, toastError } from '../../components/Toast';
import { count, number } from '../../format';
import { href } from '../../router';
import { runBulk, type BulkVerb, type Outcome } from './bulk';
import type { JobRow } from '../../api/jobs';
import { isPlaceholder, type Slot } from './window';

const VERBS: { verb: BulkVerb; label: string; done: string; danger?: boolean; icon: 'stop' | 'pause' | 'play' | 'refresh' }[] = [
  { verb: 'hold', label: 'Hold', done: 'held', icon: 'pause' },
  { verb: 'release', label: 'Release', done: 'released', icon: 'play' },
  { verb: 'retry', label: 'Retry', done: 'retried', icon: 'refresh' },
  { verb: 'cancel', label: 'Cancel', done: 'being cancelled', icon: 'stop', danger: true },
];

export interface BulkBarProps {
  selected: ReadonlySet<number>;
  rows: readonly Slot<JobRow>[];
  total: number;
  onSelectAll: () => Promise<void>;
  onClear: () => void;
  onDone: () => void;
}

export function BulkBar({ selected, rows, total, onSelectAll, onClear, onDone }: BulkBarProps) {
  const [asked, setAsked] = useState<(typeof VERBS)[number] | null>(null);
  const [outcome, setOutcome] = useState<{ label: string; done: string; result: Outcome } | null>(null);
  const [selecting, setSelecting] = useState(false);
  const known = rows.filter((row): row is JobRow => !isPlaceholder(row) && selected.has(row.job_id));
  const unknown = selected.size - known.length;
  const can = (verb: BulkVerb) => known.filter((row) => row.actions?.includes(verb));
  const offered = VERBS.filter(({ verb }) => unknown > 0 || can(verb).length > 0);
  return (
    <>
      <div class="bulk-bar" role="toolbar" aria-label="Actions on selected jobs">
        <span>
          <b>{number(selected.size)}</b> selected
        </span>
        {selected.size < total && (
          <Button
            size="small"
            kind="quiet"
            busy={selecting}
            onClick={() => {
              setSelecting(true);
              onSelectAll()
                .catch(toastError)
                .finally(() => setSelecting(false));
            }}
          >
            {total > 10_000 ? 'Select the first 10,000 that match' : `Select all ${number(total)} that match`}
          </Button>
        )}
        <span class="spacer" />
        {offered.map((one) => (
          <Button key={one.verb} size="small" kind={one.danger ? 'danger' : 'plain'} icon={one.icon} onClick={() => setAsked(one)}>
            {one.label}
          </Button>
        ))}
        {offered.length === 0 && <span class="muted">No action is possible on these jobs.</span>}
        <Button size="small" kind="quiet" icon="close" onClick={onClear}>
          Clear
        </Button>
      </div>
      {asked && (
        <AskDialog
          {...asked}
          ids={[...selected]}
          known={known}
          possible={can(asked.verb)}
          onClose={() => setAsked(null)}
          onDone={(result) => {
            setAsked(null);
            onDone();
            if (result.refused.length === 0 && result.replaced.length === 0) {
              toast(`${count(result.done.length, 'job')} ${asked.done}.`);
              onClear();
            } else setOutcome({ label: asked.label, done: asked.done, result });
          }}
        />
      )}
      {outcome && (
        <OutcomeDialog
          {...outcome}
          onClose={() => {
            setOutcome(null);
            onClear();
          }}
        />
      )}
    </>
  );
}

function AskDialog({
  verb,
  label,
  danger,
  ids,
  known,
  possible,
  onClose,
  onDone,
}: {
  verb: BulkVerb;
  label: string;
  danger?: boolean;
  ids: number[];
  known: JobRow[];
  possible: JobRow[];
  onClose: () => void;
  onDone: (outcome: Outcome) => void;
}) {
  const [done, setDone] = useState(0);
  const jobs = count(ids.length, 'job');
  return (
    <FormDialog
      title={`${label} ${jobs}?`}
      action={done > 0 ? `${number(done)} of ${number(ids.length)}` : `${label} ${jobs}`}
      danger={danger}
      run={() => runBulk(verb, ids, setDone)}
      onDone={onDone}
      onClose={onClose}
    >
      <ul class="bulk-facts">
        {consequences(verb, known, possible, ids.length).map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </FormDialog>
  );
}

function consequences(verb: BulkVerb, known: readonly JobRow[], possible: readonly JobRow[], all: number): string[] {
  const lines: string[] = [];
  const running = possible.filter((row) => row.status === 'running' || row.status === 'scheduled').length;
  const refused = known.length - possible.length;
  if (verb === 'cancel') {
    if (running) lines.push(`${count(running, 'running job')} will be stopped: SIGTERM, a grace period, then SIGKILL. Work that is not saved is lost.`);
    if (possible.length - running) lines.push(`${count(possible.length - running, 'pending job')} will not start.`);
    lines.push('This cannot be undone. A cancelled job can be retried as a new job.');
  } else if (verb === 'hold') {
    lines.push('Pending jobs will not start until they are released. Running tasks go on.');
  } else if (verb === 'release') {
    lines.push('The jobs may start again as soon as there is room.');
  } else {
    const over = possible.length - running;
    if (over) lines.push(`${count(over, 'ended job')} will be submitted again as ${over === 1 ? 'a new job' : 'new jobs'}.`);
    if (running) lines.push(`${count(running, 'running job')} will be stopped and started again.`);
  }
  if (refused) lines.push(`${count(refused, 'selected job')} cannot be changed in this way and will be left as ${refused === 1 ? 'it is' : 'they are'}.`);
  if (all > known.length) lines.push(`${count(all - known.length, 'job')} outside the loaded rows will be judged by the server one by one.`);
  return lines;
}

function OutcomeDialog({ label, done, result, onClose }: { label: string; done: string; result: Outcome; onClose: () => void }) {
  const MOST = 200;
  return (
    <Dialog title={`${label}: outcome`} onClose={onClose} wide actions={<Button kind="primary" onClick={onClose}>Close</Button>}>
      <p>
        <b>{count(result.done.length, 'job')}</b> {done}
        {result.refused.length > 0 && (
          <>
            , <b>{count(result.refused.length, 'job')}</b> left unchanged
          </>
        )}
        .
      </p>
      {result.refused.length + result.replaced.length > 0 && (
        <div class="bulk-outcome">
          <table class="plain-table">
            <thead>
              <tr>
                <th>Job</th>
                <th>Outcome</th>
              </tr>
            </thead>
            <tbody>
              {result.replaced.slice(0, MOST).map(({ job_id, new_job_id }) => (
                <tr key={job_id}>
                  <td>{job_id}</td>
                  <td>
                    Submitted again as <a href={href(`/jobs/${new_job_id}`)}>job {new_job_id}</a>
                  </td>
                </tr>
              ))}
              {result.refused.slice(0, MOST).map(({ job_id, detail }) => (
                <tr key={job_id}>
                  <td>
                    <a href={href(`/jobs/${job_id}`)}>{job_id}</a>
                  </td>
                  <td>{detail}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {Math.max(result.refused.length, result.replaced.length) > MOST && <p class="muted">Only the first {MOST} are shown.</p>}
    </Dialog>
  );
}
