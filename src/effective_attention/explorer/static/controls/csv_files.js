// Numbers to take away: RFC 4180, tokens always in quotes. The numbers are as stored: no threshold.
import { layerLoaded } from "../core/blocks.js";
import { sideName, sides, tokensOf, weightText } from "../core/header.js";
import { weightAt } from "../core/matrices.js";
import { upTo } from "../core/numbers.js";
import { activeHeads, hasHead, paneNumbers, queryToken, shownTokens, sideOf, sidesOf } from "../core/selection.js";
import { state } from "../core/state.js";
import { rolloutNumbers } from "../core/token_rollout.js";
import { drawnPanes, panes } from "../views/panes.js";
import { download, fileName, headWords, viewWords } from "./download.js";

// What a spreadsheet would run gets an apostrophe in front, as in the tables (io.py): tokens may be formulas.
const FORMULA = /^'*[=+\-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20]/;

/** @type {(text: string) => string} */
const quoted = (text) => `"${FORMULA.test(text) ? "'" : ""}${text.replaceAll('"', '""')}"`;

/** @type {(label: string, numbers: number[]) => string} */
const lineOf = (label, numbers) => [quoted(label), ...numbers.map(weightText)].join(",");

/**
 * Of several heads, the file has one.
 *
 * @type {() => number}
 */
function savedHead() {
  return state.view === "heads" && !activeHeads().includes(state.head) ? activeHeads()[0] : state.head;
}

/** @type {(pane: number) => string} */
function csvOf(pane) {
  const keys = shownTokens(pane, "key");
  const { tokens } = tokensOf(sideOf(pane), "key");
  const first = ["", ...keys.map((place) => tokens[place])].map(quoted).join(",");
  const lines = state.view === "rollout" ? rolloutLines(pane, keys) : matrixLines(pane, keys);
  return [first, ...lines, ""].join("\r\n");
}

/** @type {(pane: number, places: number[]) => string[]} */
function rolloutLines(pane, places) {
  const { layers, size } = sideOf(pane);
  const numbers = rolloutNumbers(pane, state.part, queryToken(pane));
  return upTo(layers).map((layer) => lineOf(`layer ${layer}`, places.map((place) => numbers[layer * size + place])));
}

/** @type {(pane: number, keys: number[]) => string[]} */
function matrixLines(pane, keys) {
  const { part, layer } = state;
  return shownTokens(pane, "query").map((query) => {
    const weights = keys.map((key) => weightAt(pane, part, layer, savedHead(), query, key));
    return lineOf(sideOf(pane).tokens[query], weights);
  });
}

/**
 * A file per pane.
 *
 * @type {() => Promise<void>}
 */
export async function saveCsv() {
  const needed = paneNumbers().flatMap(sidesOf).filter((side) => state.layer < sides[side].layers);
  await Promise.all(needed.map((side) => layerLoaded(side, state.part, state.layer)));
  const words = state.view === "rollout" || state.view === "neuron" ? viewWords() : headWords(savedHead());
  for (const { number } of drawnPanes()) {
    if (state.view !== "rollout" && !hasHead(number, state.layer, savedHead())) continue;
    const file = fileName(words, "csv", panes.length > 1 ? sideName(number) : "");
    download(new Blob([csvOf(number)], { type: "text/csv;charset=utf-8" }), file);
  }
}
