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

function createElement(name: string): HTMLElement {
  return name.toLowerCase() === 'style' ? adoptedStyle() : withStyleAttribute(document.createElement(name));
}

function adoptedStyle(): HTMLElement {
  // Its text is in the sheet: the element only marks the place, and takes the sheet along when it goes.
  const element = document.createElement('meta');
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

function withStyleAttribute(element: HTMLElement): HTMLElement {
  element.setAttribute = (name: string, value: string) => {
    if (name === 'style') element.style.cssText = value;
    else HTMLElement.prototype.setAttribute.call(element, name, value);
  };
  return element;
}
