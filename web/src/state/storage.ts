/** localStorage that never throws: a browser may forbid it, or have it full. */

export const storageKey = (key: string) => `tgpu.${key}`;

export function read(key: string): string | null {
  try {
    return localStorage.getItem(storageKey(key));
  } catch {
    return null;
  }
}

export function write(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(storageKey(key));
    else localStorage.setItem(storageKey(key), value);
  } catch {
    // The value lasts as long as the page.
  }
}
