/** A document for xterm.js under a Content-Security-Policy without inline styles.
 *
 * xterm.js writes <style> elements and style attributes, which the policy forbids in markup. The same rules are allowed
 * through the object model: as adopted style sheets and as properties of an element's style.
 */

export function strictDocument(): Document {
  return new Proxy(document, {
    get(target, key) {
      if (key === 'createElement') return createElement;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? (value as (...parts: unknown[]) => unknown).bind(target) : value;
    },
  });
}

/** Runs `work` while elements of the document itself are made in the same way: a part of xterm.js asks for that one. */
export function withStrictStyles(work: () => void): void {
  document.createElement = createElement as typeof document.createElement;
  try {
    work();
  } finally {
    delete (document as { createElement?: unknown }).createElement;
  }
}

function createElement(name: string): HTMLElement {
  return name.toLowerCase() === 'style' ? adoptedStyle() : make(name);
}

const make = (name: string): HTMLElement => Document.prototype.createElement.call(document, name);

function adoptedStyle(): HTMLElement {
  // Its text is in the sheet: the element only marks the place, and takes the sheet along when it goes.
  const element = make('meta');
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  let text = '';
  Object.defineProperty(element, 'textContent', {
    get: () => text,
    set: (value: string) => {
      text = value;
      sheet.replaceSync(value);
    },
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    HTMLElement.prototype.remove.call(element);
  };
  return element;
}

/** Cells with colours of their own get them as an attribute, on spans that xterm.js makes in the document itself. */
export function allowStyleAttributes(): void {
  HTMLSpanElement.prototype.setAttribute = function (this: HTMLSpanElement, name: string, value: string) {
    if (name === 'style') this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
}
