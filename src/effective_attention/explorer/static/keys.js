// The keyboard, and the help that says what it does.
const KEYS = [
  ["← →", "head before, head after"], ["↑ ↓", "layer before, layer after (in a focused picture: move from cell to cell)"],
  ["1 – 5", "views: heads, model, heatmap, neuron, rollout"], ["s e n d", "standard, effective, null, difference"],
  ["c", "second − first, with two sides of the same tokens"], ["a", "all heads"], ["t", "special tokens in or out"],
  ["[ ]", "threshold down, up"], ["+ −", "zoom"], ["Enter", "in a focused picture: choose what is there"],
  ["l", "copy a link to this view"], ["?", "this help"], ["Esc", "close, or let go of what is held"],
];
const NOTES = [
  ["standard", "The weights after the softmax."],
  ["effective", "Attention A acts on the output through A·V only. Effective attention is A without what the values V cancel; it can be negative."],
  ["null", "Standard − effective: it changes nothing in the output, whatever its size."],
  ["rollout", "Attention of all layers multiplied down to the input tokens, heads averaged, with the residual connection."],
  ["numbers", "Values are shown as stored in this file, rounded once. Everything is in the file: nothing is loaded from anywhere."],
];

function buildHelp() {
  const box = byId("help-box");
  const entry = (name, text) => [make("dt", {}, name), make("dd", { textContent: text })];
  const keys = make("dl", { className: "keys" }, ...KEYS.flatMap(([key, text]) => entry(make("kbd", { textContent: key }), text)));
  const notes = make("dl", {}, ...NOTES.flatMap(([name, text]) => entry(name, text)));
  const close = make("button", { type: "button", id: "help-close", textContent: "Close" });
  close.addEventListener("click", () => box.close());
  box.append(make("h2", { id: "help-title", textContent: "Keys" }), keys, make("h2", { textContent: "What is shown" }), notes);
  box.append(make("p", { className: "made", textContent: header.made_by }), close);
  box.addEventListener("click", (event) => event.target === box && box.close());
  byId("help").addEventListener("click", () => box.showModal());
}

const ACTIONS = {
  s: () => setState({ part: "standard" }), e: () => setState({ part: "effective" }),
  n: () => setState({ part: "null" }), d: () => setState({ part: "difference" }),
  c: () => canCompare() && setState({ compare: !state.compare }),
  a: () => setState({ heads: null }), t: () => setState({ special: !state.special }), l: () => copyLink(),
  "[": () => moveThreshold(-1), "]": () => moveThreshold(1), "+": () => zoom(1), "=": () => zoom(1), "-": () => zoom(-1),
  "?": () => byId("help-box").showModal(), Escape: () => escape(),
  ArrowLeft: () => step("head", -1), ArrowRight: () => step("head", 1),
  ArrowUp: () => step("layer", state.view === "rollout" ? 1 : -1), ArrowDown: () => step("layer", state.view === "rollout" ? -1 : 1),
};
VIEWS.forEach((view, index) => { ACTIONS[index + 1] = () => setState({ view }); });

function escape() {
  if (!byId("export-menu").hidden) closeMenu();
  else setState({ query: null, key: null });
  setHover(0, null);
}

// Keys that a control needs for itself stay with it.
function belongsToControl(event) {
  const { tagName, type } = event.target;
  if (tagName === "SELECT") return event.key.startsWith("Arrow") || event.key.length === 1;
  if (tagName === "INPUT") return type === "range" ? event.key.startsWith("Arrow") : type !== "checkbox";
  return false;
}

function buildKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help-box").open || belongsToControl(event)) return;
    const act = Object.hasOwn(ACTIONS, event.key) ? ACTIONS[event.key] : undefined;
    if (act === undefined) return;
    event.preventDefault();
    act();
  });
}
