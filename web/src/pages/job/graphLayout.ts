/** Layered layout of a dependency graph: dependencies stand to the left of the jobs that need them. */

export interface Edge {
  from: number;
  to: number;
  kind: string;
}

export interface Placed {
  id: number;
  x: number;
  y: number;
}

export interface Layout {
  nodes: Placed[];
  edges: (Edge & { path: string })[];
  width: number;
  height: number;
}

export const NODE_WIDTH = 172;
export const NODE_HEIGHT = 46;
const GAP_X = 56;
const GAP_Y = 14;
const MARGIN = 8;
const SWEEPS = 4;

/** `ids` in the order in which jobs of a layer stand unless edges say otherwise. Edges that close a cycle are drawn, but move nothing. */
export function layout(ids: readonly number[], edges: readonly Edge[]): Layout {
  const layers = layersOf(ids, edges);
  sortLayers(layers, edges);
  const tallest = Math.max(0, ...layers.map((layer) => layer.length));
  const height = Math.max(1, tallest) * (NODE_HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN;
  const places = new Map<number, Placed>();
  layers.forEach((layer, column) => {
    const top = (height - layer.length * (NODE_HEIGHT + GAP_Y) + GAP_Y) / 2;
    layer.forEach((id, row) => places.set(id, { id, x: MARGIN + column * (NODE_WIDTH + GAP_X), y: top + row * (NODE_HEIGHT + GAP_Y) }));
  });
  return {
    nodes: [...places.values()],
    edges: edges.flatMap((edge) => {
      const [from, to] = [places.get(edge.from), places.get(edge.to)];
      return from && to ? [{ ...edge, path: curve(from, to) }] : [];
    }),
    width: layers.length * (NODE_WIDTH + GAP_X) - GAP_X + 2 * MARGIN,
    height,
  };
}

/** The layer of a job is the length of the longest chain of dependencies before it. */
function layersOf(ids: readonly number[], edges: readonly Edge[]): number[][] {
  const known = new Set(ids);
  const after = new Map<number, number[]>();
  const waiting = new Map<number, number>(ids.map((id) => [id, 0]));
  for (const { from, to } of edges) {
    if (!known.has(from) || !known.has(to) || from === to) continue;
    after.set(from, [...(after.get(from) ?? []), to]);
    waiting.set(to, (waiting.get(to) ?? 0) + 1);
  }
  const layer = new Map<number, number>();
  let ready = ids.filter((id) => waiting.get(id) === 0);
  const left = new Set(ids);
  while (left.size > 0) {
    // Of a cycle the first job begins.
    if (ready.length === 0) ready = [[...left][0] as number];
    const next: number[] = [];
    for (const id of ready) {
      if (!left.delete(id)) continue;
      const at = layer.get(id) ?? 0;
      layer.set(id, at);
      for (const to of after.get(id) ?? []) {
        if (!left.has(to)) continue;
        layer.set(to, Math.max(layer.get(to) ?? 0, at + 1));
        const many = (waiting.get(to) ?? 1) - 1;
        waiting.set(to, many);
        if (many === 0) next.push(to);
      }
    }
    ready = next;
  }
  const layers: number[][] = [];
  for (const id of ids) (layers[layer.get(id) ?? 0] ??= []).push(id);
  return Array.from(layers, (one) => one ?? []);
}

/** Moves each job to the middle of its neighbours in the layer before, then in the layer behind. */
function sortLayers(layers: number[][], edges: readonly Edge[]): void {
  const before = new Map<number, number[]>();
  const behind = new Map<number, number[]>();
  for (const { from, to } of edges) {
    before.set(to, [...(before.get(to) ?? []), from]);
    behind.set(from, [...(behind.get(from) ?? []), to]);
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forward = sweep % 2 === 0;
    const order = forward ? layers.slice(1) : layers.slice(0, -1).reverse();
    for (const layer of order) {
      const place = new Map<number, number>();
      for (const other of layers) other.forEach((id, row) => place.set(id, row));
      const middle = (id: number, row: number) => {
        const near = ((forward ? before : behind).get(id) ?? []).flatMap((one) => place.get(one) ?? []);
        return near.length ? near.reduce((sum, one) => sum + one, 0) / near.length : row;
      };
      const keyed = layer.map((id, row) => ({ id, key: middle(id, row), row }));
      keyed.sort((one, other) => one.key - other.key || one.row - other.row);
      keyed.forEach(({ id }, row) => (layer[row] = id));
    }
  }
}

function curve(from: Placed, to: Placed): string {
  const [x1, y1] = [from.x + NODE_WIDTH, from.y + NODE_HEIGHT / 2];
  const [x2, y2] = [to.x, to.y + NODE_HEIGHT / 2];
  const bend = Math.max(24, Math.abs(x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
