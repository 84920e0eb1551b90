// What of the sides is chosen. A pane has a number: a side's, or -1 for the first side − the second.
import { headCount, header, sides, tokenLabel, tokensOf, unit } from "./header.js";
import { upTo } from "./numbers.js";
import { state } from "./state.js";

/** @type {() => boolean} */
export function canCompare() {
  return sides.length === 2 && header.same_tokens;
}

/**
 * Is first − second shown? Only where the sides have the very same tokens, and where a difference means something.
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
 * The chosen query or key of a pane, if it is shown there; the sides may have different lengths.
 *
 * @type {(which: "query" | "key", pane: number) => number | null}
 */
export function chosenToken(which, pane) {
  if (state[which] === null) return null;
  const token = Math.min(state[which], tokensOf(sideOf(pane), which).size - 1);
  return shownTokens(pane, which).includes(token) ? token : null;
}

/**
 * The query that is looked at where one must be: the chosen one, or that of those shown which a model answers from: the
 * first, or, where no token sees a later one, the last.
 *
 * @type {(pane: number) => number}
 */
export function queryToken(pane) {
  const queries = shownTokens(pane, "query");
  return chosenToken("query", pane) ?? queries[sideOf(pane).causal ? queries.length - 1 : 0];
}

/** @type {(side: Side) => boolean} */
function isPair(side) {
  return side.keys === null && side.texts.length === 2 && [0, 1].every((text) => side.segments.includes(text));
}

/**
 * Whether some side has two texts whose tokens look at each other.
 *
 * @type {() => boolean}
 */
export function hasPairs() {
  return header.sides.some(isPair);
}

/** @type {Record<string, string>} */
export const BETWEEN_NAMES = { all: "all", "a-b": "A → B", "b-a": "B → A", "a-a": "within A", "b-b": "within B" };

/**
 * Which of a pair's sentences look at which, in words; empty: all do.
 *
 * @type {() => string}
 */
export function betweenName() {
  return state.between === "all" || !hasPairs() ? "" : BETWEEN_NAMES[state.between];
}

/**
 * Places of the tokens of the text, or of both, that is chosen for queries or for keys.
 *
 * @type {(side: Side, which: "query" | "key") => number[]}
 */
function tokensOfText(side, which) {
  const all = upTo(tokensOf(side, which).size);
  if (state.between === "all" || !isPair(side)) return all;
  const [from, to] = state.between.split("-").map((text) => "ab".indexOf(text));
  return all.filter((place) => side.segments[place] === (which === "query" ? from : to));
}

/**
 * Places of the tokens that are shown; special ones rather than none.
 *
 * @type {(pane: number, which: "query" | "key") => number[]}
 */
export function shownTokens(pane, which) {
  const { special } = tokensOf(sideOf(pane), which);
  const all = tokensOfText(sideOf(pane), which);
  const words = state.special ? all : all.filter((place) => !special[place]);
  return words.length > 0 ? words : all;
}

/**
 * Tells what is shown of a matrix from what else could be: part of the keys of caches.
 *
 * @type {() => string}
 */
export const shownName = () => `${state.special} ${state.between}`;

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
