/** Dependencies of a job as a graph: jobs that it needs to its left, jobs that need it to its right. */

import { useMemo, useRef } from 'preact/hooks';
import { api } from '../../api/client';
import type { JobEvent, JobStatus } from '../../api/types';
import { statusColour } from '../../components/Badge';
import { Panel } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { href } from '../../router';
import { useResource } from '../../state/resource';
import { NODE_HEIGHT, NODE_WIDTH, layout } from './graphLayout';
import type { Job } from '../../api/jobs';

interface GraphJob {
  job_id: number;
  name: string;
  user_id: string;
  status: JobStatus;
  held_by: string | null;
  needs_met: boolean;
}

interface Graph {
  jobs: GraphJob[];
  needs: { job_id: number; on_job_id: number | null; kind: string }[];
  cut: boolean;
}

const KINDS: Record<string, string> = {
  afterok: 'after it completed',
  afternotok: 'after it failed',
  afterany: 'after it ended',
  aftercorr: 'task by task, after it completed',
};

export function Dependencies({ job }: { job: Job }) {
  const known = useRef(new Set([job.job_id]));
  const graph = useResource((signal) => api.get<Graph>('/graph', { query: { ids: String(job.job_id) }, signal }), [job.job_id], {
    kinds: null,
    matters: (event) => known.current.has((event.data as JobEvent | null)?.job_id ?? 0),
    debounceMs: 2000,
  });
  known.current = new Set(graph.data?.jobs.map((one) => one.job_id) ?? [job.job_id]);
  const { data, error } = graph;
  const made = useMemo(
    () =>
      data &&
      layout(
        data.jobs.map((one) => one.job_id),
        data.needs.flatMap((need) => (need.on_job_id === null ? [] : [{ from: need.on_job_id, to: need.job_id, kind: need.kind }])),
      ),
    [data],
  );
  if (error !== null && !data) return <ErrorBox error={error} onRetry={graph.reload} />;
  if (!data || !made) return <Skeleton lines={6} />;
  const singleton = data.needs.some((need) => need.job_id === job.job_id && need.on_job_id === null);
  if (data.jobs.length < 2) {
    return (
      <Empty title="No dependencies" icon="timeline">
        {singleton ? 'It starts when no older job of the same user and name is live.' : 'No job waits for this one, and it waits for none.'}
      </Empty>
    );
  }
  const byId = new Map(data.jobs.map((one) => [one.job_id, one]));
  return (
    <Panel title={`Dependencies (${data.jobs.length} jobs)`} actions={data.cut && <span class="muted">Only a part is shown.</span>}>
      <div class="graph" tabIndex={0} role="group" aria-label="Dependency graph">
        <svg width={made.width} height={made.height} viewBox={`0 0 ${made.width} ${made.height}`}>
          <defs>
            <marker id="graph-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
              <path d="M0 0l8 4-8 4z" class="graph-arrow" />
            </marker>
          </defs>
          {made.edges.map((edge) => (
            <path key={`${edge.from} ${edge.to} ${edge.kind}`} d={edge.path} class={`graph-edge graph-${edge.kind}`} marker-end="url(#graph-arrow)">
              <title>{`Job ${edge.to} starts ${KINDS[edge.kind] ?? edge.kind}: job ${edge.from}`}</title>
            </path>
          ))}
          {made.nodes.map(({ id, x, y }) => {
            const one = byId.get(id);
            if (!one) return null;
            const label = `Job ${id} ${one.name}, ${one.status}`;
            return (
              <a key={id} href={href(`/jobs/${id}`, { tab: 'dependencies' })} aria-label={label} class="graph-link">
                <g transform={`translate(${x} ${y})`}>
                  <title>{label}</title>
                  <rect width={NODE_WIDTH} height={NODE_HEIGHT} rx="6" class={`graph-node ${id === job.job_id ? 'graph-this' : ''}`} />
                  <rect width="4" height={NODE_HEIGHT - 12} x="6" y="6" rx="2" style={{ fill: statusColour(one.status) }} />
                  <text x="18" y="19" class="graph-name">
                    {shorten(`${id} ${one.name}`, 22)}
                  </text>
                  <text x="18" y="36" class="graph-status">
                    {one.held_by ? 'held' : one.status} · {shorten(one.user_id, 12)}
                  </text>
                </g>
              </a>
            );
          })}
        </svg>
      </div>
    </Panel>
  );
}

function shorten(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
