// The toolbar: what it says follows the state, and what is done to it changes the state.
const VIEW_TITLES = {
  heads: "lines between tokens, a colour per head", model: "all layers and heads", heatmap: "one head as a matrix",
  neuron: "queries and keys, number by number", rollout: "what reaches a token through all layers",
};
const PART_TITLES = {
  standard: "the softmax weights (s)", effective: "what of them reaches the output (e)",
  null: "standard minus effective: what has no influence on the output (n)",
  difference: "effective minus standard, that is minus the null part (d)",
};

function buildControls() {
  byId("views").append(...VIEWS.map((view, index) => choice("view", view, `${VIEW_TITLES[view]} (${index + 1})`)));
  byId("parts").append(...PARTS.map((part) => choice("part", part, PART_TITLES[part])));
  if (canCompare()) {
    const title = `${sideName(1)} minus ${sideName(0)} of the chosen attention (c)`;
    const button = make("button", { type: "button", id: "compare", title, textContent: `second ${MINUS} first` });
    button.addEventListener("click", () => setState({ compare: !state.compare }));
    byId("parts").append(button);
  }
  fillNumbers("layer", layerCount());
  fillNumbers("head", headCount());
  byId("threshold").max = LADDER.length - 1;
  listenToControls();
  listeners.push(showControls);
  showControls();
}

function choice(field, value, title) {
  const button = make("button", { type: "button", textContent: value, title });
  button.dataset[field] = value;
  button.addEventListener("click", () => setState({ [field]: value }));
  return button;
}

function fillNumbers(id, count) {
  byId(id).append(...Array.from({ length: count }, (_, number) => make("option", { value: String(number), textContent: String(number) })));
}

function listenToControls() {
  byId("layer").addEventListener("change", (event) => setState({ layer: event.target.value }));
  byId("head").addEventListener("change", (event) => takeHead(Number(event.target.value)));
  byId("query").addEventListener("change", (event) => setState({ query: event.target.value }));
  byId("key").addEventListener("change", (event) => setState({ key: event.target.value }));
  byId("threshold").addEventListener("input", (event) => setState({ threshold: LADDER[event.target.value] }));
  byId("special").addEventListener("change", (event) => setState({ special: event.target.checked }));
  byId("root").addEventListener("change", (event) => setState({ root: event.target.checked }));
  byId("theme").addEventListener("click", nextTheme);
  for (const button of document.querySelectorAll("[data-step]")) {
    const [field, by] = button.dataset.step.split(",");
    button.addEventListener("click", () => step(field, Number(by)));
  }
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
}

function step(field, by) {
  const count = field === "layer" ? layerCount() : headCount();
  const next = clamp(state[field] + by, 0, count - 1);
  if (field === "layer") setState({ layer: next });
  else takeHead(next);
}

// In the view of heads, going to a head shows it alone.
function takeHead(head) {
  setState(state.view === "heads" ? { head, heads: [head] } : { head });
}

function zoom(by) {
  setState({ zoom: ZOOMS[clamp(ZOOMS.indexOf(state.zoom) + by, 0, ZOOMS.length - 1)] });
}

function moveThreshold(by) {
  setState({ threshold: LADDER[clamp(nearestThreshold() + by, 0, LADDER.length - 1)] });
}

function nearestThreshold() {
  return LADDER.reduce((best, value, index) => (Math.abs(value - state.threshold) < Math.abs(LADDER[best] - state.threshold) ? index : best), 0);
}

function nextTheme() {
  const order = ["auto", "light", "dark"];
  setState({ theme: order[(order.indexOf(state.theme) + 1) % 3] });
}

function showControls() {
  document.documentElement.dataset.theme = state.theme === "auto" ? "" : state.theme;
  byId("theme").textContent = { auto: "◐ auto", light: "○ light", dark: "● dark" }[state.theme];
  byId("theme").setAttribute("aria-label", `colours: ${state.theme}`);
  for (const button of document.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", String(button.dataset.view === state.view));
  for (const button of document.querySelectorAll("[data-part]")) {
    button.setAttribute("aria-pressed", String(button.dataset.part === state.part));
    button.disabled = button.dataset.part === "null" && state.view === "rollout" && state.part !== "null";
  }
  byId("compare")?.setAttribute("aria-pressed", String(state.compare));
  byId("layer").value = state.layer;
  byId("head").value = state.head;
  byId("special").checked = state.special;
  byId("root").checked = state.root;
  byId("threshold").value = nearestThreshold();
  byId("threshold-shown").textContent = state.threshold === 0 ? "0" : String(state.threshold);
  byId("threshold").setAttribute("aria-valuetext", `weights below ${state.threshold} are left out`);
  showFields();
  showTokens();
  showChips();
}

function showFields() {
  const { view } = state;
  byId("layer-field").hidden = view === "model";
  byId("head-field").hidden = view === "model" || view === "rollout";
  byId("query-field").hidden = view !== "neuron" && view !== "rollout";
  byId("key-field").hidden = view !== "neuron";
  byId("threshold-field").hidden = view === "neuron";
  byId("root-field").hidden = view === "heads";
}

// Lists of tokens, of the first side: filled anew only when they change.
function showTokens() {
  for (const id of ["query", "key"]) {
    if (byId(`${id}-field`).hidden) continue;
    const places = shownTokens(0);
    const mark = places.join();
    if (byId(id).dataset.places !== mark) {
      byId(id).dataset.places = mark;
      const options = places.map((place) => make("option", { value: String(place), textContent: `${place}  ${tokenLabel(sides[0].tokens[place])}` }));
      byId(id).replaceChildren(...(id === "key" ? [make("option", { value: "", textContent: "strongest" })] : []), ...options);
    }
    const none = id === "key" ? "" : String(state.view === "rollout" ? 0 : places[0]);
    byId(id).value = state[id] === null ? none : String(Math.min(state[id], sides[0].size - 1));
  }
}

function showChips() {
  const root = byId("chips");
  root.hidden = state.view !== "heads";
  if (root.hidden) return;
  if (root.childElementCount === 0) buildChips(root);
  const on = new Set(activeHeads());
  for (const chip of root.querySelectorAll("[data-head]")) {
    const head = Number(chip.dataset.head);
    const colour = headColour(head, themeNow());
    chip.setAttribute("aria-pressed", String(on.has(head)));
    const filled = on.has(head) ? { background: colour, color: textOn(colour) } : { background: "", color: "" };
    Object.assign(chip.style, filled, { borderColor: colour });
  }
  root.querySelector(".all").setAttribute("aria-pressed", String(state.heads === null));
}

// A click turns a head on or off; a double click, or one with Alt, leaves it alone with itself.
function buildChips(root) {
  const all = make("button", { type: "button", className: "all", textContent: "all", title: "all heads (a)" });
  all.addEventListener("click", () => setState({ heads: state.heads === null ? [] : null }));
  root.append(make("span", { className: "name", textContent: "Heads" }), all);
  for (let head = 0; head < headCount(); head++) {
    const title = `head ${head}: click to turn on or off, double click for this one only`;
    const chip = make("button", { type: "button", textContent: String(head), title, "aria-label": `head ${head}` });
    chip.dataset.head = head;
    const only = () => setState({ heads: [head], head });
    chip.addEventListener("click", (event) => (event.altKey ? only() : toggleHead(head)));
    chip.addEventListener("dblclick", only);
    root.append(chip);
  }
}

function toggleHead(head) {
  const on = activeHeads();
  setState({ heads: on.includes(head) ? on.filter((other) => other !== head) : [...on, head] });
}
