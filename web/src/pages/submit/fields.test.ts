import { describe, expect, it } from 'vitest';
import { ALL, fromJob, inOwnWords, shellQuote, toCommand, toYaml, type JobField } from './fields';

const field = (name: string, key = name, usual: unknown = null): JobField => ({ name, key, text: '', choices: [], default: usual });

describe('toYaml', () => {
  it('writes each kind of field', () => {
    const text = toYaml({
      command: 'python train.py',
      gpus: '2',
      memory: '16G',
      array: '0-9%2',
      exclusive: 'true',
      env: 'A=1\nB=two words',
      tolerations: 'spot\n*',
      begin: '16:00',
    });
    expect(text).toBe(
      [
        'command: "python train.py"',
        'gpus: 2',
        'memory: 16G',
        'array: 0-9%2',
        'env:',
        '  A: 1',
        '  B: "two words"',
        'tolerations:',
        '  - spot',
        '  - "*"',
        'exclusive: true',
        'begin: 16:00',
        '',
      ].join('\n'),
    );
  });

  it('keeps several lines of a command as a block', () => {
    expect(toYaml({ command: 'set -e\n\nmake\n' })).toBe('command: |\n  set -e\n\n  make\n');
  });

  it.each(['yes', 'null', '# x', 'a: b', '- x', '{a}', '"', 'x #y', '*a', '&a', '!t', '1e3', "it's"])(
    'quotes %j, which YAML would read otherwise or not at all',
    (text) => expect(['name: 1e3\n', `name: ${JSON.stringify(text)}\n`]).toContain(toYaml({ name: text })),
  );

  it('leaves what is no pair for the server to complain about', () => {
    expect(toYaml({ env: 'A' })).toBe('env:\n  - "A"\n');
  });

  it('leaves empty fields out', () => expect(toYaml({ name: ' ', gpus: '' })).toBe(''));
});

describe('toCommand', () => {
  it('spells flags as the command line does', () => {
    const values = { command: 'python train.py', gpus: '1', node_rules: 'zone in (a,b)\nssd', tasks: '2', exclusive: 'true' };
    expect(toCommand(values)).toBe(
      "tgpu submit --gpus 1 --ntasks 2 --where 'zone in (a,b)' --where ssd --exclusive -- python train.py",
    );
  });

  it('quotes what a shell would read', () => {
    expect(toCommand({ command: "echo $HOME | wc 'x'" })).toBe(`tgpu submit -- 'echo $HOME | wc '\\''x'\\'''`);
    expect(shellQuote('')).toBe("''");
  });
});

describe('fromJob', () => {
  const fields = [
    field('command'),
    field('gpu_request', 'gpus', 0),
    field('mem_request_mb', 'memory'),
    field('time_limit_s', 'time'),
    field('env', 'env', {}),
    field('secret_env', 'secrets', {}),
    field('begin_at', 'begin'),
    field('exclusive', 'exclusive', false),
    field('pool'),
  ];

  it('fills the form from a job', () => {
    const job = {
      command: ['python', 'a b.py'],
      gpu_request: 2,
      mem_request_mb: 16384,
      time_limit_s: 5400,
      env: { A: '1', KEY: '***' },
      secret_env: { T: 'store:token' },
      begin_at: '2026-01-01T00:00:00Z',
      exclusive: false,
      pool: null,
    };
    expect(fromJob(job, fields)).toEqual({
      command: "python 'a b.py'",
      gpus: '2',
      memory: '16G',
      time: '90m',
      env: 'A=1',
      secrets: 'T=token',
    });
  });

  it('knows only fields of the form', () => {
    expect(fromJob({ submit_host: 'x' }, [field('submit_host')])).toEqual({});
    expect(new Set(ALL.map((one) => one.key)).size).toBe(ALL.length);
  });
});

describe('inOwnWords', () => {
  const fields = [field('gpu_request', 'gpus'), field('time_limit_s', 'time')];

  it('names fields as the form or the file does', () => {
    const said = 'gpu_request must be whole; time_limit_s and other_words stay';
    expect(inOwnWords(said, fields, true)).toBe('GPUs must be whole; Time limit and other_words stay');
    expect(inOwnWords(said, fields, false)).toBe('gpus must be whole; time and other_words stay');
  });
});
