// What Python wrote into the page besides the packed numbers, and what follows from it alone.
import { byId } from "./elements.js";
import { decimalText, largest, MINUS } from "./numbers.js";
import { joinedToWords } from "./words.js";

/** @type {Header} */
export const header = JSON.parse(byId("header").textContent);

/**
 * The sides that are shown: one, or two side by side. Of models with three attentions, those of the chosen one; with
 * their tokens as they are stored, or joined to words.
 *
 * @type {Side[]}
 */
export const sides = [];
const level = { words: false };

/** @type {(stack: string | null, words: boolean) => void} */
export function takeSides(stack, words) {
  const chosen = header.sides.filter((side) => side.stack === stack);
  sides.splice(0, sides.length, ...(words ? chosen.map(joinedToWords) : chosen));
  level.words = words;
}
takeSides(header.stacks[0] ?? null, false);

/** @type {() => boolean} */
export const showsWords = () => level.words;

/**
 * Whether some word of the file has several pieces.
 *
 * @type {() => boolean}
 */
export function hasWords() {
  return header.sides.some((side) => side.words !== null || (side.keys?.words ?? null) !== null);
}

/**
 * The tokens that look, or those that are looked at; mostly the same.
 *
 * @type {(side: Side, which: "query" | "key") => Tokens}
 */
export function tokensOf(side, which) {
  return which === "key" ? side.keys ?? side : side;
}

/** @type {View[]} */
export const VIEWS = ["heads", "model", "heatmap", "neuron", "rollout"];

/**
 * Whether its weights may be below 0, as the records in Python say.
 *
 * @type {(part: Attention) => boolean}
 */
export const isSignedPart = (part) => header.signed.includes(part);

/**
 * How many of the page's whole numbers make 1.
 *
 * @type {() => number}
 */
export const unit = () => 10 ** header.decimals;

/** @type {(whole: number) => string} */
export const weightText = (whole) => decimalText(whole, header.decimals);

/** @type {() => number} */
export const layerCount = () => largest(sides.map((side) => side.layers));

/** @type {() => number} */
export const headCount = () => largest(sides.map((side) => side.heads));

/**
 * What a side is called in words: its name, or its number.
 *
 * @type {(side: number) => string}
 */
export function sideName(side) {
  return sides[side].name || (sides.length > 1 ? `side ${side + 1}` : "");
}

/**
 * What the difference of two sides is, by their names.
 *
 * @type {(minus?: string) => string}
 */
export function differenceName(minus = MINUS) {
  return `${sideName(0)} ${minus} ${sideName(1)}`;
}

/** @type {(token: string) => string} */
export function tokenLabel(token) {
  // eslint-disable-next-line no-control-regex -- these are the letters that are looked for
  return token === "" ? "\u2205" : token.replace(/[\u0000-\u001f\u007f]/g, "\ufffd");
}
