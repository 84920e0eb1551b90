// Finding and making elements. Text reaches the page through textContent only.

/** @type {(id: string) => any} */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * An element with these properties (or attributes, where there is no such property) and children.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} properties
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [property, value] of Object.entries(properties)) {
    if (property in element && !property.includes("-")) Object.assign(element, { [property]: value });
    else element.setAttribute(property, value);
  }
  element.append(...children);
  return element;
}

/**
 * All elements that a selector finds.
 *
 * @type {(selector: string, root?: ParentNode) => NodeListOf<any>}
 */
export function every(selector, root = document) {
  return root.querySelectorAll(selector);
}

/**
 * A canvas's pen.
 *
 * @type {(canvas: HTMLCanvasElement) => CanvasRenderingContext2D}
 */
export function penOf(canvas) {
  const pen = canvas.getContext("2d");
  if (pen === null) throw new Error("this browser cannot draw on a canvas");
  return pen;
}
