// Lines between tokens: queries on the left, keys on the right, a colour per head, opacity by the size of the weight. Negative
// weights are dashed.
const MOST_LINES = 5000;
const SHADES = 24;
const bundles = new Kept(64e6);

function headsHere(pane) {
  return activeHeads().filter((head) => hasHead(pane, state.layer, head));
}

// Lines of one look in one bundle: {head, shade, negative, pairs: [row, column, ...]}. Only the strongest, if there are too many.
function linesOf(pane, limit) {
  const heads = headsHere(pane);
  const least = Math.max(thresholdWhole(), 1);
  const key = `${pane} ${state.part} ${state.layer} ${heads} ${state.special} ${least} ${limit}`;
  return bundles.get(key, () => {
    const places = shownTokens(pane);
    const cut = Math.max(least, cutoff(pane, heads, places, limit));
    const found = new Map();
    eachWeight(pane, heads, places, (value, head, row, column) => {
      if (Math.abs(value) >= cut) bundled(found, value, head, row, column, limit);
    });
    return { bundle: byShade(found), cut: cut > least ? cut : 0, byteLength: 16 * MOST_LINES };
  });
}

function bundled(found, value, head, row, column, limit) {
  const shade = Math.ceil((Math.abs(value) / limit) * SHADES);
  const name = (shade * 2 + (value < 0 ? 1 : 0)) * 1024 + head;
  if (!found.has(name)) found.set(name, { head, shade, negative: value < 0, pairs: [] });
  found.get(name).pairs.push(row, column);
}

function byShade(found) {
  return [...found.values()].sort((a, b) => a.shade - b.shade);
}

function eachWeight(pane, heads, places, use) {
  const size = sides[sideOf(pane)].size;
  for (const head of heads) {
    const numbers = plane(pane, state.part, state.layer, head);
    for (let row = 0; row < places.length; row++) {
      const start = places[row] * size;
      for (let column = 0; column < places.length; column++) use(numbers[start + places[column]], head, row, column);
    }
  }
}

// From which size on there are at most so many weights as may be drawn; weights too faint to see count for nothing.
function cutoff(pane, heads, places, limit) {
  const bins = 1000;
  const histogram = new Uint32Array(bins + 1);
  eachWeight(pane, heads, places, (value) => { histogram[Math.floor((Math.abs(value) / (limit || 1)) * bins)] += 1; });
  let total = 0;
  for (let bin = bins; bin > 15; bin--) {
    total += histogram[bin];
    if (total > MOST_LINES) return ((bin + 1) / bins) * limit;
  }
  return 0.015 * limit;
}

function headsScene(pane, room, hover) {
  const side = sides[sideOf(pane)];
  const places = shownTokens(pane);
  const names = places.map((place) => tokenLabel(side.tokens[place]));
  const least = names.length <= 60 ? 19 : names.length <= 150 ? 17 : 15;
  const step = Math.max(8, Math.round(clamp((room.height - 40) / names.length, least, 38) * state.zoom));
  const size = clamp(step - 5, 8, 14);
  const label = nameWidth(names, size, Math.min(170, room.width * 0.27));
  const strip = Math.min(headsHere(pane).length * 9, 110, room.width * 0.06) + (room.width > 620 ? 60 : 0);
  const width = Math.min(room.width, 2 * (label + strip) + 760);
  const margin = Math.max(0, (room.width - width) / 2) + strip;
  const top = 26;
  const at = { left: margin + label, right: room.width - margin - label, label, strip, top, step, size };
  const focus = headsFocus(pane, hover, places);
  const middle = (row) => top + (row + 0.5) * step;
  const limit = commonLimit(state.part, state.layer, activeHeads());

  function draw(painter, window, theme) {
    painter.moved(0, -window.y, () => {
      const above = (row, column) => Math.max(middle(row), middle(column)) < window.y;
      const below = (row, column) => Math.min(middle(row), middle(column)) > window.y + window.height;
      const seen = (row, column) => !above(row, column) && !below(row, column);
      const everything = focus.row === null && focus.column === null;
      const bundle = everything ? linesOf(pane, limit).bundle : focusedLines(pane, focus, places, limit);
      drawLines(painter, bundle, at, middle, seen, theme, everything ? 1.3 : headsHere(pane).length > 3 ? 1.1 : 0.6);
      drawColumn(painter, names, at, "left", focus.row, middle, window, theme);
      drawColumn(painter, names, at, "right", focus.column, middle, window, theme);
      drawStrips(painter, pane, focus, places, at, middle, limit, window, theme);
    });
    painter.rect(0, 0, room.width, top - 4, theme.ground);
    painter.text("from (query)", at.left - 8, 11, { size: 12, colour: theme.soft, align: "right" });
    painter.text("to (key)", at.right + 8, 11, { size: 12, colour: theme.soft });
  }

  function hit(x, y, window) {
    const row = Math.floor((y + window.y - top) / step);
    if (row < 0 || row >= places.length || y < top - 4) return null;
    if (x <= at.left + 10) return { query: places[row], key: null, row, column: null };
    return x >= at.right - 10 ? { query: null, key: places[row], row: null, column: row } : null;
  }

  function move(right, down) {
    const onKeys = right > 0 || (right === 0 && focus.row === null && focus.column !== null);
    const next = clamp((onKeys ? focus.column : focus.row) === null ? 0 : (onKeys ? focus.column : focus.row) + down, 0, places.length - 1);
    return onKeys ? { query: null, key: places[next], row: null, column: next } : { query: places[next], key: null, row: next, column: null };
  }

  const box = (where) => ({ x: 0, y: middle((where.row ?? where.column) || 0) - step, width: 10, height: 2 * step, left: 0, top });
  return { width: room.width, height: top + names.length * step + 8, draw, hit, move, box };
}

// Hovering over one column keeps what is held in the other.
function headsFocus(pane, hover, places) {
  const held = { query: chosenToken("query", pane), key: chosenToken("key", pane) };
  const now = hover ? { query: hover.query ?? (hover.key === null ? null : held.query), key: hover.key } : held;
  return { row: placeIn(places, now.query), column: placeIn(places, now.key) };
}

function focusedLines(pane, focus, places, limit) {
  const size = sides[sideOf(pane)].size;
  const least = Math.max(thresholdWhole(), limit / 500, 1); // fainter ones cannot be seen
  const found = new Map();
  for (const head of headsHere(pane)) {
    const numbers = plane(pane, state.part, state.layer, head);
    for (let other = 0; other < places.length; other++) {
      const row = focus.row ?? other;
      const column = focus.column ?? other;
      const value = numbers[places[row] * size + places[column]];
      if (Math.abs(value) >= least) bundled(found, value, head, row, column, limit);
      if (focus.row !== null && focus.column !== null) break;
    }
  }
  return byShade(found);
}

// The power makes weak lines fade among many, and stand out among few.
function drawLines(painter, bundle, at, middle, seen, theme, power) {
  for (const { head, shade, negative, pairs } of bundle) {
    const ends = [];
    for (let i = 0; i < pairs.length; i += 2) {
      if (seen(pairs[i], pairs[i + 1])) ends.push(at.left + 2, middle(pairs[i]), at.right - 2, middle(pairs[i + 1]));
    }
    const share = shade / SHADES;
    if (ends.length > 0) painter.curves(ends, headColour(head, theme), 0.7 + 2.3 * share, clamp(0.92 * share ** power, 0.02, 0.92), negative);
  }
}

function drawColumn(painter, names, at, which, held, middle, window, theme) {
  const left = which === "left";
  const edge = left ? at.left : at.right;
  names.forEach((name, row) => {
    const y = middle(row);
    if (y < window.y - at.step || y > window.y + window.height + at.step) return;
    if (row === held) painter.rect(left ? edge - at.label : edge, y - at.step / 2, at.label, at.step, theme.band);
    const look = { size: at.size, colour: row === held ? theme.accent : theme.ink, align: left ? "right" : "left", bold: row === held };
    painter.text(fitted(name, at.size, at.label - 8), left ? edge - 4 : edge + 4, y, look);
  });
}

// Beside the other column: the weights of the focused token, a square per head, a dash where it is negative, and the number where
// there is one head only.
function drawStrips(painter, pane, focus, places, at, middle, limit, window, theme) {
  if ((focus.row === null) === (focus.column === null)) return;
  const heads = headsHere(pane);
  const toKeys = focus.row !== null;
  const numbers = heads.length === 1 && at.strip >= 60;
  const wide = numbers ? 9 : Math.min(9, (at.strip - 4) / heads.length);
  const start = toKeys ? at.right + at.label + 4 : at.left - at.label - 4 - wide * heads.length;
  places.forEach((other, row) => {
    if (middle(row) < window.y - at.step || middle(row) > window.y + window.height + at.step) return;
    heads.forEach((head, index) => {
      const value = weightAt(pane, state.part, state.layer, head, toKeys ? places[focus.row] : other, toKeys ? other : places[focus.column]);
      if (Math.abs(value) < thresholdWhole() || value === 0) return;
      const tall = value < 0 ? 3 : at.step - 2;
      painter.rect(start + index * wide, middle(row) - tall / 2, wide - 1, tall, headColour(head, theme), Math.sqrt(Math.abs(value) / limit));
      const look = { size: Math.min(at.size, 11), colour: theme.soft, align: toKeys ? "left" : "right" };
      if (numbers) painter.text(shown(weightText(value)), toKeys ? start + 14 : start - 5, middle(row), look);
    });
  });
}
