// A chip per head, in its colour: which heads the view of heads shows.
import { headColour, textOn } from "../core/colours.js";
import { byId, every, make } from "../core/elements.js";
import { headCount } from "../core/header.js";
import { upTo } from "../core/numbers.js";
import { activeHeads } from "../core/selection.js";
import { setState, state } from "../core/state.js";
import { themeNow } from "../core/themes.js";

/** @type {() => void} */
export function showChips() {
  const root = byId("chips");
  root.hidden = state.view !== "heads";
  if (root.hidden) return;
  if (every("[data-head]", root).length !== headCount()) buildChips(root);
  const active = new Set(activeHeads());
  for (const chip of every("[data-head]", root)) {
    const head = Number(chip.dataset.head);
    const colour = headColour(head, themeNow());
    chip.setAttribute("aria-pressed", String(active.has(head)));
    const filled = active.has(head) ? { background: colour, color: textOn(colour) } : { background: "", color: "" };
    Object.assign(chip.style, filled, { borderColor: colour });
  }
  root.querySelector(".all").setAttribute("aria-pressed", String(state.heads === null));
}

/** @type {(root: HTMLElement) => void} */
function buildChips(root) {
  const all = make("button", { type: "button", className: "all", textContent: "all", title: "all heads (a)" });
  all.addEventListener("click", () => setState({ heads: state.heads === null ? [] : null }));
  const heading = make("span", { className: "name", textContent: "Heads" });
  root.replaceChildren(heading, all, ...upTo(headCount()).map(buildChip));
}

/**
 * A click turns a head on or off; a double click, or one with Alt, leaves it alone with itself.
 *
 * @type {(head: number) => HTMLElement}
 */
function buildChip(head) {
  const title = `head ${head}: click to turn on or off, double click for this one only`;
  const chip = make("button", { type: "button", textContent: String(head), title, "aria-label": `head ${head}` });
  chip.dataset.head = String(head);
  const only = () => setState({ heads: [head], head });
  chip.addEventListener("click", (click) => (click.altKey ? only() : toggleHead(head)));
  chip.addEventListener("dblclick", only);
  return chip;
}

/** @type {(head: number) => void} */
function toggleHead(head) {
  const active = activeHeads();
  setState({ heads: active.includes(head) ? active.filter((other) => other !== head) : [...active, head] });
}
