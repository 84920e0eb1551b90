// Rollout (Abnar & Zuidema 2020) of one token, layer by layer: the token's row carried down through the layers below.
// It is worked out here, not in Python, as each token has its own; the rules are those of graphs/conventions.py, and
// which of them apply (convention, residual) is in the header. tests/explorer/test_views.py compares the two.
import { blockIds, layerReady, loadedBlock } from "./blocks.js";
import { isSignedPart, sides, unit } from "./header.js";
import { LimitedCache } from "./limited_cache.js";
import { upTo } from "./numbers.js";
import { sidesOf } from "./selection.js";
import { state } from "./state.js";

/** @type {LimitedCache<Float64Array>} */
const graphs = new LimitedCache(200e6);
/** @type {LimitedCache<Int32Array>} */
const rollouts = new LimitedCache(32e6);

/**
 * Whether tokens look at their own text alone: what a decoder reads from another text, rollout would leave out.
 *
 * @type {() => boolean}
 */
export function rolloutIsMeant() {
  return state.stack !== "decoder" && sides.every((side) => side.keys === null);
}

/** @type {(pane: number) => boolean} */
export function rolloutPossible(pane) {
  return pane >= 0 || sides[0].layers === sides[1].layers;
}

/** @type {(pane: number, part: Attention) => boolean} */
export function rolloutReady(pane, part) {
  const places = sidesOf(pane).flatMap((side) => upTo(sides[side].layers).map((layer) => ({ side, layer })));
  return places.map(({ side, layer }) => layerReady(side, part, layer)).every(Boolean);
}

/**
 * What has reached the token in each layer's output from the input, (layer, token), as whole numbers like every weight.
 *
 * @type {(pane: number, part: Attention, query: number) => Int32Array}
 */
export function rolloutNumbers(pane, part, query) {
  return rollouts.get(`${pane} ${part} ${query}`, () => {
    const [first, second] = sidesOf(pane).map((side) => rolloutOrDifference(side, part, query));
    const values = second === undefined ? first : minus(first, second);
    return Int32Array.from(values, (value) => Math.round(value * unit()));
  });
}

/** @type {(side: number, part: Attention, query: number) => Float64Array} */
function rolloutOrDifference(side, part, query) {
  if (part !== "difference") return rolloutOf(side, part, query);
  return minus(rolloutOf(side, "effective", query), rolloutOf(side, "standard", query));
}

/** @type {(first: Float64Array, second: Float64Array) => Float64Array} */
function minus(first, second) {
  return first.map((value, i) => value - second[i]);
}

/** @type {(side: number, part: Attention, query: number) => Float64Array} */
function rolloutOf(side, part, query) {
  const { size, layers, residual, joined } = sides[side];
  const pieces = joined?.queries[query] ?? [query];
  const result = new Float64Array(layers * size);
  for (let last = 0; last < layers; last++) {
    let row = new Float64Array(joined?.side.size ?? size);
    for (const piece of pieces) row[piece] = 1 / pieces.length;
    for (let layer = last; layer >= 0; layer--) row = carriedDown(row, graphOf(side, part, layer), residual);
    result.set(joined ? summed(row, joined.keys) : row, last * size);
  }
  return result;
}

/** @type {(row: Float64Array, words: number[][]) => number[]} */
function summed(row, words) {
  return words.map((pieces) => pieces.reduce((total, piece) => total + row[piece], 0));
}

/**
 * A row (of weights over the tokens of a layer's output) carried to that layer's input.
 *
 * @type {(row: Float64Array, graph: Float64Array, residual: number) => Float64Array<ArrayBuffer>}
 */
function carriedDown(row, graph, residual) {
  const size = row.length;
  const result = new Float64Array(size);
  for (let from = 0; from < size; from++) {
    const weight = row[from];
    if (weight === 0) continue;
    result[from] += residual * weight;
    const share = (1 - residual) * weight;
    const start = from * size;
    for (let to = 0; to < size; to++) result[to] += share * graph[start + to];
  }
  return result;
}

/**
 * A layer's heads averaged. What negative weights become is settled in each head, before the average; then rows are
 * divided by their sum, but for attention that is a distribution already, which is left as it is.
 *
 * @type {(side: number, part: Attention, layer: number) => Float64Array}
 */
function graphOf(side, part, layer) {
  return graphs.get(`${side} ${part} ${layer}`, () => {
    const { size, heads, convention } = sides[side].joined?.side ?? sides[side];
    const numbers = loadedBlock(blockIds(side, part, layer)[0]);
    const mean = new Float64Array(size * size);
    const asIs = !isSignedPart(part);
    for (let head = 0; head < heads; head++) {
      const start = head * size * size;
      for (let i = 0; i < mean.length; i++) {
        const value = numbers[start + i];
        mean[i] += asIs || value > 0 ? value : convention === "absolute" ? -value : 0;
      }
    }
    for (let row = 0; row < size; row++) divideRow(mean, row * size, size, asIs ? heads * unit() : 0);
    return mean;
  });
}

/**
 * By a number, or with 0 by the row's sum.
 *
 * @type {(numbers: Float64Array, start: number, size: number, by: number) => void}
 */
function divideRow(numbers, start, size, by) {
  let total = by;
  if (by === 0) for (let i = start; i < start + size; i++) total += numbers[i];
  if (total === 0) return;
  for (let i = start; i < start + size; i++) numbers[i] /= total;
}
