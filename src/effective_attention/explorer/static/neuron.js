// Why a head attends: the query of one token and the key of another, number by number, and their products. Their sum times the
// scaling is the score; the softmax of the scores is standard attention.
const scored = new Kept(64e6);

function neuronAvailable(pane) {
  const of = sides[pane].blocks;
  return of.query?.[state.layer] != null && of.key?.[state.layer] != null;
}

function neuronReady(pane) {
  const of = sides[pane].blocks;
  const asked = [block(of.query[state.layer]), block(of.key[state.layer])];
  return planeReady(pane, state.part, state.layer) && asked.every((numbers) => numbers !== undefined);
}

function vector(pane, which, token) {
  const { size, d_key: width, blocks: of } = sides[pane];
  const start = (state.head * size + token) * width;
  return blocks.ready.get(of[which][state.layer]).subarray(start, start + width);
}

function products(pane, query, key) {
  const first = vector(pane, "query", query);
  const second = vector(pane, "key", key);
  return Int32Array.from(first, (value, i) => value * second[i]);
}

function scoreOf(pane, query, key) {
  const sum = products(pane, query, key).reduce((total, value) => total + value, 0);
  return (sum / 100 ** header.neuron_decimals) * scalingOf(pane);
}

function scalingOf(pane) {
  return sides[pane].scaling?.[state.layer] ?? 1;
}

// What a query makes of all keys, and how large numbers get: for bars and colours.
function neuronFacts(pane, query) {
  return scored.get(`${pane} ${state.layer} ${state.head} ${query}`, () => {
    const { size } = sides[pane];
    const keys = Array.from({ length: size }, (_, key) => key);
    const most = (numbers) => numbers.reduce((high, value) => Math.max(high, Math.abs(value)), 0);
    const vectors = largest(keys.map((key) => most(vector(pane, "key", key))).concat(most(vector(pane, "query", query))));
    return { scores: keys.map((key) => scoreOf(pane, query, key)), vectors, products: largest(keys.map((key) => most(products(pane, query, key)))) };
  });
}

function neuronPair(pane, hover) {
  const places = shownTokens(pane);
  const query = chosenToken("query", pane) ?? places[0];
  const held = hover?.key ?? chosenToken("key", pane);
  if (held !== null) return { query, key: held };
  const size = (key) => Math.abs(weightAt(pane, state.part, state.layer, state.head, query, key));
  return { query, key: places.reduce((best, key) => (size(key) > size(best) ? key : best), places[0]) };
}

function neuronScene(pane, room, hover) {
  const side = sides[pane];
  const places = shownTokens(pane);
  const names = places.map((place) => tokenLabel(side.tokens[place]));
  const { query, key } = neuronPair(pane, hover);
  const facts = neuronFacts(pane, query);
  const narrow = room.width < 620;
  const step = Math.max(10, Math.round(20 * state.zoom));
  const label = nameWidth(names, 12, narrow ? 74 : 130);
  const number = narrow ? 62 : 96;
  const width = Math.min(room.width, 1400);
  const spare = width - 2 * label - 2 * number - 36;
  const strip = narrow ? spare : Math.floor(spare / 2) - 6;
  const columns = { query: 0, key: narrow ? null : label + 10, product: label + 10 + (narrow ? 0 : strip + 12), strip, number };
  columns.score = columns.product + strip + 10;
  columns.weight = columns.score + number + 6;
  columns.name = columns.weight + number + 6;
  const top = (room.height < 460 ? 3 * 34 : 3 * 52) + 66;
  const limit = commonLimit(state.part, state.layer, [state.head]);
  const middle = (row) => top + (row + 0.5) * step;

  function draw(painter, window, theme) {
    const about = { pane, query, key, facts, columns, limit, theme, label, step, width };
    painter.clipped(0, top, window.width, Math.max(window.height - top, 0), () => painter.moved(-window.x, -window.y, () => {
      places.forEach((place, row) => {
        const y = middle(row);
        if (y > window.y + top - step && y < window.y + window.height + step) drawKeyRow(painter, place, names[row], y, about);
      });
    }));
    painter.moved(-window.x, 0, () => drawPair(painter, top, about));
  }

  function hit(x, y, window) {
    const row = Math.floor((y + window.y - top) / step);
    if (y < top || row < 0 || row >= places.length) return null;
    return x + window.x <= label + 4 ? { query: places[row], key: null, choose: "query", row } : { query, key: places[row], row };
  }

  function move(right, down) {
    if (right !== 0) setState({ query: places[clamp((placeIn(places, query) ?? 0) + right, 0, places.length - 1)] });
    const row = clamp((placeIn(places, key) ?? 0) + down, 0, places.length - 1);
    return { query: neuronPair(pane, null).query, key: places[row], row };
  }

  const box = (where) => ({ x: 0, y: middle(where.row ?? 0) - step / 2, width: 10, height: step, left: 0, top });
  return { width: Math.max(width, columns.name + label), height: top + places.length * step + 6, draw, hit, move, box };
}

function drawKeyRow(painter, place, name, y, { pane, query, key, facts, columns, limit, theme, label, step, width }) {
  if (place === key) painter.rect(label + 6, y - step / 2, width - label - 6, step, theme.band);
  if (place === query) painter.rect(0, y - step / 2, label + 4, step, theme.band);
  const look = (strong, align) => ({ size: 12, colour: strong ? theme.accent : theme.ink, bold: strong, align });
  painter.text(fitted(name, 12, label - 8), label - 2, y, look(place === query, "right"));
  painter.text(fitted(name, 12, label - 4), columns.name, y, look(place === key, "left"));
  const hidden = sides[pane].causal && place > query;
  const tall = step - 4;
  if (columns.key !== null) drawStrip(painter, vector(pane, "key", place), facts.vectors, columns.key, y - tall / 2, columns.strip, tall, theme);
  if (hidden) {
    painter.text("not visible to the query", columns.product + 4, y, { size: 11, colour: theme.soft });
    return;
  }
  drawStrip(painter, products(pane, query, place), facts.products, columns.product, y - tall / 2, columns.strip, tall, theme);
  const score = facts.scores[place];
  drawBar(painter, score, largest(facts.scores.map(Math.abs)), shown(score.toFixed(2)), columns.score, columns.number, y, tall, theme);
  const weight = weightAt(pane, state.part, state.layer, state.head, query, place);
  drawBar(painter, weight, limit, shown(weightText(weight)), columns.weight, columns.number, y, tall, theme);
}

// Numbers as cells in a row, orange below 0 and blue above.
function drawStrip(painter, numbers, limit, x, y, width, height, theme) {
  const cell = width / numbers.length;
  painter.rect(x, y, width, height, hexOf(ramp(theme.positive)[0]));
  numbers.forEach((value, i) => {
    if (value !== 0) painter.rect(x + i * cell, y, cell > 3 ? cell - 0.5 : cell, height, hexOf(cellColour(value, limit, theme)));
  });
}

function drawBar(painter, value, limit, text, x, width, y, height, theme) {
  const share = limit > 0 ? Math.min(Math.abs(value) / limit, 1) : 0;
  painter.rect(x, y - height / 2, share * width, height, hexOf(ramp(value < 0 ? theme.negative : theme.positive)[theme === THEMES.dark ? 90 : 75]));
  painter.text(text, x + 4, y, { size: 11, colour: theme.ink });
}

function drawPair(painter, top, { pane, query, key, facts, columns, theme, label, width }) {
  const tokens = sides[pane].tokens.map(tokenLabel);
  const tall = (top - 66) / 3;
  const rows = [
    [`query of “${tokens[query]}”`, "q", vector(pane, "query", query), facts.vectors],
    [`key of “${tokens[key]}”`, "k", vector(pane, "key", key), facts.vectors],
    ["by dimension", "q × k", products(pane, query, key), facts.products],
  ];
  const left = width < 620 ? 84 : 150;
  painter.rect(0, 0, width, top, theme.ground);
  rows.forEach(([title, letter, numbers, limit], index) => {
    const y = index * tall;
    painter.text(letter, 4, y + tall / 2 - 6, { size: 13, colour: theme.ink, bold: true });
    painter.text(fitted(title, 10.5, left - 8), 4, y + tall / 2 + 9, { size: 10.5, colour: theme.soft });
    drawBars(painter, numbers, limit, left, y + 3, width - left - 8, tall - 6, theme);
  });
  const score = facts.scores[key];
  const weight = weightText(weightAt(pane, state.part, state.layer, state.head, query, key));
  const scaling = sides[pane].scaling?.[state.layer];
  const sum = scaling == null ? "score (unscaled: the factor is not known) = Σ q×k" : `score = ${brief(scaling)} × Σ q×k`;
  const said = `${sum} ≈ ${shown(score.toFixed(2))}   ·   ${state.part} weight ${shown(weight)}`;
  const size = width < 620 ? 11 : 13;
  painter.text(fitted(said, size, width - 8), 4, 3 * tall + 14, { size, colour: theme.ink, bold: width >= 620 });
  const { key: keys, product, score: scores, weight: weights, name } = columns;
  const titles = [["query", 4], ["k", keys], ["q × k", product], ["score", scores], ["weight", weights], ["key", name]];
  titles.filter(([, x]) => x !== null).forEach(([title, x]) => painter.text(title, x, top - 14, { size: 12, colour: theme.soft }));
  painter.rect(0, top - 2, width, 1, theme.faint);
}

function drawBars(painter, numbers, limit, x, y, width, height, theme) {
  const wide = width / numbers.length;
  const middle = y + height / 2;
  numbers.forEach((value, i) => {
    const tall = limit > 0 ? (Math.abs(value) / limit) * (height / 2) : 0;
    const colour = hexOf(ramp(value < 0 ? theme.negative : theme.positive)[150]);
    painter.rect(x + i * wide, value < 0 ? middle : middle - tall, Math.max(wide - 1, 0.5), tall, colour);
  });
  painter.rect(x, middle, width, 1, theme.faint);
}
