// The toolbar: what it says follows the state, and what is done to it changes the state.
import { byId, every, make } from "../core/elements.js";
import {
  differenceName, hasWords, headCount, header, layerCount, showsWords, sides, tokenLabel, tokensOf, VIEWS,
} from "../core/header.js";
import { upTo } from "../core/numbers.js";
import { BETWEEN_NAMES, canCompare, chosenToken, hasPairs, queryToken, shownTokens } from "../core/selection.js";
import { BETWEEN, onStateChange, setState, state, THRESHOLDS } from "../core/state.js";
import { closedPart, closedView } from "../views/obstacles.js";
import { showChips } from "./head_chips.js";
import { nearestThreshold, nextTheme, stepHead, stepLayer, stepZoom, takeHead } from "./steps.js";

/** @type {Record<View, string>} */
const VIEW_TITLES = {
  heads: "lines between tokens, a colour per head", model: "all layers and heads", heatmap: "one head as a matrix",
  neuron: "queries and keys, number by number", rollout: "what reaches a token through all layers",
};
/** @type {Record<Attention, string>} */
const PART_TITLES = {
  standard: "the softmax weights (s)", effective: "what of them reaches the output (e)",
  null: "standard minus effective: what has no influence on the output (n)",
  affine: "effective attention whose rows sum to 1 (f)",
  sparse: "as few weights as give the same output, none below 0 (p)",
  smallest: "the smallest weights that give the same output, none below 0 (m)",
  difference: "effective minus standard, that is minus the null part (d)",
};
/** @type {Record<string, string>} */
const STACK_TITLES = {
  encoder: "the text that is read, to itself (x: the next)", decoder: "the text that is written, to itself (x)",
  cross: "from the text that is written to the one that is read (x)",
};
/** @type {Record<string, string>} */
const LEVEL_TITLES = {
  words: "pieces of a word joined: the sum to its pieces, the mean from them (w)", pieces: "tokens, as stored (w)",
};
const PIECES_ONLY = "In the neuron view there are pieces only: each has a query and a key of its own.";
/** @type {Record<string, string>} */
const THEME_LABELS = { auto: "◐ auto", light: "○ light", dark: "● dark" };

/** @type {() => void} */
export function buildToolbar() {
  byId("stacks").hidden = header.stacks.length === 0;
  byId("stacks").append(...header.stacks.map((stack) => choiceOf("stack", stack, STACK_TITLES[stack])));
  byId("views").append(...VIEWS.map((view) => choiceOf("view", view, viewTitle(view))));
  byId("parts").append(...header.attentions.map((part) => choiceOf("part", part, PART_TITLES[part])));
  byId("compare").hidden = !canCompare();
  if (canCompare()) buildCompare(byId("compare"));
  byId("levels").hidden = !hasWords();
  byId("levels").append(...["words", "pieces"].map(levelButton));
  byId("between-field").hidden = !hasPairs();
  byId("between").append(...BETWEEN.map((value) => optionOf(value, BETWEEN_NAMES[value])));
  byId("threshold").max = THRESHOLDS.length - 1;
  listenToFields();
  listenToButtons();
  onStateChange(showToolbar);
  showToolbar();
}

/** @type {(view: View) => string} */
function viewTitle(view) {
  return `${VIEW_TITLES[view]} (${VIEWS.indexOf(view) + 1})`;
}

/** @type {(field: string, value: string, title: string) => HTMLElement} */
function choiceOf(field, value, title) {
  const button = make("button", { type: "button", textContent: value, title });
  button.dataset[field] = value;
  button.addEventListener("click", () => setState({ [field]: value }));
  return button;
}

/** @type {(button: HTMLButtonElement) => void} */
function buildCompare(button) {
  button.title = `${differenceName("minus")}, of the chosen attention (c)`;
  button.textContent = differenceName();
  button.addEventListener("click", () => setState({ compare: !state.compare }));
}

/** @type {(level: string) => HTMLElement} */
function levelButton(level) {
  const button = make("button", { type: "button", textContent: level });
  button.dataset.level = level;
  button.addEventListener("click", () => setState({ words: level === "words" }));
  return button;
}

/**
 * Of a model's three attentions each may have its own number of layers and heads.
 *
 * @type {(id: string, count: number) => void}
 */
function fillNumbers(id, count) {
  if (byId(id).childElementCount === count) return;
  byId(id).replaceChildren(...upTo(count).map((number) => optionOf(String(number), String(number))));
}

/** @type {(value: string, text: string) => HTMLElement} */
function optionOf(value, text) {
  return make("option", { value, textContent: text });
}

/** @type {() => void} */
function listenToFields() {
  /** @type {(id: string, kind: string, use: (field: any) => void) => void} */
  const on = (id, kind, use) => byId(id).addEventListener(kind, () => use(byId(id)));
  on("layer", "change", (field) => setState({ layer: field.value }));
  on("head", "change", (field) => takeHead(Number(field.value)));
  on("query", "change", (field) => setState({ query: field.value }));
  on("key", "change", (field) => setState({ key: field.value }));
  on("between", "change", (field) => setState({ between: field.value }));
  on("threshold", "input", (field) => setState({ threshold: THRESHOLDS[field.value] }));
  on("special", "change", (field) => setState({ special: field.checked }));
  on("root", "change", (field) => setState({ root: field.checked }));
}

/** @type {() => void} */
function listenToButtons() {
  byId("theme").addEventListener("click", nextTheme);
  byId("more").addEventListener("click", toggleMore);
  for (const button of every("[data-step]")) {
    const [field, by] = button.dataset.step.split(",");
    button.addEventListener("click", () => (field === "layer" ? stepLayer : stepHead)(Number(by)));
  }
  for (const button of every("[data-zoom]")) {
    button.addEventListener("click", () => stepZoom(Number(button.dataset.zoom)));
  }
}

/**
 * On a narrow screen some controls wait behind a button; elsewhere there is no such button.
 *
 * @type {() => void}
 */
function toggleMore() {
  const isOpen = byId("more").getAttribute("aria-expanded") === "true";
  byId("more").setAttribute("aria-expanded", String(!isOpen));
}

/** @type {() => void} */
function showToolbar() {
  showTheme();
  showChoices();
  showThreshold();
  fillNumbers("layer", layerCount());
  fillNumbers("head", headCount());
  byId("layer").value = state.layer;
  byId("head").value = state.head;
  byId("between").value = state.between;
  byId("special").checked = state.special;
  byId("root").checked = state.root;
  showFields();
  showTokens();
  showChips();
}

/** @type {() => void} */
function showTheme() {
  document.documentElement.dataset.theme = state.theme === "auto" ? "" : state.theme;
  byId("theme").textContent = THEME_LABELS[state.theme];
  byId("theme").setAttribute("aria-label", `colours: ${state.theme}`);
}

/** @type {() => void} */
function showChoices() {
  for (const button of every("[data-view]")) {
    const { view } = button.dataset;
    showChoice(button, view === state.view, viewTitle(view), closedView(view));
  }
  for (const button of every("[data-stack]")) {
    button.setAttribute("aria-pressed", String(button.dataset.stack === state.stack));
  }
  for (const button of every("[data-part]")) {
    const { part } = button.dataset;
    showChoice(button, part === state.part, PART_TITLES[/** @type {Attention} */ (part)], closedPart(part));
  }
  for (const button of every("[data-level]")) {
    const { level } = button.dataset;
    const reason = level === "words" && state.view === "neuron" ? PIECES_ONLY : null;
    showChoice(button, showsWords() === (level === "words"), LEVEL_TITLES[level], reason);
  }
  byId("compare").setAttribute("aria-pressed", String(state.compare));
}

/**
 * A choice that leads nowhere is struck out and says why; one that a link has led to stays as it is.
 *
 * @type {(button: HTMLButtonElement, chosen: boolean, title: string, reason: string | null) => void}
 */
function showChoice(button, chosen, title, reason) {
  button.setAttribute("aria-pressed", String(chosen));
  button.disabled = reason !== null && !chosen;
  button.title = reason ?? title;
}

/** @type {() => void} */
function showThreshold() {
  const slider = byId("threshold");
  slider.value = nearestThreshold();
  slider.setAttribute("aria-valuetext", `weights below ${state.threshold} are left out`);
  byId("threshold-shown").textContent = String(state.threshold);
}

/**
 * Each view has the fields it needs.
 *
 * @type {() => void}
 */
function showFields() {
  const { view } = state;
  byId("layer-field").hidden = view === "model";
  byId("head-field").hidden = view === "model" || view === "rollout";
  byId("query-field").hidden = view !== "neuron" && view !== "rollout";
  byId("key-field").hidden = view !== "neuron";
  byId("threshold-field").hidden = view === "neuron";
  byId("root-field").hidden = view === "heads";
}

/** @type {() => void} */
function showTokens() {
  if (!byId("query-field").hidden) showTokenList("query", queryToken(0), []);
  if (!byId("key-field").hidden) showTokenList("key", chosenToken("key", 0), [optionOf("", "strongest")]);
}

/**
 * A list of tokens, of the first side: filled anew only when they change.
 *
 * @type {(id: "query" | "key", chosen: number | null, before: HTMLElement[]) => void}
 */
function showTokenList(id, chosen, before) {
  const list = byId(id);
  const { tokens } = tokensOf(sides[0], id);
  const places = shownTokens(0, id);
  const listed = `${state.stack} ${showsWords()} ${places.join()}`;
  if (list.dataset.places !== listed) {
    list.dataset.places = listed;
    const options = places.map((place) => optionOf(String(place), `${place}  ${tokenLabel(tokens[place])}`));
    list.replaceChildren(...before, ...options);
  }
  list.value = chosen === null ? "" : String(chosen);
}
