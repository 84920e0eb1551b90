// Queries and keys, number by number: the pair in focus above, a row per key below.
import { cellColour, scaleColour } from "../core/colours.js";
import { sides, tokenLabel, tokensOf, weightText } from "../core/header.js";
import { commonLimit, weightAt } from "../core/matrices.js";
import { briefly, clamp, largest, upTo, withMinus } from "../core/numbers.js";
import { axisOf, placeIn } from "../core/selection.js";
import { setState, state } from "../core/state.js";
import { fitted, nameWidth } from "../core/text_width.js";
import { THEMES } from "../core/themes.js";
import { neuronFacts, neuronPair, productsOf, scalingOf, vectorOf } from "./neuron_numbers.js";

const NARROW = 620; // pixels: below, the column of keys is left out
const HEADINGS = 66; // pixels between the pair and the first row

/** @type {SceneMaker} */
export function neuronScene(pane, room, pointed) {
  const table = tableOf(pane, room, pointed);
  const { label, columns, step, above } = table;
  return {
    width: Math.max(table.width, columns.name + label),
    height: above + rowCount(table) * step + 6,
    draw: (painter, visible, theme) => drawTable(table, painter, visible, theme),
    hit: (x, y, visible) => rowAt(table, x, y, visible),
    move: (right, down) => nextRow(table, right, down),
    box: ({ row }) => ({ x: 0, y: above + (row ?? 0) * step, width: 10, height: step, left: 0, above }),
  };
}

/** @type {(pane: number, room: Room, pointed: Target | null) => NeuronTable} */
function tableOf(pane, room, pointed) {
  const queries = axisOf(pane, "query");
  const keys = axisOf(pane, "key");
  const { query, key } = neuronPair(pane, pointed);
  const most = room.width < NARROW ? 74 : 130;
  const label = largest([queries, keys].map(({ names }) => nameWidth(names, 12, most)));
  const width = Math.min(room.width, 1400);
  return {
    pane, queries, keys, query, key, label, width,
    facts: neuronFacts(pane, query),
    columns: columnsOf(room.width < NARROW, width, label),
    step: Math.max(10, Math.round(20 * state.zoom)),
    above: 3 * (room.height < 460 ? 34 : 52) + HEADINGS,
    limit: commonLimit(state.part, state.layer, [state.head]),
  };
}

/** @type {(table: NeuronTable) => number} */
function rowCount({ queries, keys }) {
  return Math.max(queries.places.length, keys.places.length);
}

/**
 * Where each column starts.
 *
 * @type {(narrow: boolean, width: number, label: number) => NeuronColumns}
 */
function columnsOf(narrow, width, label) {
  const number = narrow ? 62 : 96;
  const spare = width - 2 * label - 2 * number - 36;
  const strip = narrow ? spare : Math.floor(spare / 2) - 6;
  const product = label + 10 + (narrow ? 0 : strip + 12);
  const score = product + strip + 10;
  const weight = score + number + 6;
  return { key: narrow ? null : label + 10, product, score, weight, name: weight + number + 6, strip, number };
}

/** @type {(table: NeuronTable, x: number, y: number, visible: Viewport) => Target | null} */
function rowAt({ queries, keys, query, label, step, above }, x, y, visible) {
  const row = Math.floor((y + visible.y - above) / step);
  const onQueries = x + visible.x <= label + 4;
  const { places } = onQueries ? queries : keys;
  if (y < above || row < 0 || row >= places.length) return null;
  return onQueries ? { query: places[row], key: null, choose: "query", row } : { query, key: places[row], row };
}

/** @type {(table: NeuronTable, right: number, down: number) => Target} */
function nextRow({ pane, queries, keys, query, key }, right, down) {
  /** @type {(places: number[], token: number, by: number) => number} */
  const next = (places, token, by) => clamp((placeIn(places, token) ?? 0) + by, 0, places.length - 1);
  if (right !== 0) setState({ query: queries.places[next(queries.places, query, right)] });
  const row = next(keys.places, key, down);
  return { query: neuronPair(pane, null).query, key: keys.places[row], row };
}

/** @type {(table: NeuronTable, painter: Painter, visible: Viewport, theme: Theme) => void} */
function drawTable(table, painter, visible, theme) {
  const { step, above } = table;
  painter.clipped(0, above, visible.width, Math.max(visible.height - above, 0), () => {
    painter.moved(-visible.x, -visible.y, () => upTo(rowCount(table)).forEach((row) => {
      const y = above + (row + 0.5) * step;
      if (y > visible.y + above - step && y < visible.y + visible.height + step) {
        drawRow(table, row, painter, y, theme);
      }
    }));
  });
  painter.moved(-visible.x, 0, () => {
    painter.rect(0, 0, table.width, above, theme.ground);
    drawPair(table, painter, theme);
    drawSum(table, painter, theme);
    drawHeadings(table, painter, theme);
  });
}

/** @type {(table: NeuronTable, row: number, painter: Painter, y: number, theme: Theme) => void} */
function drawRow(table, row, painter, y, theme) {
  const { pane, query, facts, columns, step } = table;
  const place = table.keys.places[row];
  const cells = { y: y - (step - 4) / 2, width: columns.strip, height: step - 4 };
  drawRowNames(table, row, painter, y, theme);
  if (place === undefined) return; // there are more queries than keys
  if (columns.key !== null) {
    drawStrip(painter, vectorOf(pane, "key", place), facts.vectorLimit, { ...cells, x: columns.key }, theme);
  }
  if (sides[pane].causal && place > query) {
    painter.text("not visible to the query", columns.product + 4, y, { size: 11, colour: theme.soft });
    return;
  }
  drawStrip(painter, productsOf(pane, query, place), facts.productLimit, { ...cells, x: columns.product }, theme);
  const bar = { ...cells, width: columns.number };
  const score = facts.scores[place];
  const scoreLimit = largest(facts.scores.map(Math.abs));
  drawBar(painter, score, scoreLimit, score.toFixed(2), { ...bar, x: columns.score }, theme);
  const weight = weightAt(pane, state.part, state.layer, state.head, query, place);
  drawBar(painter, weight, table.limit, weightText(weight), { ...bar, x: columns.weight }, theme);
}

/** @type {(table: NeuronTable, row: number, painter: Painter, y: number, theme: Theme) => void} */
function drawRowNames({ queries, keys, query, key, label, columns, step, width }, row, painter, y, theme) {
  const [isQuery, isKey] = [queries.places[row] === query, keys.places[row] === key];
  if (isKey) painter.rect(label + 6, y - step / 2, width - label - 6, step, theme.band);
  if (isQuery) painter.rect(0, y - step / 2, label + 4, step, theme.band);
  /** @type {(strong: boolean) => Look} */
  const look = (strong) => ({ size: 12, colour: strong ? theme.accent : theme.ink, bold: strong });
  const [queryName, keyName] = [queries.names[row] ?? "", keys.names[row] ?? ""];
  painter.text(fitted(queryName, 12, label - 8), label - 2, y, { ...look(isQuery), align: "right" });
  painter.text(fitted(keyName, 12, label - 4), columns.name, y, look(isKey));
}

/**
 * Numbers as cells in a row, orange below 0 and blue above.
 *
 * @type {(painter: Painter, numbers: Whole, limit: number, box: Viewport, theme: Theme) => void}
 */
function drawStrip(painter, numbers, limit, { x, y, width, height }, theme) {
  const cell = width / numbers.length;
  const wide = cell > 3 ? cell - 0.5 : cell;
  painter.rect(x, y, width, height, scaleColour(0, 0, theme));
  numbers.forEach((value, i) => {
    if (value !== 0) painter.rect(x + i * cell, y, wide, height, cellColour(value, limit, theme));
  });
}

/** @type {(painter: Painter, value: number, limit: number, text: string, box: Viewport, theme: Theme) => void} */
function drawBar(painter, value, limit, text, { x, y, width, height }, theme) {
  const share = limit > 0 ? Math.min(Math.abs(value) / limit, 1) : 0;
  painter.rect(x, y, share * width, height, scaleColour(value, theme === THEMES.dark ? 90 : 75, theme));
  painter.text(withMinus(text), x + 4, y + height / 2, { size: 11, colour: theme.ink });
}

/** @type {(table: NeuronTable, painter: Painter, theme: Theme) => void} */
function drawPair({ pane, query, key, facts, width, above }, painter, theme) {
  /** @type {(which: "query" | "key", place: number) => string} */
  const nameOf = (which, place) => tokenLabel(tokensOf(sides[pane], which).tokens[place]);
  const tall = (above - HEADINGS) / 3;
  const left = width < NARROW ? 84 : 150;
  const rows = [
    {
      title: `query of “${nameOf("query", query)}”`, letter: "q",
      numbers: vectorOf(pane, "query", query), limit: facts.vectorLimit,
    },
    {
      title: `key of “${nameOf("key", key)}”`, letter: "k",
      numbers: vectorOf(pane, "key", key), limit: facts.vectorLimit,
    },
    { title: "by dimension", letter: "q × k", numbers: productsOf(pane, query, key), limit: facts.productLimit },
  ];
  rows.forEach(({ title, letter, numbers, limit }, index) => {
    const y = index * tall;
    painter.text(letter, 4, y + tall / 2 - 6, { size: 13, colour: theme.ink, bold: true });
    painter.text(fitted(title, 10.5, left - 8), 4, y + tall / 2 + 9, { size: 10.5, colour: theme.soft });
    drawBars(painter, numbers, limit, { x: left, y: y + 3, width: width - left - 8, height: tall - 6 }, theme);
  });
}

/** @type {(painter: Painter, numbers: Whole, limit: number, box: Viewport, theme: Theme) => void} */
function drawBars(painter, numbers, limit, { x, y, width, height }, theme) {
  const wide = width / numbers.length;
  const middle = y + height / 2;
  numbers.forEach((value, i) => {
    const tall = limit > 0 ? (Math.abs(value) / limit) * (height / 2) : 0;
    const start = value < 0 ? middle : middle - tall;
    painter.rect(x + i * wide, start, Math.max(wide - 1, 0.5), tall, scaleColour(value, 150, theme));
  });
  painter.rect(x, middle, width, 1, theme.faint);
}

/** @type {(table: NeuronTable, painter: Painter, theme: Theme) => void} */
function drawSum({ pane, query, key, facts, width, above }, painter, theme) {
  const weight = weightText(weightAt(pane, state.part, state.layer, state.head, query, key));
  const scaling = scalingOf(pane);
  const factor = scaling === null ? "" : `${briefly(scaling)} × `;
  const what = scaling === null ? "score (unscaled: the factor is not known)" : "score";
  const score = withMinus(facts.scores[key].toFixed(2));
  const text = `${what} = ${factor}Σ q×k ≈ ${score}   ·   ${state.part} weight ${withMinus(weight)}`;
  const size = width < NARROW ? 11 : 13;
  const look = { size, colour: theme.ink, bold: width >= NARROW };
  painter.text(fitted(text, size, width - 8), 4, above - HEADINGS + 14, look);
}

/** @type {(table: NeuronTable, painter: Painter, theme: Theme) => void} */
function drawHeadings({ columns, width, above }, painter, theme) {
  const headings = [
    { text: "query", x: 4 }, { text: "k", x: columns.key }, { text: "q × k", x: columns.product },
    { text: "score", x: columns.score }, { text: "weight", x: columns.weight }, { text: "key", x: columns.name },
  ];
  for (const { text, x } of headings) {
    if (x !== null) painter.text(text, x, above - 14, { size: 12, colour: theme.soft });
  }
  painter.rect(0, above - 2, width, 1, theme.faint);
}
