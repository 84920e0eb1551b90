// How wide text is, and how much of it fits.
import { make, penOf } from "./elements.js";
import { largest } from "./numbers.js";

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const MOST_KNOWN = 20000; // widths; beyond, all are measured anew
const measuring = penOf(make("canvas"));
/** @type {Map<string, number>} */
const widths = new Map();

/** @type {(text: string, size: number) => number} */
export function textWidth(text, size) {
  const key = `${size} ${text}`;
  const known = widths.get(key);
  if (known !== undefined) return known;
  if (widths.size > MOST_KNOWN) widths.clear();
  measuring.font = `${size}px ${FONT}`;
  const { width } = measuring.measureText(text);
  widths.set(key, width);
  return width;
}

/**
 * As much of a text as fits.
 *
 * @type {(text: string, size: number, most: number) => string}
 */
export function fitted(text, size, most) {
  if (textWidth(text, size) <= most) return text;
  const letters = [...text];
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(`${letters.slice(0, middle).join("")}…`, size) <= most) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("")}…`;
}

/**
 * Room for the longest of these names, within a limit.
 *
 * @type {(names: string[], size: number, most: number) => number}
 */
export function nameWidth(names, size, most) {
  return Math.ceil(Math.min(largest(names.map((text) => textWidth(text, size))) + 12, most));
}
