/** Icons of 16 × 16, drawn in the current colour. They are hidden from screen readers: the text beside them says it. */

const PATHS = {
  overview: 'M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z',
  jobs: 'M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.01M2.5 8h.01M2.5 12h.01',
  nodes: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01M8 5h3M8 11h3',
  queues: 'M2.5 13.5v-5M6.2 13.5v-8M9.8 13.5v-3.5M13.5 13.5v-11',
  timeline: 'M2.5 4h5M6 8h6.5M4 12h5M2.5 2v12',
  reports: 'M3.5 1.8h6l3 3v9.4h-9zM9.5 1.8v3h3M6 8h4M6 11h4',
  submit: 'M8 3v10M3 8h10',
  admin: 'M8 1.8l5 2v4c0 3.2-2.2 5.4-5 6.4-2.800-1-5-3.200-5-6.400v-4zM6 8l1.500 1.500 2.800-3',
  minus: 'M3 8h10',
  menu: 'M2.500 4.500h11M2.500 8h11M2.500 11.500h11',
  close: 'M4 4l8 8M12 4l-8 8',
  check: 'M3.500 8.500l3 3 6-7',
  down: 'M4.500 6.500L8 10l3.500-3.500',
  right: 'M6.500 4.500L10 8l-3.500 3.500',
  left: 'M9.500 4.500L6 8l3.500 3.500',
  up: 'M4.500 9.500L8 6l3.500 3.500',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.700 10.700L14 14',
  copy: 'M5.500 5.500v-3h8v8h-3M2.500 5.500h8v8h-8z',
  sun: 'M8 10.800a2.800 2.800 0 1 0 0-5.600 2.800 2.800 0 0 0 0 5.600zM8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M12.600 3.400l-.9.9M4.300 11.700l-.9.9',
  moon: 'M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7z',
  screen: 'M2 3h12v8H2zM6 14h4M8 11v3',
  user: 'M8 8.200a2.700 2.700 0 1 0 0-5.400 2.700 2.700 0 0 0 0 5.400zM2.800 14c.5-2.600 2.600-4 5.200-4s4.700 1.400 5.200 4',
  more: 'M3.500 8h.01M8 8h.01M12.500 8h.01',
  warning: 'M8 2.200L14.300 13.300H1.700zM8 6.500v3.200M8 11.600h.01',
  info: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.300v3.700M8 5h.01',
  error: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.800v4M8 11h.01',
  external: 'M6 3.500H3v9.500h9.500V10M9 2.500h4.500V7M13.200 2.800L7.500 8.500',
  download: 'M8 2.500v8M4.500 7.500L8 11l3.500-3.500M2.500 13.500h11',
  refresh: 'M13.500 8A5.500 5.500 0 1 1 11.600 3.800M13.500 1.800v3.200h-3.200',
  play: 'M5 3l8 5-8 5z',
  pause: 'M5.500 3v10M10.500 3v10',
  stop: 'M4 4h8v8H4z',
  clock: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.800V8l2.200 1.500',
  terminal: 'M2 3h12v10H2zM4.500 6l2 2-2 2M8 10.500h3.500',
  keyboard: 'M1.500 4h13v8h-13zM4 6.500h.01M6.700 6.500h.01M9.300 6.500h.01M12 6.500h.01M4.500 9.500h7',
  filter: 'M2 3.500h12L9.500 8.700v4.300l-3-1.500V8.700z',
  columns: 'M2.500 2.500h11v11h-11zM6.200 2.500v11M9.800 2.500v11',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
