/** Fields of the form under the names of job files, and the same job as a file, as a command, or read from a job. */

/** Text of every field by its key in job files; an empty text leaves the field out. Switches are 'true' or ''. */
export type Values = Readonly<Record<string, string>>;

export interface FieldSpec {
  key: string;
  label: string;
  /** `lines`: a list with one entry per line; `pairs`: KEY=VALUE per line; `block`: text of several lines. */
  kind: 'text' | 'number' | 'choice' | 'switch' | 'lines' | 'pairs' | 'block';
  placeholder?: string;
  hint?: string;
  /** Takes the whole width of the form. */
  wide?: boolean;
}

export interface Group {
  title: string;
  fields: readonly FieldSpec[];
}

export const COMMON: readonly FieldSpec[] = [
  { key: 'command', label: 'Command', kind: 'block', placeholder: 'python train.py --lr 3e-4', hint: 'Run by the shell in your home directory, unless “Directory” says otherwise.', wide: true },
  { key: 'name', label: 'Name', kind: 'text', placeholder: 'train' },
  { key: 'time', label: 'Time limit', kind: 'text', placeholder: '2h', hint: 'Such as 90m, 2h or 1-12:00:00' },
  { key: 'gpus', label: 'GPUs', kind: 'number', placeholder: '0', hint: '0.25 is a quarter of one' },
  { key: 'gpu_type', label: 'GPU model', kind: 'text', placeholder: 'any' },
  { key: 'gpu_memory', label: 'GPU memory', kind: 'text', placeholder: 'any', hint: 'At least, of each GPU: 40G' },
  { key: 'cpus', label: 'CPUs', kind: 'number', placeholder: '1' },
  { key: 'memory', label: 'Memory', kind: 'text', placeholder: '16G' },
  { key: 'class', label: 'Priority class', kind: 'choice' },
  { key: 'tenant', label: 'Tenant', kind: 'text' },
];

export const GROUPS: readonly Group[] = [
  {
    title: 'Several tasks',
    fields: [
      { key: 'array', label: 'Array', kind: 'text', placeholder: '0-99%10', hint: 'One task for each index; 10 at once' },
      { key: 'nodes', label: 'Nodes', kind: 'number', hint: 'All start together' },
      { key: 'tasks', label: 'Tasks', kind: 'number', hint: 'In all; they start together' },
      { key: 'tasks_per_node', label: 'Tasks per node', kind: 'number' },
      { key: 'gpus_per_node', label: 'GPUs per node', kind: 'number' },
      { key: 'topology', label: 'Topology', kind: 'text', placeholder: 'rack', hint: 'A label with one value on all its nodes' },
      { key: 'retries', label: 'Retries', kind: 'number', placeholder: '0' },
      { key: 'max_failures', label: 'Most failed tasks', kind: 'number' },
    ],
  },
  {
    title: 'Environment and files',
    fields: [
      { key: 'cwd', label: 'Directory', kind: 'text', placeholder: 'your home directory', wide: true },
      { key: 'env', label: 'Variables', kind: 'pairs', placeholder: 'EPOCHS=10', hint: 'One KEY=VALUE per line' },
      { key: 'secrets', label: 'Secrets', kind: 'pairs', placeholder: 'WANDB_API_KEY=wandb', hint: 'One VARIABLE=NAME of a secret per line' },
      { key: 'output', label: 'Output file', kind: 'text', placeholder: 'logs/%j.txt' },
      { key: 'error', label: 'Error file', kind: 'text', placeholder: 'as the output file' },
    ],
  },
  {
    title: 'Container',
    fields: [
      { key: 'image', label: 'Image', kind: 'text', placeholder: 'pytorch/pytorch:2.5.1', wide: true },
      { key: 'mounts', label: 'Mounts', kind: 'lines', placeholder: '/data:/data:ro', hint: 'One SOURCE:TARGET per line', wide: true },
      { key: 'shm_size', label: 'Shared memory', kind: 'text', placeholder: '64M' },
      { key: 'pull', label: 'Pull the image', kind: 'choice' },
    ],
  },
  {
    title: 'Nodes',
    fields: [
      { key: 'pool', label: 'Pool', kind: 'text', placeholder: 'any' },
      { key: 'disk', label: 'Disk', kind: 'text', placeholder: '10G' },
      { key: 'node_rules', label: 'Labels', kind: 'lines', placeholder: 'zone in (a, b)', hint: 'One rule per line' },
      { key: 'tolerations', label: 'Tolerated taints', kind: 'lines', placeholder: 'spot', hint: 'One per line' },
      { key: 'generic', label: 'Named resources', kind: 'pairs', placeholder: 'licence=2', hint: 'One NAME=NUMBER per line' },
      { key: 'exclusive', label: 'A whole node for this job', kind: 'switch' },
    ],
  },
  {
    title: 'Start and dependencies',
    fields: [
      { key: 'after', label: 'After jobs', kind: 'lines', placeholder: '41 or afterany:41', hint: 'One per line; a bare number: once it has completed' },
      { key: 'begin', label: 'Not before', kind: 'text', placeholder: '16:00, now+1hour or 2026-01-20T12:34' },
      { key: 'deadline', label: 'Deadline', kind: 'text', placeholder: 'tomorrow 08:00' },
      { key: 'max_wait', label: 'Longest wait', kind: 'text', placeholder: '1d', hint: 'Fails if it has not started by then' },
      { key: 'priority', label: 'Priority', kind: 'number', placeholder: '0', hint: 'Within its class; higher first' },
      { key: 'hold', label: 'Submit on hold', kind: 'switch' },
    ],
  },
  {
    title: 'Stopping',
    fields: [
      { key: 'grace', label: 'Grace', kind: 'text', placeholder: '30s', hint: 'From the stop signal to SIGKILL' },
      { key: 'stop_signal', label: 'Stop signal', kind: 'text', placeholder: 'TERM' },
      { key: 'signal', label: 'Warning signal', kind: 'text', placeholder: 'USR1@120', hint: 'Before the time limit' },
      { key: 'requeue_on_timeout', label: 'Queue it again at its time limit', kind: 'switch' },
    ],
  },
];

export const ALL: readonly FieldSpec[] = [...COMMON, ...GROUPS.flatMap((group) => group.fields)];

const BY_KEY = new Map(ALL.map((field) => [field.key, field]));
const NUMBER = /^(0|[1-9]\d*)(\.\d*[1-9])?$/;
/** Text that YAML reads as that text without quotation marks. */
const PLAIN = /^[A-Za-z_./%+@~][\w./%+@,:=-]*[\w./%+@,=-]?$|^\d+[\w./%+@,:-]*[\w./%+@,-]$/;
const WORDS = /^(true|false|null|yes|no|on|off|y|n|~)$/i;

function scalar(text: string): string {
  if (NUMBER.test(text)) return text;
  return PLAIN.test(text) && !WORDS.test(text) ? text : JSON.stringify(text);
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
}

function pairs(text: string): [string, string][] | null {
  const found = lines(text).map((line): [string, string] | null => {
    const at = line.indexOf('=');
    return at < 1 ? null : [line.slice(0, at).trim(), line.slice(at + 1)];
  });
  const whole = found.filter((pair) => pair !== null);
  const distinct = new Set(whole.map(([key]) => key));
  return whole.length === found.length && distinct.size === whole.length ? whole : null;
}

function block(text: string): string {
  const body = text.replace(/\s+$/, '');
  if (!body.includes('\n') && !/^\s|\t/.test(body)) return ` ${scalar(body)}`;
  if (/^[ \t]|[^\S \t\n]/.test(body)) return ` ${JSON.stringify(text)}`;
  return ` |\n${body.split('\n').map((line) => (line ? `  ${line}` : '')).join('\n')}`;
}

function written({ key, kind }: FieldSpec, text: string): string {
  switch (kind) {
    case 'switch':
      return `${key}: true`;
    case 'block':
      return `${key}:${block(text)}`;
    case 'lines':
      return [`${key}:`, ...lines(text).map((line) => `  - ${scalar(line)}`)].join('\n');
    case 'pairs': {
      const found = pairs(text);
      // What is no pair is left to the server to complain about, in its own words.
      if (!found) return [`${key}:`, ...lines(text).map((line) => `  - ${JSON.stringify(line)}`)].join('\n');
      return [`${key}:`, ...found.map(([name, value]) => `  ${scalar(name)}: ${scalar(value)}`)].join('\n');
    }
    default:
      return `${key}: ${scalar(text.trim())}`;
  }
}

function given(values: Values): [FieldSpec, string][] {
  return ALL.map((field): [FieldSpec, string] => [field, values[field.key] ?? '']).filter(([, text]) => text.trim() !== '');
}

/** The job as a job file. */
export function toYaml(values: Values): string {
  const found = given(values);
  return found.length ? `${found.map(([field, text]) => written(field, text)).join('\n')}\n` : '';
}

const FLAGS: Record<string, string> = {
  tasks: 'ntasks',
  tasks_per_node: 'ntasks-per-node',
  node_rules: 'where',
  tolerations: 'tolerate',
  generic: 'resource',
  mounts: 'mount',
  secrets: 'secret',
};

const SAFE_WORD = /^[\w@%+=:,./-]+$/;

export function shellQuote(text: string): string {
  return SAFE_WORD.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The same job as a command for a shell. */
export function toCommand(values: Values): string {
  const words = ['tgpu submit'];
  for (const [{ key, kind }, text] of given(values)) {
    if (key === 'command') continue;
    const flag = `--${FLAGS[key] ?? key.replaceAll('_', '-')}`;
    if (kind === 'switch') words.push(flag);
    else if (kind === 'lines' || kind === 'pairs') words.push(...lines(text).map((line) => `${flag} ${shellQuote(line)}`));
    else words.push(`${flag} ${shellQuote(text.trim())}`);
  }
  const command = (values.command ?? '').trim();
  if (command) {
    const simple = command.split(/\s+/);
    const isSimple = !command.includes('\n') && simple.every((word) => SAFE_WORD.test(word) && !word.includes('='));
    words.push(`-- ${isSimple ? simple.join(' ') : shellQuote(command)}`);
  }
  return words.join(' ');
}

/** Seconds as people write them: 2h, 90m, 45s. */
export function durationText(seconds: number): string {
  for (const [unit, size] of [['d', 86400], ['h', 3600], ['m', 60]] as const) {
    if (seconds >= size && seconds % size === 0) return `${seconds / size}${unit}`;
  }
  return `${seconds}s`;
}

export function sizeText(mebibytes: number): string {
  return mebibytes % 1024 === 0 ? `${mebibytes / 1024}G` : `${mebibytes}M`;
}

/** A value of the API as text of the form. */
export function fieldText(name: string, value: unknown): string {
  if (value === null || value === undefined || value === false) return '';
  if (typeof value === 'number' && name.endsWith('_mb')) return sizeText(value);
  if (typeof value === 'number' && name.endsWith('_s')) return durationText(value);
  if (Array.isArray(value)) return value.map(String).join(name === 'command' ? ' ' : '\n');
  if (typeof value === 'object') {
    return Object.entries(value)
      .map(([key, item]) => `${key}=${String(item).replace(/^store:/, '')}`)
      .join('\n');
  }
  return String(value);
}

/** What is known of a field from GET /job-fields. */
export interface JobField {
  name: string;
  key: string;
  text: string;
  choices: string[];
  default: unknown;
}

const MASK = /^\*+$/;

/** The form for a job like this one, as GET /jobs/ID shows it. What the server fills in by default is left out. */
export function fromJob(job: Readonly<Record<string, unknown>>, fields: readonly JobField[]): Values {
  const values: Record<string, string> = {};
  for (const { name, key, default: usual } of fields) {
    const value = job[name];
    if (!BY_KEY.has(key) || value === 0 || JSON.stringify(value) === JSON.stringify(usual)) continue;
    if (name === 'command' && Array.isArray(value)) {
      values[key] = value.map((word) => shellQuote(String(word))).join(' ');
      continue;
    }
    const text = fieldText(name, value);
    if (text) values[key] = text;
  }
  if (values.env) values.env = lines(values.env).filter((line) => !MASK.test(line.slice(line.indexOf('=') + 1))).join('\n');
  delete values.begin;
  delete values.deadline;
  return values;
}

/** A sentence of the server with the names of its fields as the form, or a job file, calls them. */
export function inOwnWords(text: string, fields: readonly JobField[], isForm: boolean): string {
  return text.replace(/\b[a-z]+(?:_[a-z]+)+\b/g, (word) => {
    const key = fields.find((field) => field.name === word)?.key ?? word;
    return (isForm && BY_KEY.get(key)?.label) || key;
  });
}
