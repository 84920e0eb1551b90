// The lines of the view of heads: which weights are drawn, gathered into bundles of one look.
import { LimitedCache } from "../core/limited_cache.js";
import { keyCount, matrixOf } from "../core/matrices.js";
import { upTo } from "../core/numbers.js";
import { activeHeads, hasHead, shownName, shownTokens, thresholdWhole } from "../core/selection.js";
import { state } from "../core/state.js";

export const SHADES = 24;
const MOST_LINES = 5000;
const BINS = 1000; // of the histogram of weights
const FAINTEST = 15; // bins: smaller weights are too faint to see among many

/** @type {LimitedCache<{ bundles: Bundle[], cut: number, byteLength: number }>} */
const known = new LimitedCache(64e6);

/** @type {(pane: number) => number[]} */
export function headsHere(pane) {
  return activeHeads().filter((head) => hasHead(pane, state.layer, head));
}

/**
 * All lines; only the strongest, if there are too many: the cut is then the smallest weight drawn, and else 0.
 *
 * @type {(pane: number, limit: number) => { bundles: Bundle[], cut: number }}
 */
export function allLines(pane, limit) {
  const heads = headsHere(pane);
  const least = Math.max(thresholdWhole(), 1);
  const key = `${pane} ${state.part} ${state.layer} ${heads} ${shownName()} ${least} ${limit}`;
  return known.get(key, () => {
    const cut = Math.max(least, smallestDrawn(pane, heads, limit));
    /** @type {Bundles} */
    const found = new Map();
    eachWeight(pane, heads, (value, head, row, column) => {
      if (Math.abs(value) >= cut) addLine(found, value, head, row, column, limit);
    });
    return { bundles: byShade(found), cut: cut > least ? cut : 0, byteLength: 16 * MOST_LINES };
  });
}

/**
 * The lines of one query, one key, or between the two.
 *
 * @type {(pane: number, focused: Cross, limit: number) => Bundle[]}
 */
export function focusedLines(pane, focused, limit) {
  const [queries, keys] = [shownTokens(pane, "query"), shownTokens(pane, "key")];
  const rows = focused.row === null ? upTo(queries.length) : [focused.row];
  const columns = focused.column === null ? upTo(keys.length) : [focused.column];
  const size = keyCount(pane);
  const least = Math.max(thresholdWhole(), limit / 500, 1); // fainter ones cannot be seen
  /** @type {Bundles} */
  const found = new Map();
  for (const head of headsHere(pane)) {
    const numbers = matrixOf(pane, state.part, state.layer, head);
    rows.forEach((row) => columns.forEach((column) => {
      const value = numbers[queries[row] * size + keys[column]];
      if (Math.abs(value) >= least) addLine(found, value, head, row, column, limit);
    }));
  }
  return byShade(found);
}

/**
 * @typedef {Map<string, Bundle>} Bundles
 * @type {(found: Bundles, value: number, head: number, row: number, column: number, limit: number) => void}
 */
function addLine(found, value, head, row, column, limit) {
  const shade = Math.ceil((Math.abs(value) / limit) * SHADES);
  const negative = value < 0;
  const look = `${shade} ${negative} ${head}`;
  const bundle = found.get(look) ?? { head, shade, negative, pairs: [] };
  bundle.pairs.push(row, column);
  found.set(look, bundle);
}

/** @type {(found: Bundles) => Bundle[]} */
function byShade(found) {
  return [...found.values()].sort((a, b) => a.shade - b.shade);
}

/**
 * @typedef {(value: number, head: number, row: number, column: number) => void} UseWeight
 * @type {(pane: number, heads: number[], use: UseWeight) => void}
 */
function eachWeight(pane, heads, use) {
  const [queries, keys] = [shownTokens(pane, "query"), shownTokens(pane, "key")];
  const size = keyCount(pane);
  for (const head of heads) {
    const numbers = matrixOf(pane, state.part, state.layer, head);
    for (let row = 0; row < queries.length; row++) {
      const start = queries[row] * size;
      for (let column = 0; column < keys.length; column++) use(numbers[start + keys[column]], head, row, column);
    }
  }
}

/**
 * From which size on there are at most so many weights as may be drawn; weights too faint to see count for nothing.
 *
 * @type {(pane: number, heads: number[], limit: number) => number}
 */
function smallestDrawn(pane, heads, limit) {
  const histogram = new Uint32Array(BINS + 1);
  eachWeight(pane, heads, (value) => {
    histogram[Math.floor((Math.abs(value) / (limit || 1)) * BINS)] += 1;
  });
  let total = 0;
  for (let bin = BINS; bin > FAINTEST; bin--) {
    total += histogram[bin];
    if (total > MOST_LINES) return ((bin + 1) / BINS) * limit;
  }
  return (FAINTEST / BINS) * limit;
}
