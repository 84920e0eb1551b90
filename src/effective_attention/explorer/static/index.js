// The list of pages: sorts and filters the rows that stand in the file; the address holds how.
import { byId, every } from "./core/elements.js";

const START = { order: "example", down: "0", filter: "" };
const WORST = "error";
const AS_TEXT = ["text", "gold", "answer"];
const body = document.querySelector("tbody");
/** @type {HTMLElement[]} */
const rows = Array.from(every("tbody tr"));
const state = { ...START };

/** @type {(field: string) => boolean} */
function isNumber(field) {
  return !AS_TEXT.includes(field) || rows.every((row) => !Number.isNaN(Number(row.dataset[field])));
}

/**
 * What is not known comes last, whichever way the list is sorted; equal ones stay in the order of the split.
 *
 * @type {(first: HTMLElement, second: HTMLElement) => number}
 */
function compare(first, second) {
  const [one, other] = [first, second].map((row) => row.dataset[state.order] ?? "");
  if (one === "" || other === "") return Number(one === "") - Number(other === "");
  const way = isDown() ? -1 : 1;
  return way * (isNumber(state.order) ? Number(one) - Number(other) : one.localeCompare(other));
}

/** @type {() => boolean} */
const isDown = () => state.down === "1";

/** @type {(row: HTMLElement) => boolean} */
function fits({ dataset }) {
  const { example, text, gold, answer, right } = dataset;
  const said = [example, text, gold, answer, right].join(" ").toLowerCase();
  return state.filter.toLowerCase().split(/\s+/).every((word) => said.includes(word));
}

/** @type {(row: HTMLElement) => number} */
const inSplit = (row) => Number(row.dataset.example);

/** @type {() => void} */
function show() {
  body?.append(...rows.toSorted((a, b) => inSplit(a) - inSplit(b)).sort(compare));
  for (const row of rows) row.hidden = !fits(row);
  const count = rows.filter((row) => !row.hidden).length;
  byId("none").hidden = count > 0;
  byId("shown").textContent = state.filter === "" ? "" : `${count} of ${rows.length}`;
  byId("order").value = state.order;
  if (byId("filter").value !== state.filter) byId("filter").value = state.filter;
  byId("worst").setAttribute("aria-pressed", String(state.order === WORST && isDown()));
  for (const heading of every("[data-order]")) {
    const sorted = heading.dataset.order === state.order ? (isDown() ? "descending" : "ascending") : "none";
    heading.setAttribute("aria-sort", sorted);
  }
}

/** @type {(changes: Partial<typeof state>) => void} */
function change(changes) {
  Object.assign(state, changes);
  const differing = Object.entries(state).filter(([field, value]) => value !== Object(START)[field]);
  try {
    history.replaceState(null, "", `#${new URLSearchParams(differing)}`);
  } catch {
    // in a frame the page has no address of its own
  }
  show();
}

/**
 * The largest error comes first; of everything else, the smallest.
 *
 * @type {(order: string) => string}
 */
const firstWay = (order) => (order === WORST ? "1" : "0");

/** @type {() => void} */
function readAddress() {
  const address = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const known = Array.from(byId("order").options, (/** @type {HTMLOptionElement} */ { value }) => value);
  const order = known.includes(address.order) ? address.order : START.order;
  Object.assign(state, { order, down: address.down === "1" ? "1" : "0", filter: address.filter ?? "" });
  show();
}

/** @type {(order: string) => void} */
function sortBy(order) {
  const again = order === state.order;
  change({ order, down: again ? String(1 - Number(state.down)) : firstWay(order) });
}

byId("filter").addEventListener("input", () => change({ filter: byId("filter").value.trim() }));
byId("order").addEventListener("change", () => {
  const order = byId("order").value;
  change({ order, down: firstWay(order) });
});
byId("worst").addEventListener("click", () => {
  const worst = state.order === WORST && isDown();
  change(worst ? { order: START.order, down: START.down } : { order: WORST, down: "1" });
});
for (const heading of every("[data-order]")) {
  heading.querySelector("button").addEventListener("click", () => sortBy(heading.dataset.order));
}
addEventListener("hashchange", () => {
  if (location.hash !== "#list") readAddress();
});
readAddress();
