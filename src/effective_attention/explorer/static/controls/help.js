// The help: what the keys do, and what is shown.
import { byId, make } from "../core/elements.js";
import { differenceName, hasWords, header } from "../core/header.js";
import { canCompare, hasPairs } from "../core/selection.js";

/** @type {Attention[]} */
const MAPS = ["affine", "sparse", "smallest"];
/** @type {Record<string, string>} */
const MAP_KEYS = { affine: "f", sparse: "p", smallest: "m" };
/** @type {Record<string, string>} */
const ABOUT_MAPS = {
  affine: "Effective attention whose rows sum to 1, as those of standard attention do: what the values and a column " +
    "of ones cancel is left out. The output is the same; weights can be negative.",
  sparse: "Of all distributions with the same output (no weight below 0, rows that sum to 1), one of as few weights " +
    "as the values' dimensions and one, which agrees most with standard attention.",
  smallest: "Of all distributions with the same output, that of smallest norm: effective attention inside the simplex.",
};
const held = MAPS.filter((map) => header.attentions.includes(map));

const KEYS = [
  ["← →", "head before, head after"],
  ["↑ ↓", "layer before, layer after (in a focused picture: move from cell to cell)"],
  ["1 – 5", "views: heads, model, heatmap, neuron, rollout"],
  ["s e n d", "standard, effective, null, difference"],
  ...(held.length > 0 ? [[held.map((map) => MAP_KEYS[map]).join(" "), held.join(", ")]] : []),
  ...(canCompare() ? [["c", differenceName()]] : []),
  ["a", "all heads"],
  ...(header.stacks.length > 0 ? [["x", "encoder, decoder, cross: the next one"]] : []),
  ...(hasPairs() ? [["b", "all attention, A → B, B → A, within A, within B: the next one"]] : []),
  ...(hasWords() ? [["w", "words or their pieces"]] : []),
  ["t", "special tokens in or out"],
  ["[ ]", "threshold down, up"],
  ["+ −", "zoom"],
  ["Enter", "in a focused picture: choose what is there"],
  ["l", "copy a link to this view"],
  ["?", "this help"],
  ["Esc", "close, or let go of what is held"],
];
const ABOUT_EFFECTIVE =
  "Attention A acts on the output through A·V only. " +
  "Effective attention is A without what the values V cancel; it can be negative.";
const ABOUT_ROLLOUT =
  "Attention of all layers multiplied down to the input tokens, heads averaged, with the residual connection. It " +
  "starts at the token a model answers from, of those shown: the first, or the last where no token sees a later one.";
const ABOUT_SENTENCES =
  "A and B are the two texts, each with the separator that ends it; [CLS] belongs to A. " +
  "A → B: from the tokens of A to those of B. What is left out counts for nothing, colours included.";
const ABOUT_WORDS =
  "Pieces of a word joined: to a word goes the sum over its pieces, from a word the mean over its pieces; worked out " +
  "from the stored weights and rounded once more. Which pieces make a word, the tokenizer's marks tell.";
const ABOUT_NUMBERS =
  "Values are shown as stored in this file, rounded once. " +
  "Everything is in the file: nothing is loaded from anywhere.";
const NOTES = [
  ["standard", "The weights after the softmax."],
  ["effective", ABOUT_EFFECTIVE],
  ["null", "Standard − effective: it changes nothing in the output, whatever its size."],
  ...held.map((map) => [map, ABOUT_MAPS[map]]),
  ...(canCompare() ? [[differenceName(), "Of the chosen attention: the first side minus the one beside it."]] : []),
  ...(hasPairs() ? [["sentences", ABOUT_SENTENCES]] : []),
  ...(hasWords() ? [["words", ABOUT_WORDS]] : []),
  ["rollout", ABOUT_ROLLOUT],
  ["numbers", ABOUT_NUMBERS],
];

/** @type {() => void} */
export function buildHelp() {
  const box = byId("help-box");
  const keys = KEYS.flatMap(([key, text]) => entryOf(make("kbd", { textContent: key }), text));
  const notes = NOTES.flatMap(([term, text]) => entryOf(term, text));
  const closer = make("button", { type: "button", id: "help-close", textContent: "Close" });
  closer.addEventListener("click", () => box.close());
  box.append(
    make("h2", { id: "help-title", textContent: "Keys" }),
    make("dl", { className: "keys" }, ...keys),
    make("h2", { textContent: "What is shown" }),
    make("dl", {}, ...notes),
    make("p", { className: "made", textContent: header.made_by }),
    closer,
  );
  box.addEventListener("click", (/** @type {MouseEvent} */ click) => click.target === box && box.close());
  byId("help").addEventListener("click", openHelp);
}

/** @type {(term: Node | string, text: string) => HTMLElement[]} */
function entryOf(term, text) {
  return [make("dt", {}, term), make("dd", { textContent: text })];
}

/** @type {() => void} */
export function openHelp() {
  byId("help-box").showModal();
}

/** @type {() => boolean} */
export function helpIsOpen() {
  return byId("help-box").open;
}
