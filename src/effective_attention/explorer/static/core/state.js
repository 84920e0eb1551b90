// What is shown, as one flat object; the address holds what differs from the start, so that a link restores it.
import { hasWords, header, headCount, layerCount, showsWords, sides, takeSides, tokensOf, VIEWS } from "./header.js";
import { forgetAll } from "./limited_cache.js";
import { largest } from "./numbers.js";
import { redraw } from "./redraw.js";
import { atOtherLevel } from "./words.js";

export const THRESHOLDS = [
  0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
];
export const ZOOMS = [0.5, 0.75, 1, 1.5, 2, 3, 4, 6];
export const THEME_NAMES = ["auto", "light", "dark"];
export const BETWEEN = ["all", "a-b", "b-a", "a-a", "b-b"];

/** @type {State} */
const START = {
  stack: header.stacks[0] ?? null,
  view: "heads", part: "standard", compare: false, layer: 0, head: 0, heads: null, query: null, key: null,
  between: "all", words: false, threshold: 0, special: true, root: true, zoom: 1, theme: "auto",
};

/** @type {State} */
export const state = { ...START };

/** @type {(() => void)[]} */
const listeners = [];

/**
 * How each field is read, from the address or from a control: undefined where it makes no sense.
 *
 * @type {Record<string, (given: any) => any>}
 */
const READ = {
  stack: (text) => (header.stacks.includes(text) ? text : undefined),
  view: (text) => (VIEWS.includes(text) ? text : undefined),
  part: (text) => (header.attentions.includes(text) ? text : undefined),
  theme: (text) => (THEME_NAMES.includes(text) ? text : undefined),
  between: (text) => (BETWEEN.includes(text) ? text : undefined),
  words: (given) => (hasWords() ? readFlag(given) : undefined),
  compare: readFlag, special: readFlag, root: readFlag,
  layer: (text) => readPlace(text, layerCount()),
  head: (text) => readPlace(text, headCount()),
  query: (text) => readToken(text, "query"),
  key: (text) => readToken(text, "key"),
  threshold: (text) => (Number(text) >= 0 && Number(text) <= 10 ? Number(text) : undefined),
  zoom: (text) => (ZOOMS.includes(Number(text)) ? Number(text) : undefined),
  heads: readHeads,
};

/** @type {(given: string | boolean) => boolean | undefined} */
function readFlag(given) {
  if (given === "1" || given === true) return true;
  return given === "0" || given === false ? false : undefined;
}

/** @type {(given: string | number, count: number) => number | undefined} */
function readPlace(given, count) {
  const number = Number(given);
  return given !== "" && Number.isInteger(number) && number >= 0 ? Math.min(number, count - 1) : undefined;
}

/** @type {(given: string | number | null, which: "query" | "key") => number | null | undefined} */
function readToken(given, which) {
  if (given === null || given === "") return null;
  return readPlace(given, largest(sides.map((side) => tokensOf(side, which).size)));
}

/** @type {(given: string | number[] | null) => number[] | null} */
function readHeads(given) {
  if (given === null || given === "all") return null;
  const listed = Array.isArray(given) ? given : String(given).split(",").filter((part) => part !== "");
  const valid = listed.map(Number).filter((head) => Number.isInteger(head) && head >= 0 && head < headCount());
  const unique = [...new Set(valid)].sort((a, b) => a - b);
  return unique.length === headCount() ? null : unique;
}

/** @type {(field: string, given: any) => any} */
function readField(field, given) {
  return Object.hasOwn(READ, field) ? READ[field](given) : undefined;
}

/** @type {(listener: () => void) => void} */
export function onStateChange(listener) {
  listeners.push(listener);
}

/**
 * Change some of it; what is not understood is left as it was.
 *
 * @type {(changes: Record<string, any>) => void}
 */
export function setState(changes) {
  const known = /** @type {Record<string, any>} */ (state);
  const moved = changeSides(changes, state);
  const read = Object.entries(changes).map(([field, wanted]) => [field, readField(field, wanted)]);
  const changed = read.filter(([field, value]) => value !== undefined && String(value) !== String(known[field]));
  if (changed.length === 0 && !moved) return;
  Object.assign(state, Object.fromEntries(changed));
  rememberState();
  announce();
}

/**
 * Take other sides where the changes ask for them: another attention of the model, or words in place of their pieces.
 *
 * @type {(changes: Record<string, any>, before: State) => boolean}
 */
function changeSides(changes, before) {
  const stack = readField("stack", changes.stack) ?? before.stack;
  const view = readField("view", changes.view) ?? before.view;
  const words = (readField("words", changes.words) ?? before.words) && view !== "neuron"; // of pieces
  if (stack === state.stack && words === showsWords()) return false;
  if (stack === state.stack) changeLevel(words);
  else changeStack(stack, words);
  return true;
}

/** @type {(words: boolean) => void} */
function changeLevel(words) {
  const before = sides[0].joined;
  takeSides(state.stack, words);
  forgetAll();
  const after = sides[0].joined;
  const query = atOtherLevel(state.query, before?.queries ?? null, after?.queries ?? null);
  const key = atOtherLevel(state.key, before?.keys ?? null, after?.keys ?? null);
  Object.assign(state, { query, key });
}

/**
 * Another attention of the model may have fewer layers and heads, and has other tokens.
 *
 * @type {(stack: string | null, words: boolean) => void}
 */
function changeStack(stack, words) {
  takeSides(stack, words);
  forgetAll();
  const layer = Math.min(state.layer, layerCount() - 1);
  const head = Math.min(state.head, headCount() - 1);
  Object.assign(state, { stack, layer, head, heads: null, query: null, key: null });
}

/** @type {() => void} */
function announce() {
  listeners.forEach((listen) => listen());
  redraw();
}

/**
 * The end of the address that restores what is shown now.
 *
 * @type {() => string}
 */
export function hashOfState() {
  const parts = new URLSearchParams();
  const now = /** @type {Record<string, any>} */ (state);
  for (const [field, start] of Object.entries(START)) {
    const value = now[field];
    if (field !== "view" && (value === null || String(value) === String(start))) continue;
    parts.set(field, typeof value === "boolean" ? String(Number(value)) : String(value));
  }
  return `#${parts.toString().replaceAll("%2C", ",")}`;
}

/** @type {() => void} */
function rememberState() {
  try {
    history.replaceState(null, "", hashOfState());
  } catch {
    // in a notebook the page has no address of its own
  }
}

/** @type {() => void} */
export function readAddress() {
  const address = new URLSearchParams(location.hash.replace(/^#/, ""));
  const given = [...address];
  changeSides(Object.fromEntries(given), START);
  const read = given.map(([field, text]) => [field, readField(field, text)]).filter(([, value]) => value !== undefined);
  Object.assign(state, START, Object.fromEntries(read));
}

/**
 * After the reader edits the address, or goes back.
 *
 * @type {() => void}
 */
export function restoreState() {
  if (location.hash === "#stage" || location.hash === hashOfState()) return;
  readAddress();
  announce();
}
