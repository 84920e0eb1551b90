// What of the sides is chosen. A pane has a number: a side's, or -1 for second − first.
import { headCount, header, sides, tokenLabel, tokensOf, unit } from "./header.js";
import { upTo } from "./numbers.js";
import { state } from "./state.js";

/** @type {() => boolean} */
export function canCompare() {
  return sides.length === 2 && header.same_tokens;
}

/**
 * Is second − first shown? Only where the sides have the very same tokens, and where a difference means something.
 *
 * @type {() => boolean}
 */
export function isComparing() {
  return state.compare && canCompare() && state.view !== "neuron";
}

/** @type {() => number[]} */
export function paneNumbers() {
  return isComparing() ? [-1] : upTo(sides.length);
}

/**
 * The sides whose numbers a pane needs.
 *
 * @type {(pane: number) => number[]}
 */
export function sidesOf(pane) {
  return pane < 0 ? [0, 1] : [pane];
}

/**
 * The side whose tokens and sizes a pane has.
 *
 * @type {(pane: number) => Side}
 */
export function sideOf(pane) {
  return sides[pane < 0 ? 0 : pane];
}

/** @type {(pane: number, layer: number, head: number) => boolean} */
export function hasHead(pane, layer, head) {
  return sidesOf(pane).every((side) => layer < sides[side].layers && head < sides[side].heads);
}

/** @type {() => number[]} */
export function activeHeads() {
  return state.heads ?? upTo(headCount());
}

/**
 * The chosen query or key of a pane; the sides may have different lengths.
 *
 * @type {(which: "query" | "key", pane: number) => number | null}
 */
export function chosenToken(which, pane) {
  const token = state[which];
  return token === null ? null : Math.min(token, tokensOf(sideOf(pane), which).size - 1);
}

/**
 * Of some queries that which a model answers from: the first, or, where no token sees a later one, the last.
 *
 * @type {(pane: number, queries: number[]) => number}
 */
export function answerToken(pane, queries) {
  return queries[sideOf(pane).causal ? queries.length - 1 : 0];
}

/**
 * Places of the tokens that are shown; all of them rather than none.
 *
 * @type {(pane: number, which: "query" | "key") => number[]}
 */
export function shownTokens(pane, which) {
  const { size, special } = tokensOf(sideOf(pane), which);
  const all = upTo(size);
  const words = state.special ? all : all.filter((place) => !special[place]);
  return words.length > 0 ? words : all;
}

/**
 * The tokens that are shown along one edge of a matrix, and their names.
 *
 * @type {(pane: number, which: "query" | "key") => Axis}
 */
export function axisOf(pane, which) {
  const { tokens } = tokensOf(sideOf(pane), which);
  const places = shownTokens(pane, which);
  return { places, names: places.map((place) => tokenLabel(tokens[place])) };
}

/**
 * Where a token is in a list of places; null: nowhere.
 *
 * @type {(places: number[], token: number | null | undefined) => number | null}
 */
export function placeIn(places, token) {
  const found = token === null || token === undefined ? -1 : places.indexOf(token);
  return found < 0 ? null : found;
}

/**
 * The threshold as a whole number, like every weight.
 *
 * @type {() => number}
 */
export function thresholdWhole() {
  return state.threshold * unit();
}
