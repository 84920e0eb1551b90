// One head's matrix, queries × keys: whole numbers. Null = standard − effective, difference = effective − standard; all
// others are stored.
import { blockIds, layerReady, loadedBlock } from "./blocks.js";
import { isSignedPart, sides, tokensOf } from "./header.js";
import { LimitedCache } from "./limited_cache.js";
import { hasHead, paneNumbers, shownName, shownTokens, sideOf, sidesOf } from "./selection.js";
import { joinedMatrix } from "./words.js";

/** @type {LimitedCache<Whole>} */
const workedOut = new LimitedCache(96e6);
/** @type {LimitedCache<Whole>} */
const shownMatrices = new LimitedCache(64e6);
/** @type {LimitedCache<number>} */
const largestWeights = new LimitedCache(1e6);

/** @type {(part: Attention, comparing: boolean) => boolean} */
export function isSigned(part, comparing) {
  return comparing || isSignedPart(part);
}

/** @type {(pane: number, part: Attention, layer: number) => boolean} */
export function matrixReady(pane, part, layer) {
  return sidesOf(pane).map((side) => layerReady(side, part, layer)).every(Boolean);
}

/** @type {(pane: number, part: Attention, layer: number, head: number) => Whole} */
export function matrixOf(pane, part, layer, head) {
  if (pane >= 0 && part !== "null" && part !== "difference") return storedMatrix(pane, part, layer, head);
  return workedOut.get(`${pane} ${part} ${layer} ${head}`, () => {
    if (pane < 0) return minus(matrixOf(0, part, layer, head), matrixOf(1, part, layer, head));
    const standard = storedMatrix(pane, "standard", layer, head);
    const effective = storedMatrix(pane, "effective", layer, head);
    return part === "null" ? minus(standard, effective) : minus(effective, standard);
  });
}

/** @type {(side: number, part: Attention, layer: number, head: number) => Whole} */
function storedMatrix(side, part, layer, head) {
  const { joined } = sides[side];
  const stored = joined?.side ?? sides[side];
  const width = tokensOf(stored, "key").size;
  const cells = stored.size * width;
  const numbers = loadedBlock(blockIds(side, part, layer)[0]).subarray(head * cells, (head + 1) * cells);
  if (!joined) return numbers;
  return workedOut.get(`words ${side} ${part} ${layer} ${head}`, () => joinedMatrix(numbers, width, joined));
}

/** @type {(first: Whole, second: Whole) => Whole} */
function minus(first, second) {
  const result = new Int32Array(first.length);
  for (let i = 0; i < result.length; i++) result[i] = first[i] - second[i];
  return result;
}

/**
 * How many numbers a row of a matrix has.
 *
 * @type {(pane: number) => number}
 */
export function keyCount(pane) {
  return tokensOf(sideOf(pane), "key").size;
}

/** @type {(pane: number, part: Attention, layer: number, head: number, query: number, key: number) => number} */
export function weightAt(pane, part, layer, head, query, key) {
  return matrixOf(pane, part, layer, head)[query * keyCount(pane) + key];
}

/**
 * The matrix of the shown tokens only.
 *
 * @type {(pane: number, part: Attention, layer: number, head: number) => Whole}
 */
export function shownMatrix(pane, part, layer, head) {
  return shownMatrices.get(`${pane} ${part} ${layer} ${head} ${shownName()}`, () => {
    const numbers = matrixOf(pane, part, layer, head);
    const size = keyCount(pane);
    const [queries, keys] = [shownTokens(pane, "query"), shownTokens(pane, "key")];
    const cut = new Int32Array(queries.length * keys.length);
    queries.forEach((query, i) => keys.forEach((key, j) => {
      cut[i * keys.length + j] = numbers[query * size + key];
    }));
    return cut;
  });
}

/** @type {(pane: number, part: Attention, layer: number, head: number) => number} */
function largestWeight(pane, part, layer, head) {
  return largestWeights.get(`${pane} ${part} ${layer} ${head} ${shownName()}`, () => {
    const numbers = matrixOf(pane, part, layer, head);
    const size = keyCount(pane);
    const keys = shownTokens(pane, "key");
    let most = 0;
    for (const query of shownTokens(pane, "query")) {
      for (const key of keys) {
        const value = Math.abs(numbers[query * size + key]);
        if (value > most) most = value;
      }
    }
    return most;
  });
}

/**
 * The largest size of a weight over the panes: both sides are drawn on one scale.
 *
 * @type {(part: Attention, layer: number, heads: number[]) => number}
 */
export function commonLimit(part, layer, heads) {
  let most = 0;
  for (const pane of paneNumbers()) {
    for (const head of heads) {
      if (!hasHead(pane, layer, head) || !matrixReady(pane, part, layer)) continue;
      most = Math.max(most, largestWeight(pane, part, layer, head));
    }
  }
  return most;
}
