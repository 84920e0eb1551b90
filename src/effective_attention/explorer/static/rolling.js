// Rollout (Abnar & Zuidema 2020) of one token, layer by layer: heads averaged, residual added, and the token's row carried down
// through the layers below. As analyses/graph.py: what negative weights become is settled in each head, before the average; then
// the rows of effective attention are divided by their sum; standard attention is left as it is.
const graphs = new Kept(200e6);

function graphOf(side, part, layer) {
  return graphs.get(`${side} ${part} ${layer}`, () => {
    const { size, heads, convention } = sides[side];
    const numbers = blocks.ready.get(blockIds(side, part, layer)[0]);
    const mean = new Float64Array(size * size);
    const asIs = part === "standard";
    for (let head = 0; head < heads; head++) {
      const start = head * size * size;
      for (let i = 0; i < mean.length; i++) {
        const value = numbers[start + i];
        mean[i] += asIs || value > 0 ? value : convention === "absolute" ? -value : 0;
      }
    }
    for (let row = 0; row < size; row++) divideRow(mean, row * size, size, asIs ? heads * unit() : 0);
    return mean;
  });
}

function divideRow(numbers, start, size, by) {
  let total = by;
  if (by === 0) for (let i = start; i < start + size; i++) total += numbers[i];
  if (total === 0) return;
  for (let i = start; i < start + size; i++) numbers[i] /= total;
}

// A row (of weights over the tokens of a layer's output) carried to that layer's input.
function carried(row, graph, residual) {
  const size = row.length;
  const result = new Float64Array(size);
  for (let from = 0; from < size; from++) {
    const weight = row[from];
    if (weight === 0) continue;
    result[from] += residual * weight;
    const share = (1 - residual) * weight;
    const start = from * size;
    for (let to = 0; to < size; to++) result[to] += share * graph[start + to];
  }
  return result;
}

// (layer, token), as whole numbers like every weight: what has reached the token in each layer's output from the input.
function rolloutOf(side, part, query) {
  const { size, layers, residual } = sides[side];
  const result = new Float64Array(layers * size);
  for (let top = 0; top < layers; top++) {
    let row = new Float64Array(size);
    row[query] = 1;
    for (let layer = top; layer >= 0; layer--) row = carried(row, graphOf(side, part, layer), residual);
    result.set(row, top * size);
  }
  return result;
}

const rollouts = new Kept(32e6);

function rolloutNumbers(pane, part, query) {
  return rollouts.get(`${pane} ${part} ${query}`, () => {
    const of = (side) => {
      if (part !== "difference") return rolloutOf(side, part, query);
      const standard = rolloutOf(side, "standard", query);
      return rolloutOf(side, "effective", query).map((value, i) => value - standard[i]);
    };
    const first = of(sideOf(pane));
    const values = pane < 0 ? of(1).map((value, i) => value - first[i]) : first;
    return Int32Array.from(values, (value) => Math.round(value * unit()));
  });
}

function rolloutPossible(pane) {
  return pane >= 0 || sides[0].layers === sides[1].layers;
}

function rolloutReady(pane, part) {
  const of = pane < 0 ? [0, 1] : [pane];
  const asked = part === "difference" ? ["standard", "effective"] : [part];
  const layers = of.flatMap((side) => Array.from({ length: sides[side].layers }, (_, layer) => [side, layer]));
  return layers.map(([side, layer]) => asked.map((one) => layerReady(side, one, layer)).every(Boolean)).every(Boolean);
}
