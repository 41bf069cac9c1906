/** Settings of the server: value, source and description. They are changed in the server's own files. */

import { api } from '../../api/client';
import { Badge } from '../../components/Badge';
import { Checkbox } from '../../components/Field';
import { Search } from '../../components/Search';
import { Empty, ErrorBox, Skeleton } from '../../components/States';
import { count } from '../../format';
import { useQueryParam } from '../../router';
import { useResource } from '../../state/resource';
import type { Setting } from './types';

const isDefault = (setting: Setting) => /default/i.test(setting.source);

function written(value: unknown): string {
  if (value === null || value === undefined || value === '') return '–';
  if (Array.isArray(value)) return value.length === 0 ? '–' : value.map(written).join(', ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

export function Settings() {
  const { data, error, reload } = useResource((signal) => api.get<{ settings: Setting[] }>('/settings', { signal }), []);
  const [search, setSearch] = useQueryParam('search');
  const [changed, setChanged] = useQueryParam('changed');
  if (!data) return error ? <ErrorBox error={error} onRetry={reload} /> : <Skeleton lines={8} height="28px" />;
  const text = search.toLowerCase();
  const rows = data.settings.filter(
    (one) => (changed !== '1' || !isDefault(one)) && `${one.name} ${one.doc} ${written(one.value)}`.toLowerCase().includes(text),
  );
  return (
    <div class="stack">
      <div class="row">
        <Search value={search} onSearch={setSearch} label="Search settings" />
        <Checkbox label="Only changed ones" checked={changed === '1'} onChange={(on) => setChanged(on ? '1' : '')} />
        <span class="spacer" />
        <span class="muted">{count(rows.length, 'setting')}</span>
      </div>
      {rows.length === 0 ? (
        <Empty title="No setting matches" icon="search" />
      ) : (
        <dl class="settings panel">
          {rows.map((one) => (
            <div key={one.name} class="setting">
              <dt>
                <code>{one.name}</code>
                {!isDefault(one) && <Badge tone="accent">{one.source}</Badge>}
              </dt>
              <dd>
                <code class="setting-value">{written(one.value)}</code>
                <p class="muted">{one.doc}</p>
              </dd>
            </div>
          ))}
        </dl>
      )}
      <p class="muted">Settings are read when the server starts, from its TOML file, the environment and the command line. Secrets are masked.</p>
    </div>
  );
}
