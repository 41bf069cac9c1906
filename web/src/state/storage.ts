/** localStorage that never throws: a browser may forbid it, or have it full. */

export function read(key: string): string | null {
  try {
    return localStorage.getItem(`tgpu.${key}`);
  } catch {
    return null;
  }
}

export function write(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`tgpu.${key}`);
    else localStorage.setItem(`tgpu.${key}`, value);
  } catch {
    // The value lasts as long as the page.
  }
}
