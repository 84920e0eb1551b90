// Why a head attends: the query of one token times the key of another. The sum of their products times the scaling is
// the score; the softmax of the scores is standard attention.
import { blockReady, loadedBlock } from "../core/blocks.js";
import { header, sides, tokensOf } from "../core/header.js";
import { LimitedCache } from "../core/limited_cache.js";
import { matrixReady, weightAt } from "../core/matrices.js";
import { largest, upTo } from "../core/numbers.js";
import { chosenToken, queryToken, shownTokens } from "../core/selection.js";
import { state } from "../core/state.js";

/** @type {LimitedCache<NeuronFacts>} */
const known = new LimitedCache(64e6);

/** @type {(side: number, which: "query" | "key") => string | null} */
function blockOf(side, which) {
  return sides[side].blocks[which][state.layer] ?? null;
}

/** @type {(side: number) => boolean} */
export function neuronAvailable(side) {
  const { query, key } = sides[side].blocks;
  return [...query, ...key].every((id) => id !== null);
}

/** @type {(side: number) => boolean} */
export function neuronReady(side) {
  const asked = [blockOf(side, "query"), blockOf(side, "key")].map((id) => id !== null && blockReady(id));
  return matrixReady(side, state.part, state.layer) && asked.every(Boolean);
}

/** @type {(side: number, which: "query" | "key", token: number) => Whole} */
export function vectorOf(side, which, token) {
  const width = sides[side].d_key;
  const start = (state.head * tokensOf(sides[side], which).size + token) * width;
  return loadedBlock(blockOf(side, which) ?? "").subarray(start, start + width);
}

/** @type {(side: number, query: number, key: number) => Int32Array} */
export function productsOf(side, query, key) {
  const first = vectorOf(side, "query", query);
  const second = vectorOf(side, "key", key);
  return Int32Array.from(first, (value, i) => value * second[i]);
}

/**
 * What the sum of products is multiplied with; null: not known.
 *
 * @type {(side: number) => number | null}
 */
export function scalingOf(side) {
  return sides[side].scaling?.[state.layer] ?? null;
}

/** @type {(side: number, query: number, key: number) => number} */
export function scoreOf(side, query, key) {
  const sum = productsOf(side, query, key).reduce((total, value) => total + value, 0);
  return (sum / 100 ** header.neuron_decimals) * (scalingOf(side) ?? 1);
}

/**
 * What a query makes of all keys, and how large numbers get: for bars and colours.
 *
 * @type {(side: number, query: number) => NeuronFacts}
 */
export function neuronFacts(side, query) {
  return known.get(`${side} ${state.layer} ${state.head} ${query}`, () => {
    const keys = upTo(tokensOf(sides[side], "key").size);
    const scores = keys.map((key) => scoreOf(side, query, key));
    const vectors = [vectorOf(side, "query", query), ...keys.map((key) => vectorOf(side, "key", key))];
    const products = keys.map((key) => productsOf(side, query, key));
    return { scores, vectorLimit: largest(vectors.map(mostOf)), productLimit: largest(products.map(mostOf)) };
  });
}

/** @type {(numbers: Whole) => number} */
function mostOf(numbers) {
  return largest(Array.from(numbers, Math.abs));
}

/**
 * The pair in focus: without a chosen key, the query's strongest.
 *
 * @type {(side: number, pointed: Target | null) => { query: number, key: number }}
 */
export function neuronPair(side, pointed) {
  const places = shownTokens(side, "key");
  const query = queryToken(side);
  const held = pointed?.key ?? chosenToken("key", side);
  if (held !== null) return { query, key: held };
  /** @type {(key: number) => number} */
  const sizeOf = (key) => Math.abs(weightAt(side, state.part, state.layer, state.head, query, key));
  return { query, key: places.reduce((best, key) => (sizeOf(key) > sizeOf(best) ? key : best), places[0]) };
}
