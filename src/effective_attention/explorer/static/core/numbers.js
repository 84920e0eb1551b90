// Numbers and how they are written.
export const MINUS = "\u2212"; // as wide as a digit, which the hyphen is not

/** @type {(value: number, low: number, high: number) => number} */
export function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

/** @type {(list: readonly number[]) => number} */
export function largest(list) {
  return list.reduce((most, value) => Math.max(most, value), 0);
}

/** @type {(count: number) => number[]} */
export function upTo(count) {
  return Array.from({ length: count }, (_, number) => number);
}

/**
 * A whole number of 10^-decimals as text, by moving the point: no number with a fraction is involved, so nothing
 * drifts.
 *
 * @type {(whole: number, decimals: number) => string}
 */
export function decimalText(whole, decimals) {
  const digits = String(Math.abs(whole)).padStart(decimals + 1, "0");
  const sign = whole < 0 ? "-" : "";
  return decimals === 0 ? sign + digits : `${sign}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

/**
 * A number's text with a true minus sign, for the reader's eyes.
 *
 * @type {(number: string) => string}
 */
export function withMinus(number) {
  return number.replaceAll("-", MINUS);
}

/**
 * Few digits, for legends and axes.
 *
 * @type {(value: number) => string}
 */
export function briefly(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : size >= 0.001 ? 3 : 5;
  return withMinus(value.toFixed(digits));
}

/**
 * The first few of a long list, largest first, without sorting all of it.
 *
 * @template Item
 * @param {Item[]} items
 * @param {(item: Item) => number} sizeOf
 * @param {number} count
 * @returns {Item[]}
 */
export function largestFew(items, sizeOf, count) {
  /** @type {(list: Item[]) => Item[]} */
  const first = (list) => list.toSorted((a, b) => sizeOf(b) - sizeOf(a)).slice(0, count);
  if (items.length <= 4 * count) return first(items);
  const sizes = Float64Array.from(items.map(sizeOf)).sort();
  const least = sizes[sizes.length - count];
  return first(items.filter((item) => sizeOf(item) >= least));
}
