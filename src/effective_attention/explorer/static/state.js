// What is shown, as one flat object; the address holds what differs from the start, so that a link restores it.
const LADDER = [0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const ZOOMS = [0.5, 0.75, 1, 1.5, 2, 3, 4, 6];
const START = {
  view: "heads", part: "standard", compare: false, layer: 0, head: 0, heads: null, query: null, key: null,
  threshold: 0, special: true, root: true, zoom: 1, theme: "auto",
};
const state = { ...START };
const listeners = [];

const READ = {
  view: (text) => (VIEWS.includes(text) ? text : undefined),
  part: (text) => (PARTS.includes(text) ? text : undefined),
  theme: (text) => (["auto", "light", "dark"].includes(text) ? text : undefined),
  compare: readFlag, special: readFlag, root: readFlag,
  layer: (text) => readPlace(text, layerCount()),
  head: (text) => readPlace(text, headCount()),
  query: readToken, key: readToken,
  threshold: (text) => (Number(text) >= 0 && Number(text) <= 10 ? Number(text) : undefined),
  zoom: (text) => (ZOOMS.includes(Number(text)) ? Number(text) : undefined),
  heads: readHeads,
};

function readFlag(text) {
  return text === "1" || text === true ? true : text === "0" || text === false ? false : undefined;
}

function readPlace(text, count) {
  const number = Number(text);
  return text !== "" && Number.isInteger(number) && number >= 0 ? Math.min(number, count - 1) : undefined;
}

function readToken(text) {
  return text === null || text === "" ? null : readPlace(text, largest(sides.map((side) => side.size)));
}

function readHeads(text) {
  if (text === null || text === "all") return null;
  const numbers = (Array.isArray(text) ? text : String(text).split(",").filter((part) => part !== "")).map(Number);
  const valid = numbers.filter((head) => Number.isInteger(head) && head >= 0 && head < headCount());
  const unique = [...new Set(valid)].sort((a, b) => a - b);
  return unique.length === headCount() ? null : unique;
}

function hashOf(current) {
  const parts = new URLSearchParams();
  for (const [name, start] of Object.entries(START)) {
    const value = current[name];
    if (value === null || String(value) === String(start)) {
      if (name !== "view") continue;
    }
    parts.set(name, typeof value === "boolean" ? (value ? "1" : "0") : Array.isArray(value) ? value.join(",") : String(value));
  }
  return `#${parts.toString().replaceAll("%2C", ",")}`;
}

function stateOf(hash) {
  const found = { ...START };
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    const value = Object.hasOwn(READ, name) ? READ[name](text) : undefined;
    if (value !== undefined) found[name] = value;
  }
  return found;
}

// Change some of it; what is not understood is left as it was.
function setState(changes) {
  let changed = false;
  for (const [name, wanted] of Object.entries(changes)) {
    const value = Object.hasOwn(READ, name) ? READ[name](wanted) : undefined;
    if (value === undefined || String(value) === String(state[name])) continue;
    state[name] = value;
    changed = true;
  }
  if (!changed) return;
  rememberState();
  listeners.forEach((listen) => listen());
  redraw();
}

function rememberState() {
  try {
    history.replaceState(null, "", hashOf(state));
  } catch {
    // in a notebook the page has no address of its own
  }
}

function restoreState() {
  const hash = location.hash;
  if (hash === "#stage" || hash === hashOf(state)) return;
  Object.assign(state, stateOf(hash));
  listeners.forEach((listen) => listen());
  redraw();
}

function activeHeads() {
  return state.heads ?? Array.from({ length: headCount() }, (_, head) => head);
}

// The chosen query or key of a pane; the sides may have different lengths.
function chosenToken(name, pane) {
  const size = sides[sideOf(pane)].size;
  return state[name] === null ? null : Math.min(state[name], size - 1);
}
