/** Facts of a GPU in words: for cards, tooltips and screen readers. */

import { amount, percent } from '../../format';
import { href } from '../../router';
import { EXTERNAL, FREE, HIDDEN, RESERVED, UNHEALTHY, type Cluster } from '../../state/overview';

const STATES: Record<number, string> = {
  [UNHEALTHY]: 'Unhealthy',
  [EXTERNAL]: 'Used by an external process',
  [RESERVED]: 'Node is reserved',
};

export interface DeviceFacts {
  title: string;
  holder: string;
  job: string;
  busy: string;
  state: string;
  model: string;
}

/** What tooltip, cards and screen readers tell of a GPU. */
export function factsOf(cluster: Cluster, device: number): DeviceFacts {
  const row = cluster.nodeOf[device] ?? 0;
  const user = cluster.user[device] ?? FREE;
  const job = cluster.job[device] ?? 0;
  const busy = cluster.busy[device] ?? -1;
  const allocated = cluster.allocated[device] ?? 0;
  const part = user !== FREE && allocated < 1 ? ` (${amount(allocated)} of the GPU)` : '';
  const holder = user === FREE ? 'Free' : user === HIDDEN ? 'Another user' : (cluster.holder(device) ?? '');
  return {
    title: `${cluster.nodes.name[row]} · GPU ${cluster.deviceIndex[device]}`,
    holder: `${holder}${part}`,
    job: job > 0 ? `Job ${job}` : '',
    busy: busy < 0 ? 'not measured' : `${percent(busy / 100)} busy`,
    state: STATES[cluster.state[device] ?? 0] ?? '',
    model: cluster.models[cluster.deviceModel[device] ?? 0] ?? '',
  };
}

export function nodeHref(name: string): string {
  return href(`/nodes/${encodeURIComponent(name)}`);
}
