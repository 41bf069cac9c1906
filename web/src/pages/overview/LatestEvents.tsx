/** The latest job events, the newest first. */

import { useEffect, useState } from 'preact/hooks';
import { api } from '../../api/client';
import { RESYNC, subscribe } from '../../api/events';
import type { JobEvent } from '../../api/types';
import { Panel } from '../../components/Page';
import { ErrorBox, Skeleton } from '../../components/States';
import { Time } from '../../components/Time';
import { User } from '../../components/User';
import { href } from '../../router';

const MOST = 12;

export function LatestEvents() {
  const [events, setEvents] = useState<readonly JobEvent[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const load = () => {
    setError(null);
    api
      .get<{ events: JobEvent[] }>('/events/recent', { query: { limit: MOST } })
      .then((answer) => setEvents((known) => merged(known ?? [], answer.events)))
      .catch(setError);
  };
  useEffect(() => {
    load();
    return subscribe(null, (event) => {
      if (event.kind === RESYNC) load();
      else if (event.kind !== 'overview') setEvents((known) => merged(known ?? [], [event.data as JobEvent]));
    });
  }, []);
  return (
    <Panel title="Latest events">
      {error ? <ErrorBox error={error} onRetry={load} /> : null}
      {!events && !error && <Skeleton lines={4} />}
      {events?.length === 0 && <p class="muted">Nothing has happened yet.</p>}
      <ul class="event-list">
        {events?.map((event) => (
          <li key={event.seq}>
            <a href={href(`/jobs/${event.job_id}`)}>
              Job {event.job_id}
              {event.task_index !== null && event.task_index > 0 && `.${event.task_index}`}
            </a>{' '}
            <span>{event.kind.replaceAll('-', ' ').replaceAll('_', ' ')}</span>
            <User name={event.user_id} />
            <span class="muted event-time">
              <Time at={event.at} />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** By their numbers, each once, the newest first. */
export function merged(known: readonly JobEvent[], more: readonly JobEvent[]): JobEvent[] {
  const bySeq = new Map([...known, ...more].map((event) => [event.seq, event]));
  return [...bySeq.values()].sort((one, other) => other.seq - one.seq).slice(0, MOST);
}
