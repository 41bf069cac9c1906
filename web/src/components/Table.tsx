/** Table for 100,000 rows: only the visible ones are in the document. Sorting and selection belong to the page.
 *
 * Keys: arrows, Page Up and Down, Home and End move; Enter opens; Space selects; Shift extends; Ctrl+A selects all.
 */

import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from '@tanstack/virtual-core';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { navigate } from '../router';
import { Icon } from './Icon';

export interface Column<Row> {
  id: string;
  label: ComponentChildren;
  cell: (row: Row) => ComponentChildren;
  /** Text of the title of the cell, if it may be cut off. */
  title?: (row: Row) => string;
  /** Width of a CSS grid column: '80px', 'minmax(120px, 2fr)'; equal shares unless given. */
  width?: string;
  align?: 'left' | 'right';
  sortable?: boolean;
  /** Hidden on narrow screens. */
  wide?: boolean;
}

export interface Sort {
  column: string;
  descending: boolean;
}

export interface TableProps<Row> {
  /** Name of the table, for screen readers. */
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string | number;
  sort?: Sort | null;
  onSort?: (sort: Sort) => void;
  /** Keys of the selected rows. With `onSelect`, rows have checkboxes. */
  selected?: ReadonlySet<string | number>;
  onSelect?: (selected: Set<string | number>) => void;
  /** Name of a row for its checkbox: "job 42". */
  rowLabel?: (row: Row) => string;
  /** Address of the page of a row: a click or Enter goes there. */
  rowHref?: (row: Row) => string;
  rowClass?: (row: Row) => string;
  /** Called when the last rows come into view, to load more. */
  onEnd?: () => void;
  /** Called with the first and the last row in view, to load them. */
  onRange?: (first: number, last: number) => void;
  /** How many rows there are on the server, if more than `rows`. */
  total?: number;
  empty?: ComponentChildren;
  /** Height of the scrolling part; as high as its content up to 70 % of the window unless given. */
  height?: string;
}

const OVERSCAN = 12;
const ROW_HEIGHT = 34;
const TALL_ROW_HEIGHT = 40;
const narrow = matchMedia('(max-width: 760px)');

function useVirtualRows(count: number, rowHeight: number) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useState({});
  const options = {
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: OVERSCAN,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => redraw({}),
  };
  const [virtualizer] = useState(() => new Virtualizer<HTMLDivElement, Element>(options));
  virtualizer.setOptions(options);
  useLayoutEffect(() => virtualizer._didMount(), []);
  useLayoutEffect(() => virtualizer._willUpdate());
  useLayoutEffect(() => virtualizer.measure(), [rowHeight]);
  return { scroller, virtualizer };
}

function useNarrow(): boolean {
  const [value, set] = useState(narrow.matches);
  useEffect(() => {
    const changed = () => set(narrow.matches);
    narrow.addEventListener('change', changed);
    return () => narrow.removeEventListener('change', changed);
  }, []);
  return value;
}

export function Table<Row>(props: TableProps<Row>) {
  const { label, rows, rowKey, sort, onSort, selected, onSelect, rowHref, onEnd, height } = props;
  const isNarrow = useNarrow();
  const rowHeight = isNarrow ? TALL_ROW_HEIGHT : ROW_HEIGHT;
  const { scroller, virtualizer } = useVirtualRows(rows.length, rowHeight);
  const [active, setActive] = useState(0);
  const anchor = useRef(0);
  const base = useId();
  const columns = isNarrow ? props.columns.filter((column) => !column.wide) : props.columns;
  const current = Math.min(active, rows.length - 1);
  const items = virtualizer.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;

  useEffect(() => {
    if (rows.length > 0 && last >= rows.length - 1) onEnd?.();
  }, [last, rows.length]);

  const first = items[0]?.index ?? 0;
  useEffect(() => {
    if (last >= 0) props.onRange?.(first, last);
  }, [first, last, rows]);

  const grid = [
    onSelect ? '36px' : '',
    ...columns.map(({ width = 'minmax(80px, 1fr)' }) => (isNarrow ? width.replace(/minmax\(\d+px/, 'minmax(0') : width)),
  ]
    .filter(Boolean)
    .join(' ');

  const selectRange = (from: number, to: number, keep: boolean) => {
    const next = new Set(keep ? selected : []);
    for (const row of rows.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(rowKey(row));
    onSelect?.(next);
  };

  const toggle = (index: number) => {
    const row = rows[index];
    if (row === undefined) return;
    const next = new Set(selected);
    if (!next.delete(rowKey(row))) next.add(rowKey(row));
    anchor.current = index;
    onSelect?.(next);
  };

  const check = (index: number, shift: boolean) => {
    setActive(index);
    if (shift) selectRange(anchor.current, index, true);
    else toggle(index);
  };

  const moveTo = (index: number, shift: boolean) => {
    const to = Math.max(0, Math.min(rows.length - 1, index));
    setActive(to);
    virtualizer.scrollToIndex(to, { align: 'auto' });
    if (shift && onSelect) selectRange(anchor.current, to, false);
    else anchor.current = to;
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget || rows.length === 0) return;
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 400) / rowHeight) - 2);
    const go = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: rows.length - 1,
    }[event.key];
    const row = rows[current];
    if (go !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) moveTo(go, event.shiftKey);
    else if (event.key === 'Enter' && row !== undefined && rowHref) navigate(rowHref(row));
    else if (event.key === ' ' && onSelect) check(current, event.shiftKey);
    else if (event.key === 'a' && (event.ctrlKey || event.metaKey) && onSelect) selectRange(0, rows.length - 1, false);
    else if (event.key === 'Escape' && onSelect && selected?.size) onSelect(new Set());
    else return;
    event.preventDefault();
  };

  const allSelected = rows.length > 0 && rows.every((row) => selected?.has(rowKey(row)));
  return (
    <div
      class="table"
      ref={scroller}
      role="grid"
      aria-label={label}
      aria-rowcount={(props.total ?? rows.length) + 1}
      aria-colcount={columns.length + (onSelect ? 1 : 0)}
      aria-multiselectable={onSelect ? true : undefined}
      aria-activedescendant={items.some((item) => item.index === current) ? `${base}-${current}` : undefined}
      tabIndex={0}
      style={{ '--columns': grid, ...(height ? { height, maxHeight: 'none' } : {}) }}
      onKeyDown={onKeyDown}
    >
      <div role="rowgroup" class="table-head">
        <div role="row" aria-rowindex={1} class="table-row">
          {onSelect && (
            <div role="columnheader" class="table-cell">
              <input
                type="checkbox"
                aria-label="Select all rows"
                checked={allSelected}
                indeterminate={!allSelected && Boolean(selected?.size)}
                onChange={() => (allSelected ? onSelect(new Set()) : selectRange(0, rows.length - 1, false))}
              />
            </div>
          )}
          {columns.map((column) => (
            <Head key={column.id} column={column} sort={sort} onSort={onSort} />
          ))}
        </div>
      </div>
      <div role="rowgroup" class="table-rows" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {items.map((item) => {
          const row = rows[item.index];
          if (row === undefined) return null;
          const key = rowKey(row);
          const isSelected = selected?.has(key) ?? false;
          return (
            <div
              key={key}
              id={`${base}-${item.index}`}
              role="row"
              aria-rowindex={item.index + 2}
              aria-selected={onSelect ? isSelected : undefined}
              class={`table-row ${item.index === current ? 'table-active' : ''} ${rowHref ? 'table-link' : ''} ${props.rowClass?.(row) ?? ''}`}
              style={{ transform: `translateY(${item.start}px)` }}
              onClick={(event) => {
                if (isControl(event.target)) return;
                if (onSelect && (event.shiftKey || event.ctrlKey || event.metaKey)) {
                  event.preventDefault();
                  return check(item.index, event.shiftKey);
                }
                setActive(item.index);
                if (rowHref && !getSelection()?.toString()) navigate(rowHref(row));
              }}
            >
              {onSelect && (
                <div role="gridcell" class="table-cell table-check">
                  <input
                    type="checkbox"
                    tabIndex={-1}
                    aria-label={`Select ${props.rowLabel?.(row) ?? `row ${item.index + 1}`}`}
                    checked={isSelected}
                    onClick={(event) => {
                      event.preventDefault();
                      const { shiftKey } = event;
                      // The browser restores the box after this handler: the page's state is drawn afterwards.
                      setTimeout(() => check(item.index, shiftKey));
                    }}
                  />
                </div>
              )}
              {columns.map((column) => (
                <div
                  key={column.id}
                  role="gridcell"
                  class={`table-cell ${column.align === 'right' ? 'table-right' : ''}`}
                  title={column.title?.(row)}
                >
                  {column.cell(row)}
                </div>
              ))}
            </div>
          );
        })}
      </div>
      {rows.length === 0 && props.empty}
    </div>
  );
}

function Head<Row>({ column, sort, onSort }: { column: Column<Row>; sort?: Sort | null; onSort?: (sort: Sort) => void }) {
  const sorted = sort?.column === column.id ? sort : null;
  const direction = sorted ? (sorted.descending ? 'descending' : 'ascending') : 'none';
  const align = column.align === 'right' ? 'table-right' : '';
  if (!column.sortable || !onSort) {
    return (
      <div role="columnheader" class={`table-cell ${align}`}>
        {column.label}
      </div>
    );
  }
  return (
    <div role="columnheader" aria-sort={direction} class={`table-cell ${align}`}>
      <button
        type="button"
        class="table-sort"
        onClick={() => onSort({ column: column.id, descending: sorted ? !sorted.descending : false })}
      >
        {column.label}
        {sorted && <Icon name={sorted.descending ? 'down' : 'up'} size={12} />}
      </button>
    </div>
  );
}

function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('a, button, input, label, select') !== null;
}
