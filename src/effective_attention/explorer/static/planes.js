// A plane is one head's matrix, size × size whole numbers. Null = standard − effective and difference = effective − standard, exact.
const planes = new Kept(96e6);
const pools = new Kept(64e6);
const limits = new Kept(1e6);
const POOL = 64; // at most so many rows and columns in a thumbnail

function isSigned(part, compare) {
  return compare || part !== "standard";
}

// Is second − first shown? Only where the sides have the very same tokens, and where a difference means something.
function comparing(view = state.view) {
  return state.compare && canCompare() && view !== "neuron";
}

function canCompare() {
  return sides.length === 2 && header.same_tokens;
}

// The sides that have a pane of their own; -1 stands for second − first.
function paneSides() {
  return comparing() ? [-1] : sides.map((_, side) => side);
}

function sideOf(pane) {
  return pane < 0 ? 0 : pane;
}

function hasHead(pane, layer, head) {
  const of = pane < 0 ? sides : [sides[pane]];
  return of.every((side) => layer < side.layers && head < side.heads);
}

function planeReady(pane, part, layer) {
  const of = pane < 0 ? [0, 1] : [pane];
  return of.map((side) => layerReady(side, part, layer)).every(Boolean);
}

function plane(pane, part, layer, head) {
  const start = head * sides[sideOf(pane)].size ** 2;
  const cut = (side, which) => {
    const cells = sides[side].size ** 2;
    return blocks.ready.get(blockIds(side, which, layer)[0]).subarray(start, start + cells);
  };
  if (pane >= 0 && (part === "standard" || part === "effective")) return cut(pane, part);
  return planes.get(`${pane} ${part} ${layer} ${head}`, () => {
    if (pane < 0) return minus(plane(1, part, layer, head), plane(0, part, layer, head));
    const [first, second] = part === "null" ? ["standard", "effective"] : ["effective", "standard"];
    return minus(cut(pane, first), cut(pane, second));
  });
}

function minus(first, second) {
  const result = new Int32Array(first.length);
  for (let i = 0; i < result.length; i++) result[i] = first[i] - second[i];
  return result;
}

// Places of the tokens that are shown; all of them rather than none.
function shownTokens(pane) {
  const side = sides[sideOf(pane)];
  const all = side.tokens.map((_, place) => place);
  const words = state.special ? all : all.filter((place) => !side.special[place]);
  return words.length > 0 ? words : all;
}

function planeLimit(pane, part, layer, head) {
  return limits.get(`${pane} ${part} ${layer} ${head} ${state.special}`, () => {
    const numbers = plane(pane, part, layer, head);
    const size = sides[sideOf(pane)].size;
    const places = shownTokens(pane);
    let most = 0;
    for (const query of places) {
      for (const key of places) {
        const value = Math.abs(numbers[query * size + key]);
        if (value > most) most = value;
      }
    }
    return most;
  });
}

// The largest size of a weight over the panes: both sides are drawn on one scale.
function commonLimit(part, layer, heads) {
  let most = 0;
  for (const pane of paneSides()) {
    for (const head of heads) {
      if (hasHead(pane, layer, head) && planeReady(pane, part, layer)) most = Math.max(most, planeLimit(pane, part, layer, head));
    }
  }
  return most;
}

// A plane of the shown tokens made at most 64 × 64: of each field the number furthest from 0, so that thin lines survive.
function pooled(pane, part, layer, head) {
  return pools.get(`${pane} ${part} ${layer} ${head} ${state.special}`, () => {
    const numbers = plane(pane, part, layer, head);
    const size = sides[sideOf(pane)].size;
    const places = shownTokens(pane);
    const side = Math.min(POOL, places.length);
    const field = places.map((_, i) => Math.floor((i * side) / places.length));
    const pool = new Int32Array(side * side);
    places.forEach((query, i) => {
      places.forEach((key, j) => {
        const value = numbers[query * size + key];
        const at = field[i] * side + field[j];
        if (Math.abs(value) > Math.abs(pool[at])) pool[at] = value;
      });
    });
    return pool;
  });
}

function weightAt(pane, part, layer, head, query, key) {
  return plane(pane, part, layer, head)[query * sides[sideOf(pane)].size + key];
}

function thresholdWhole() {
  return state.threshold * unit();
}
