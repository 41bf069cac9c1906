import { beforeEach, describe, expect, it, vi } from 'vitest';

const kept = new Map<string, string>();
vi.mock('./theme', () => ({ token: (name: string) => `value of ${name}` }));
vi.mock('./storage', () => ({
  read: (key: string) => kept.get(key) ?? null,
  write: (key: string, value: string | null) => (value === null ? kept.delete(key) : kept.set(key, value)),
}));

async function fresh() {
  vi.resetModules();
  const { signedIn } = await import('./session');
  signedIn({ user_id: 'ada' } as never);
  return import('./userColours');
}

const NAMES = Array.from({ length: 40 }, (_, index) => `user${index}`);

describe('colours of users', () => {
  beforeEach(() => kept.clear());

  it('gives eight users eight colours, whatever their names are', async () => {
    const { COLOURS, sharesColour, userColour } = await fresh();
    const eight = NAMES.slice(0, COLOURS);
    expect(new Set(eight.map(userColour)).size).toBe(COLOURS);
    expect(eight.some(sharesColour)).toBe(false);
  });

  it('marks users that share a colour', async () => {
    const { COLOURS, sharesColour, userColour } = await fresh();
    NAMES.forEach(userColour);
    expect(NAMES.filter(sharesColour).length).toBe(NAMES.length - COLOURS);
  });

  it('keeps a colour until the browser signs out', async () => {
    const before = await fresh();
    const colours = NAMES.map(before.userColour);
    const after = await fresh();
    expect([...NAMES].reverse().map(after.userColour)).toEqual([...colours].reverse());
    const { signedOut } = await import('./session');
    signedOut('left');
    expect(kept.has('user-colours')).toBe(false);
  });

  it('keeps the users with the most GPUs apart and leaves the others their place', async () => {
    const { COLOURS, keepApart, numbers, userColour } = await fresh();
    NAMES.forEach(userColour);
    for (const top of [NAMES.slice(0, 8), NAMES.slice(3, 11), NAMES.slice(20), NAMES.filter((_, at) => at % 5 === 0)]) {
      keepApart(top);
      expect(new Set(top.slice(0, COLOURS).map(userColour)).size).toBe(COLOURS);
      expect(new Set(numbers.value.values()).size).toBe(NAMES.length);
    }
    const settled = numbers.value;
    keepApart(NAMES.filter((_, at) => at % 5 === 0));
    expect(numbers.value).toBe(settled);
  });

  it('ignores what it cannot read', async () => {
    kept.set('user-colours', '{"ada": "red", "bob": -1, "eve": 5');
    const { userColour } = await fresh();
    expect(userColour('eve')).toMatch(/^var\(--user-[0-7]\)$/);
  });
});
