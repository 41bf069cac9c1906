/** Rows and blocks of the timeline: nodes with their devices below them, and where each block is drawn. */

import type { KeptWindow, Timeline, TimelineNode } from './types';

export const NODE_HEIGHT = 30;
export const DEVICE_HEIGHT = 22;

export interface Block {
  kind: 'ran' | 'runs' | 'starts' | 'reservation' | 'claim';
  job_id: number;
  label: string;
  user: string;
  name: string;
  node_id: string;
  devices: readonly number[];
  from: number;
  /** Of a running attempt: now, or its time limit. */
  until: number;
  /** Until when it surely holds its devices; the rest of a running attempt is only an estimate. */
  certain: number;
  failed: boolean;
  cause: string | null;
  gpus: number;
  /** Among blocks of the same device at the same time: its place, and how many there are. */
  lane: number;
  lanes: number;
}

export interface NodeData {
  node: TimelineNode;
  blocks: Block[];
  windows: KeptWindow[];
  /** Sums in place of blocks, if there are too many: share of the GPUs (or of attempts) by part of the window. */
  load: { from: number; until: number; share: number; attempts: number }[];
}

export interface Row {
  node_id: string;
  /** null: the row of the node itself; -1: tasks without a GPU. */
  device: number | null;
  label: string;
  y: number;
  height: number;
}

/** Nodes of an answer with their blocks. `now`: server time. */
export function nodesOf(answer: Timeline, now: number): NodeData[] {
  const byNode = new Map<string, NodeData>(
    answer.nodes.map((node) => [node.node_id, { node, blocks: [], windows: [], load: [] }]),
  );
  for (const one of answer.attempts) {
    const from = Date.parse(one.since);
    const ended = one.ended_at === null ? null : Date.parse(one.ended_at);
    const limit = one.ends_by === null ? now : Math.max(now, Date.parse(one.ends_by));
    byNode.get(one.node_id)?.blocks.push({
      kind: ended !== null ? 'ran' : one.status === 'assigned' ? 'starts' : 'runs',
      job_id: one.job_id,
      label: one.attempt_id,
      user: one.user_id,
      name: one.name,
      node_id: one.node_id,
      devices: one.devices,
      from,
      until: ended ?? limit,
      certain: ended ?? now,
      failed: one.failed === true,
      cause: one.cause,
      gpus: one.gpu,
      lane: 0,
      lanes: 1,
    });
  }
  for (const one of answer.planned) {
    byNode.get(one.node_id)?.blocks.push({
      kind: one.kind,
      job_id: one.job_id,
      label: `${one.job_id}.${one.task_index}`,
      user: one.user_id,
      name: one.name,
      node_id: one.node_id,
      devices: one.devices,
      from: Date.parse(one.starts_by),
      until: Date.parse(one.ends_by),
      certain: Date.parse(one.starts_by),
      failed: false,
      cause: null,
      gpus: one.devices.length,
      lane: 0,
      lanes: 1,
    });
  }
  for (const kept of answer.windows) for (const name of kept.nodes) byNode.get(name)?.windows.push(kept);
  const since = Date.parse(answer.since);
  for (const { node_id, bins } of answer.load) {
    const found = byNode.get(node_id);
    if (!found) continue;
    const gpus = found.node.devices.length;
    found.load = bins.map(([at, attempts, gpu_s]) => ({
      from: since + at * answer.bin_s * 1000,
      until: since + (at + 1) * answer.bin_s * 1000,
      share: gpus > 0 ? Math.min(1, gpu_s / (gpus * answer.bin_s)) : 1,
      attempts,
    }));
  }
  for (const data of byNode.values()) layLanes(data.blocks);
  return [...byNode.values()];
}

/** Gives blocks that overlap on a device different lanes. A block with several devices has one lane on all of them. */
export function layLanes(blocks: Block[]): void {
  blocks.sort((one, other) => one.from - other.from || other.until - one.until || one.job_id - other.job_id);
  const ends = new Map<number, number[]>();
  const groups = new Map<number, { until: number; blocks: Block[]; lanes: number }>();
  for (const block of blocks) {
    const devices = block.devices.length > 0 ? block.devices : [-1];
    let lane = 0;
    // A limit that lies ahead is an estimate: what starts then does not run beside it.
    const taken = (device: number, at: number) => (ends.get(device)?.[at] ?? -Infinity) > block.from;
    while (devices.some((device) => taken(device, lane))) lane += 1;
    block.lane = lane;
    for (const device of devices) {
      const lanes = ends.get(device) ?? [];
      lanes[lane] = block.kind === 'reservation' || block.kind === 'claim' ? block.until : block.certain;
      ends.set(device, lanes);
      const group = groups.get(device);
      if (group && group.until > block.from) {
        group.until = Math.max(group.until, block.until);
        group.blocks.push(block);
        group.lanes = Math.max(group.lanes, lane + 1);
      } else {
        if (group) settle(group);
        groups.set(device, { until: block.until, blocks: [block], lanes: lane + 1 });
      }
    }
  }
  for (const group of groups.values()) settle(group);
}

function settle(group: { blocks: Block[]; lanes: number }): void {
  for (const block of group.blocks) block.lanes = Math.max(block.lanes, group.lanes);
}

/** All rows from the top. `open`: nodes whose devices are shown. */
export function rowsOf(nodes: readonly NodeData[], open: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  let y = 0;
  const add = (node_id: string, device: number | null, label: string, height: number) => {
    rows.push({ node_id, device, label, y, height });
    y += height;
  };
  for (const { node, blocks } of nodes) {
    add(node.node_id, null, node.node_id, NODE_HEIGHT);
    if (!open.has(node.node_id)) continue;
    for (const device of node.devices) add(node.node_id, device.index, `GPU ${device.index}`, DEVICE_HEIGHT);
    if (node.devices.length === 0 || blocks.some((block) => block.devices.length === 0)) {
      add(node.node_id, -1, 'No GPU', DEVICE_HEIGHT);
    }
  }
  return rows;
}

export function heightOf(rows: readonly Row[]): number {
  const last = rows.at(-1);
  return last ? last.y + last.height : 0;
}

/** The rows between two heights, found by bisection. */
export function visibleRows(rows: readonly Row[], top: number, bottom: number): readonly Row[] {
  return rows.slice(firstBelow(rows, top), firstBelow(rows, bottom) + 1);
}

function firstBelow(rows: readonly Row[], y: number): number {
  let low = 0;
  let high = rows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    const row = rows[middle];
    if (row && row.y + row.height <= y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Where a block is drawn in a row: top and height within the row; null if it is not there. */
export function placeIn(block: Block, row: Row, node: TimelineNode): { top: number; height: number }[] {
  const gap = 3;
  if (row.device !== null) {
    const isHere = row.device === -1 ? block.devices.length === 0 : block.devices.includes(row.device);
    if (!isHere) return [];
    const height = (row.height - gap * 2) / block.lanes;
    return [{ top: gap + height * block.lane, height: Math.max(1, height - (block.lanes > 1 ? 1 : 0)) }];
  }
  // The node's own row has a strip for each device; tasks without a GPU are below them.
  const withoutGpu = node.devices.length === 0 ? 1 : 0;
  const strips = Math.max(1, node.devices.length + withoutGpu);
  const strip = (row.height - gap * 2) / strips;
  const places: { top: number; height: number }[] = [];
  const indices =
    block.devices.length > 0
      ? block.devices.map((device) => node.devices.findIndex((one) => one.index === device)).filter((at) => at >= 0)
      : withoutGpu
        ? [0]
        : [];
  for (const at of [...indices].sort((one, other) => one - other)) {
    const before = places.at(-1);
    const top = gap + strip * at;
    if (before && Math.abs(before.top + before.height - top) < 0.01) before.height += strip;
    else places.push({ top, height: strip });
  }
  return places;
}
