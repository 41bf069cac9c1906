/** GPU map: cards with labels for a few GPUs, a dense map that can be zoomed for many. */

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { IconButton } from '../../components/Button';
import { navigate } from '../../router';
import type { Cluster } from '../../state/overview';
import { theme } from '../../state/theme';
import { numbers } from '../../state/userColours';
import { draw } from './draw';
import { factsOf, type DeviceFacts } from './facts';
import { GpuCards } from './GpuCards';
import { WHOLE_VIEW, cellAt, clamped, hit, layoutMap, tileAt, zoomed, type MapLayout, type View } from './layout';

/** Up to this many GPUs are cards. */
export const MOST_CARDS = 64;
const HIGHEST = 660;

export function GpuMap({ cluster, user }: { cluster: Cluster; user: string | null }) {
  if (cluster.deviceCount <= MOST_CARDS) return <GpuCards cluster={cluster} user={user} />;
  return <DenseMap cluster={cluster} user={user} />;
}

function DenseMap({ cluster, user }: { cluster: Cluster; user: string | null }) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [view, setView] = useState<View>(WHOLE_VIEW);
  const [active, setActive] = useState<number | null>(null);
  const [byKeyboard, setByKeyboard] = useState(false);
  const layoutOf = useRef<{ key: unknown; width: number; layout: MapLayout } | null>(null);
  const drag = useRef<{ x: number; y: number; view: View; moved: boolean } | null>(null);

  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = () => setWidth(Math.floor(element.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  if (layoutOf.current?.key !== cluster.nodes || layoutOf.current.width !== width) {
    layoutOf.current = { key: cluster.nodes, width, layout: layoutMap(cluster.nodes.gpus, width, HIGHEST) };
  }
  const { layout } = layoutOf.current;
  const shownTheme = theme.value;
  const colours = numbers.value;

  useEffect(() => {
    if (!canvas.current || width === 0) return;
    const id = requestAnimationFrame(() => {
      if (!canvas.current) return;
      const began = performance.now();
      draw(canvas.current, { cluster, layout, view, theme: shownTheme, user, active });
      performance.measure('gpu-map', { start: began, detail: { devices: cluster.deviceCount } });
    });
    return () => cancelAnimationFrame(id);
  }, [cluster, layout, view, shownTheme, colours, user, active]);

  const zoom = (factor: number, x = layout.width / 2, y = layout.height / 2) =>
    setView((before) => zoomed(before, factor, x, y, layout));

  useEffect(() => {
    // Preact adds wheel listeners as passive ones, which cannot keep the page from scrolling.
    const element = canvas.current;
    if (!element) return;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
      event.preventDefault();
      const box = element.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 200), event.clientX - box.left, event.clientY - box.top);
    };
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  }, [layout]);

  const deviceAt = (event: PointerEvent | MouseEvent): number | null => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return null;
    const found = hit(layout, (event.clientX - box.left - view.dx) / view.scale, (event.clientY - box.top - view.dy) / view.scale);
    if (!found) return null;
    const row = layout.nodes[found.tile] ?? 0;
    const device = (cluster.firstDevice[row] ?? 0) + found.position;
    return device < (cluster.firstDevice[row + 1] ?? 0) ? device : null;
  };

  const open = (device: number | null) => {
    if (device !== null) navigate(`/nodes/${encodeURIComponent(cluster.nodes.name[cluster.nodeOf[device] ?? 0] ?? '')}`);
  };

  const show = (device: number) => {
    setActive(device);
    setByKeyboard(true);
    const box = boxOf(cluster, layout, view, device);
    if (!box) return;
    const dx = box.x < 0 ? -box.x : box.x > layout.width - box.size ? layout.width - box.size - box.x : 0;
    const dy = box.y < 0 ? -box.y : box.y > layout.height - box.size ? layout.height - box.size - box.y : 0;
    if (dx || dy) setView(clamped({ ...view, dx: view.dx + dx, dy: view.dy + dy }, layout));
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const at = active ?? 0;
    const row = cluster.nodeOf[at] ?? 0;
    const tile = layout.nodes.indexOf(row);
    const first = (of: number) => cluster.firstDevice[layout.nodes[Math.max(0, Math.min(layout.nodes.length - 1, of))] ?? 0] ?? 0;
    const go = {
      ArrowRight: at + 1,
      ArrowLeft: at - 1,
      ArrowDown: first(tile + layout.perRow),
      ArrowUp: first(tile - layout.perRow),
      Home: 0,
      End: cluster.deviceCount - 1,
    }[event.key];
    if (go !== undefined) show(active === null ? 0 : Math.max(0, Math.min(cluster.deviceCount - 1, go)));
    else if (event.key === 'Enter') open(active);
    else if (event.key === '+' || event.key === '=') zoom(1.5);
    else if (event.key === '-') zoom(1 / 1.5);
    else if (event.key === 'Escape') {
      setActive(null);
      setView(WHOLE_VIEW);
    } else return;
    event.preventDefault();
  };

  const facts = active === null || active >= cluster.deviceCount ? null : factsOf(cluster, active);
  const box = active === null ? null : boxOf(cluster, layout, view, active);
  return (
    <div class="gpu-map">
      <div class="gpu-map-frame" ref={frame}>
        <canvas
          ref={canvas}
          class="gpu-map-canvas"
          style={{ width: `${layout.width}px`, height: `${Math.max(1, layout.height)}px` }}
          tabIndex={0}
          role="application"
          aria-roledescription="map"
          aria-label={`Map of ${cluster.deviceCount} GPUs on ${layout.nodes.length} nodes. Arrow keys move, Enter opens the node.`}
          onKeyDown={onKeyDown}
          onBlur={() => setActive(null)}
          onPointerDown={(event) => {
            drag.current = { x: event.clientX, y: event.clientY, view, moved: false };
          }}
          onPointerMove={(event) => {
            const began = drag.current;
            if (began && view.scale > 1) {
              const [x, y] = [event.clientX - began.x, event.clientY - began.y];
              if (began.moved || Math.abs(x) + Math.abs(y) > 4) {
                began.moved = true;
                event.currentTarget.setPointerCapture(event.pointerId);
                setView(clamped({ ...began.view, dx: began.view.dx + x, dy: began.view.dy + y }, layout));
                return;
              }
            }
            setByKeyboard(false);
            setActive(deviceAt(event));
          }}
          onPointerUp={(event) => {
            const moved = drag.current?.moved;
            drag.current = null;
            if (!moved && event.button === 0) open(deviceAt(event));
          }}
          onPointerLeave={() => {
            drag.current = null;
            if (!byKeyboard) setActive(null);
          }}
        />
        {facts && box && <Tooltip facts={facts} box={box} width={layout.width} />}
        <div class="sr-only" aria-live="polite">
          {facts && byKeyboard && [facts.title, facts.holder, facts.job, facts.busy, facts.state].filter(Boolean).join(', ')}
        </div>
      </div>
      <div class="gpu-map-zoom">
        <IconButton label="Zoom in" icon="submit" size="small" onClick={() => zoom(1.5)} />
        <IconButton label="Zoom out" icon="minus" size="small" onClick={() => zoom(1 / 1.5)} disabled={view.scale === 1} />
        {view.scale > 1 && (
          <button type="button" class="button button-quiet button-small" onClick={() => setView(WHOLE_VIEW)}>
            Whole map
          </button>
        )}
      </div>
    </div>
  );
}

interface Box {
  x: number;
  y: number;
  size: number;
}

function boxOf(cluster: Cluster, layout: MapLayout, view: View, device: number): Box | null {
  const row = cluster.nodeOf[device];
  const tile = row === undefined ? -1 : layout.nodes.indexOf(row);
  if (row === undefined || tile < 0) return null;
  const at = tileAt(layout, tile);
  const cell = cellAt(layout, device - (cluster.firstDevice[row] ?? 0));
  return {
    x: (at.x + cell.x) * view.scale + view.dx,
    y: (at.y + cell.y) * view.scale + view.dy,
    size: layout.cell * view.scale,
  };
}

function Tooltip({ facts, box, width }: { facts: DeviceFacts; box: Box; width: number }) {
  const left = Math.max(0, Math.min(width - 220, box.x + box.size + 8));
  return (
    <div class="gpu-tip" style={{ left: `${left}px`, top: `${box.y + box.size + 8}px` }} aria-hidden="true">
      <b>{facts.title}</b>
      <span>
        {facts.holder}
        {facts.job && ` · ${facts.job}`}
      </span>
      <span class="muted">
        {facts.busy}
        {facts.model && ` · ${facts.model}`}
      </span>
      {facts.state && <span class="gpu-tip-state">{facts.state}</span>}
    </div>
  );
}
