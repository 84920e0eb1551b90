// What the pointer or the keyboard is at, in words and exact numbers: the readout, and the tip beside the pointer.
let pointerAt = null;

// {text, value, query, key, layer, head, part, rows}: rows are lines of the tip, [colour or null, name, number].
function described() {
  const first = paneSides()[0];
  const held = { pane: first, query: chosenToken("query", first), key: chosenToken("key", first) };
  const target = hover ?? (held.query !== null && held.key !== null ? held : null);
  if (target === null || obstacle(target.pane) !== null) return null;
  const pane = target.pane;
  const side = sides[sideOf(pane)];
  const name = (place) => tokenLabel(side.tokens[Math.min(place, side.size - 1)]);
  const part = `${state.part}${pane < 0 ? ` ${sideName(1)} ${MINUS} ${sideName(0)}` : ""}`;
  const seen = { pane, side, name, part, target, who: pane < 0 ? "" : sideName(pane) };
  return { heads: tellHeads, model: tellModel, heatmap: tellCell, neuron: tellNeuron, rollout: tellRollout }[state.view](seen);
}

function tellModel({ part, target }) {
  if (target.layer === undefined) return null;
  const { layer, head } = target;
  const title = `layer ${layer} head ${head}`;
  return { title, text: `${title}  ${part}: click to open`, layer, head, rows: [] };
}

function tellCell({ pane, name, part, target, who }) {
  const { layer, head } = state;
  if (target.query === null || target.key === null) return tellLine({ name, target });
  const value = weightText(weightAt(pane, state.part, layer, head, target.query, target.key));
  const title = `${name(target.query)} → ${name(target.key)}`;
  const text = `${title}  layer ${layer} head ${head}  ${part} ${shown(value)}${who ? `  (${who})` : ""}`;
  return { title, text, value, query: target.query, key: target.key, layer, head, rows: [[null, part, shown(value)]] };
}

function tellLine({ name, target }) {
  const asked = target.query ?? target.key;
  if (asked === null) return null;
  const title = target.query === null ? `to ${name(asked)}` : `from ${name(asked)}`;
  return { title, text: `${title}: token ${asked}`, query: target.query, key: target.key, rows: [] };
}

// One pair: each head's number. One token: the strongest of its lines.
function tellHeads(seen) {
  const { pane, name, part, target } = seen;
  const query = target.query ?? (target.key === null ? null : chosenToken("query", pane));
  const key = target.key ?? null;
  const rows = headsHere(pane).flatMap((head) => {
    const others = query !== null && key !== null ? [[query, key]] : shownTokens(pane).map((other) => [query ?? other, key ?? other]);
    return others.map(([from, to]) => ({ head, from, to, value: weightAt(pane, state.part, state.layer, head, from, to) }));
  });
  if (query === null && key === null) return null;
  const pair = query !== null && key !== null;
  const strongest = largestOf(rows, (row) => Math.abs(row.value));
  const first = pair ? rows.find((row) => row.head === state.head) ?? strongest[0] : strongest[0];
  const title = pair ? `${name(query)} → ${name(key)}` : query !== null ? `from ${name(query)}` : `to ${name(key)}`;
  const label = ({ head, from, to }) => (pair ? `head ${head}` : `${name(query !== null ? to : from)}  (head ${head})`);
  const chosen = pair ? rows : strongest.slice(0, 6);
  const listed = chosen.map((row) => [headColour(row.head, themeNow()), label(row), shown(weightText(row.value))]);
  const said = pair && rows.length === 1 ? `head ${first.head}  ${part} ${shown(weightText(first.value))}`
    : `${part}: ${listed.map(([, about, value]) => `${about} ${value}`).join(", ")}`;
  const text = `${title}  layer ${state.layer} ${said}${seen.who ? `  (${seen.who})` : ""}`;
  return { title, text, value: weightText(first.value), query: first.from, key: first.to, layer: state.layer, head: first.head, rows: listed };
}

function tellNeuron(seen) {
  const { pane, name } = seen;
  if (seen.target.choose === "query") {
    const { query } = seen.target;
    return { title: `query ${name(query)}`, text: `${name(query)}: click to take its query`, query, rows: [] };
  }
  const found = tellCell({ ...seen, target: neuronPair(pane, seen.target) });
  const score = shown(scoreOf(pane, found.query, found.key).toFixed(2));
  return { ...found, text: `${found.text}  score ≈ ${score}`, rows: [...found.rows, [null, "score ≈", score]] };
}

function tellRollout({ pane, side, name, part, target, who }) {
  const query = rolloutToken(pane);
  const layer = target.layer ?? state.layer;
  if (target.key === null || target.key === undefined || layer >= side.layers) return null;
  const value = weightText(rolloutNumbers(pane, state.part, query)[layer * side.size + target.key]);
  const title = `${name(query)} ← ${name(target.key)}`;
  const text = `${title}  rollout to layer ${layer}  ${part} ${shown(value)}${who ? `  (${who})` : ""}`;
  return { title, text, value, query, key: target.key, layer, rows: [[null, `layer ${layer}`, shown(value)]] };
}

function tell() {
  const found = described();
  const readout = byId("readout");
  const text = found?.text ?? restingText();
  if (readout.textContent !== text) readout.textContent = text;
  for (const field of ["value", "query", "key", "layer", "head"]) {
    if (found?.[field] === undefined || found[field] === null) delete readout.dataset[field];
    else readout.dataset[field] = found[field];
  }
  readout.dataset.part = state.part;
  showTip(hover === null ? null : found);
}

// With nothing in focus: what the values allow the head's attention to be.
function restingText() {
  const { layer, head } = state;
  if (state.view === "model") return "Point at a head to see it larger; click to open it.";
  const facts = sides.map((side, index) => {
    const rank = side.ranks?.[layer]?.[head];
    if (rank === undefined || rank === null) return "";
    const lost = rank >= side.size ? "nothing is lost: effective equals standard" : `a null space of ${side.size - rank} dimensions`;
    return `${sideName(index) ? `${sideName(index)}: ` : ""}values of rank ${rank} for ${side.size} tokens, ${lost}`;
  });
  const said = facts.filter(Boolean).join(" · ");
  return state.view === "rollout" || said === "" ? "Point at a cell or a token to read its value." : `Layer ${layer} head ${head}: ${said}.`;
}

function placeTip(pointer) {
  pointerAt = pointer;
}

function showTip(found) {
  const tip = byId("tip");
  tip.hidden = found === null || pointerAt === null;
  if (tip.hidden) return;
  const one = panes.find((each) => each.pane === hover.pane);
  const rows = found.rows.slice(0, 16).map(([colour, label, value]) => {
    const chip = make("i");
    if (colour) chip.style.background = colour;
    return make("div", { className: "row" }, ...(colour ? [chip] : []), make("span", { textContent: label }), make("b", { textContent: value }));
  });
  const lens = one?.scene?.lens?.(hover, themeNow());
  tip.replaceChildren(make("strong", { textContent: found.title }), ...rows, ...(lens ? [enlarged(lens)] : []));
  const box = tip.getBoundingClientRect();
  const [wide, high] = [document.documentElement.clientWidth, innerHeight];
  const x = pointerAt.x + 18 + box.width > wide ? pointerAt.x - box.width - 14 : pointerAt.x + 18;
  const y = pointerAt.y + 18 + box.height > high ? pointerAt.y - box.height - 10 : pointerAt.y + 18;
  tip.style.left = `${clamp(x, 4, Math.max(wide - box.width - 4, 4))}px`;
  tip.style.top = `${clamp(y, 4, Math.max(high - box.height - 4, 4))}px`;
}

function enlarged(picture) {
  const canvas = make("canvas", { width: 220, height: 220 });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, 0, 0, 220, 220);
  return canvas;
}
