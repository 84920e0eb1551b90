// What Python wrote into the page besides the packed numbers, and what follows from it alone.
import { byId } from "./elements.js";
import { decimalText, largest } from "./numbers.js";

/** @type {Header} */
export const header = JSON.parse(byId("header").textContent);

/**
 * The sides that are shown: one, or two side by side. Of models with three attentions, those of the chosen one.
 *
 * @type {Side[]}
 */
export const sides = [];

/** @type {(stack: string | null) => void} */
export function takeStack(stack) {
  sides.splice(0, sides.length, ...header.sides.filter((side) => side.stack === stack));
}
takeStack(header.stacks[0] ?? null);

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

/** @type {(token: string) => string} */
export function tokenLabel(token) {
  // eslint-disable-next-line no-control-regex -- these are the letters that are looked for
  return token === "" ? "\u2205" : token.replace(/[\u0000-\u001f\u007f]/g, "\ufffd");
}
