/** Usage of a task over time against its request, and advice for the next request. */

import { ApiError, api } from '../../api/client';
import { Chart, type Series } from '../../components/Chart';
import { KeyValue } from '../../components/KeyValue';
import { Panel } from '../../components/Page';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { amount, duration, mebibytes, percent } from '../../format';
import { useQueryParam } from '../../router';
import { useResource } from '../../state/resource';
import { useEffect } from 'preact/hooks';
import { isOver, type Job, type Usage } from '../../api/jobs';

const REFRESH_MS = 5000;

export function UsagePanel({ job }: { job: Job }) {
  const [task] = useQueryParam('task', '');
  const usage = useResource(
    (signal) => api.get<Usage>(`/jobs/${job.job_id}/use`, { query: { task: job.tasks > 1 ? task : null }, signal }),
    [job.job_id, task, job.status],
  );
  const isLive = !isOver(job);
  useEffect(() => {
    if (!isLive) return;
    const timer = setInterval(() => !document.hidden && usage.reload(), REFRESH_MS);
    return () => clearInterval(timer);
  }, [isLive]);
  const { data, error } = usage;
  if (error instanceof ApiError && error.status === 404 && !data) {
    return (
      <Empty title="Nothing was measured" icon="overview">
        Usage is measured while a task runs, every few seconds. A task that ends within a second has none, and it is removed together with the log.
      </Empty>
    );
  }
  if (error !== null && !data) return <ErrorBox error={error} onRetry={usage.reload} />;
  if (!data) return <Skeleton lines={8} />;
  return (
    <div class="stack">
      {(job.advice ?? []).length > 0 && (
        <Panel title="Advice for the next run">
          <ul class="why-reasons">
            {job.advice?.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </Panel>
      )}
      <Charts job={job} usage={data} />
    </div>
  );
}

function Charts({ job, usage }: { job: Job; usage: Usage }) {
  const seconds = usage.columns['seconds'] ?? [];
  const start = Date.parse(usage.started_at) / 1000;
  const times: number[] = [];
  let at = start;
  for (const length of seconds) times.push((at += length ?? 0));
  const column = (name: string) => usage.columns[name] ?? null;
  const line = (value: number | null, label: string): Series[] =>
    value ? [{ label, values: times.map(() => value), colour: '--text-3', dashed: true }] : [];
  const mean = (name: string, label: string): Series[] => {
    const [values, peaks] = [column(name), column(`${name}_peak`)];
    return values ? [{ label, values, fill: true }, ...(peaks ? [{ label: `${label}, peak`, values: peaks, colour: '--chart-2' }] : [])] : [];
  };
  const charts: { title: string; series: Series[]; format: (value: number) => string; max?: number }[] = [
    { title: 'CPU', series: [...mean('cpu', 'CPUs'), ...line(job.cpu_request, 'Requested'), ...line(job.cpu_limit === job.cpu_request ? null : job.cpu_limit, 'Limit')], format: amount },
    {
      title: 'Memory',
      series: [...mean('memory_mb', 'Memory'), ...line(job.mem_request_mb, 'Requested'), ...line(job.mem_limit_mb === job.mem_request_mb ? null : job.mem_limit_mb, 'Limit')],
      format: mebibytes,
    },
    { title: 'GPU utilization', series: mean('gpu_percent', 'GPU'), format: (value) => percent(value / 100), max: 100 },
    { title: 'GPU memory', series: [...mean('gpu_memory_mb', 'GPU memory'), ...line(job.gpu_memory_mb, 'Requested')], format: mebibytes },
    {
      title: 'Disk, per second',
      series: ['disk_read_mb', 'disk_written_mb'].flatMap((name) => rate(column(name), seconds, name === 'disk_read_mb' ? 'Read' : 'Written')),
      format: mebibytes,
    },
    {
      title: 'Network, per second',
      series: ['net_received_mb', 'net_sent_mb'].flatMap((name) => rate(column(name), seconds, name === 'net_received_mb' ? 'Received' : 'Sent')),
      format: mebibytes,
    },
  ];
  const known = charts.filter(({ series }) => series.some((one) => !one.dashed && one.values.some((value) => value !== null)));
  return (
    <>
      <KeyValue
        columns
        pairs={[
          ['Attempt', usage.attempt_id],
          ['Node', usage.node_id],
          ['CPU time', duration(usage.cpu_time_s)],
          usage.gpu_busy_s !== null && ['GPU busy', duration(usage.gpu_busy_s)],
          usage.throttled_percent !== null && ['CPU throttled', `${usage.throttled_percent} % of the time`],
        ]}
      />
      {known.length === 0 && <Empty title="No measurement yet" icon="overview">The first one comes a few seconds after the start.</Empty>}
      <div class="usage-charts">
        {known.map(({ title, series, format, max }) => (
          <Panel key={title} title={title}>
            <Chart label={`${title} of job ${job.job_id}`} times={times} series={series} format={format} max={max} min={0} />
          </Panel>
        ))}
      </div>
    </>
  );
}

function rate(values: readonly (number | null)[] | null, seconds: readonly (number | null)[], label: string): Series[] {
  if (!values) return [];
  return [{ label, values: values.map((value, index) => (value === null || !seconds[index] ? null : value / (seconds[index] ?? 1))) }];
}
