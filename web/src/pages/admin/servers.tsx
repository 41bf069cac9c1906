/** Servers of the cluster: leader, versions and health; the store that they share. */

import { useEffect } from 'preact/hooks';
import { api } from '../../api/client';
import { Badge } from '../../components/Badge';
import { KeyValue } from '../../components/KeyValue';
import { Panel } from '../../components/Page';
import { ErrorBox, Skeleton } from '../../components/States';
import { Table, type Column } from '../../components/Table';
import { Duration, Time } from '../../components/Time';
import { count } from '../../format';
import { useResource } from '../../state/resource';
import type { Cluster } from './types';

const AGAIN_MS = 5000;
const SILENT_S = 10;
const OFF_S = 1;

type Server = Cluster['servers'][number];

export function Servers() {
  const { data, error, reload } = useResource((signal) => api.get<Cluster>('/cluster', { signal }), []);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || reload(), AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  if (!data) return error ? <ErrorBox error={error} onRetry={reload} /> : <Skeleton lines={4} height="28px" />;
  const versions = new Set(data.servers.map((server) => server.version));
  const settings = new Set(data.servers.map((server) => server.settings));
  const columns: Column<Server>[] = [
    { id: 'url', label: 'Server', width: 'minmax(170px, 2fr)', cell: (row) => row.url || row.server_id, title: (row) => `${row.url} (${row.server_id})` },
    { id: 'role', label: 'Role', cell: (row) => (row.leads ? <Badge tone="accent">leader</Badge> : 'standby') },
    { id: 'health', label: 'Health', cell: (row) => (row.heard_s > SILENT_S ? <Badge tone="amber">silent for {Math.round(row.heard_s)} s</Badge> : <Badge tone="green">healthy</Badge>) },
    { id: 'version', label: 'Version', wide: true, cell: (row) => row.version },
    { id: 'started', label: 'Up for', wide: true, cell: (row) => <Duration from={row.started_at} />, title: (row) => row.started_at },
    { id: 'settings', label: 'Settings', wide: true, cell: (row) => <code>{row.settings.slice(0, 8)}</code>, title: () => 'Digest of the settings that all servers must share' },
  ];
  return (
    <div class="stack">
      {error ? <ErrorBox error={error} onRetry={reload} /> : null}
      {data.servers.length > 0 && !data.servers.some((server) => server.leads) && (
        <p class="notice" role="status">
          No server leads now. A new leader is chosen within seconds; until then no job is started.
        </p>
      )}
      {versions.size > 1 && <p class="notice" role="status">The servers have {count(versions.size, 'version')}: finish the upgrade.</p>}
      {settings.size > 1 && <p class="notice" role="status">The settings of the servers differ where they must be the same.</p>}
      <Table label="Servers" rows={data.servers} columns={columns} rowKey={(row) => row.server_id} />
      <Panel title="Store">
        <KeyValue
          columns
          pairs={[
            ['Database', data.store.program],
            ['Tables', data.store.revision === data.store.known_revision ? `revision ${data.store.revision}` : `revision ${data.store.revision}, this server knows ${data.store.known_revision}`],
            ['Clock', Math.abs(data.store.clock_ahead_s) < OFF_S ? 'agrees with this server' : `${data.store.clock_ahead_s} s ahead of this server`],
            ['Cluster', <code>{data.cluster_id}</code>],
          ]}
        />
      </Panel>
      <p class="muted">
        Checked <Time at={Date.now()} kind="short" />, and again every {AGAIN_MS / 1000} seconds.
      </p>
    </div>
  );
}
