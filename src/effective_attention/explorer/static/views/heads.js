// Lines between tokens: queries on the left, keys on the right, a colour per head, opacity by the size of the weight.
// Negative weights are dashed.
import { headColour } from "../core/colours.js";
import { weightText } from "../core/header.js";
import { commonLimit, weightAt } from "../core/matrices.js";
import { clamp, largest, withMinus } from "../core/numbers.js";
import { activeHeads, axisOf, chosenToken, placeIn, thresholdWhole } from "../core/selection.js";
import { state } from "../core/state.js";
import { fitted, nameWidth, textWidth } from "../core/text_width.js";
import { allLines, focusedLines, headsHere, SHADES } from "./head_lines.js";

const TOP = 26; // pixels above the first row

/**
 * @typedef {object} Columns
 * @property {number} pane
 * @property {number[]} queries
 * @property {number[]} keys
 * @property {string[]} queryNames
 * @property {string[]} keyNames
 * @property {Cross} focused
 * @property {number} limit
 * @property {number} left
 * @property {number} right
 * @property {number} label width of a name
 * @property {number} strip width of the squares beside a column
 * @property {number} step from row to row
 * @property {number} size of the letters
 */

/** @type {SceneMaker} */
export function headsScene(pane, room, pointed) {
  const columns = columnsOf(pane, room, pointed);
  const { queries, keys, step } = columns;
  return {
    width: room.width,
    height: TOP + Math.max(queries.length, keys.length) * step + 8,
    draw: (painter, visible, theme) => drawHeads(columns, room, painter, visible, theme),
    hit: (x, y, visible) => tokenAt(columns, x, y, visible),
    move: (right, down) => nextToken(columns, right, down),
    box: ({ row, column }) => ({
      x: 0, y: middleOf(columns, (row ?? column) || 0) - step, width: 10, height: 2 * step, left: 0, above: TOP,
    }),
  };
}

/** @type {(pane: number, room: Room, pointed: Target | null) => Columns} */
function columnsOf(pane, room, pointed) {
  const { places: queries, names: queryNames } = axisOf(pane, "query");
  const { places: keys, names: keyNames } = axisOf(pane, "key");
  const rows = Math.max(queries.length, keys.length);
  const least = rows <= 60 ? 19 : rows <= 150 ? 17 : 15;
  const step = Math.max(8, Math.round(clamp((room.height - 40) / rows, least, 38) * state.zoom));
  const size = clamp(step - 5, 8, 14);
  const most = Math.min(170, room.width * 0.27);
  const label = largest([queryNames, keyNames].map((names) => nameWidth(names, size, most)));
  const strip = Math.min(headsHere(pane).length * 9, 110, room.width * 0.06) + (room.width > 620 ? 60 : 0);
  const width = Math.min(room.width, 2 * (label + strip) + 760);
  const margin = Math.max(0, (room.width - width) / 2) + strip;
  const limit = commonLimit(state.part, state.layer, activeHeads());
  const focused = focusOf(pane, pointed, queries, keys);
  const [left, right] = [margin + label, room.width - margin - label];
  return { pane, queries, keys, queryNames, keyNames, focused, limit, left, right, label, strip, step, size };
}

/**
 * Pointing at one column keeps what is held in the other.
 *
 * @type {(pane: number, pointed: Target | null, queries: number[], keys: number[]) => Cross}
 */
function focusOf(pane, pointed, queries, keys) {
  const held = { query: chosenToken("query", pane), key: chosenToken("key", pane) };
  const query = pointed?.query ?? (pointed?.key === null ? null : held.query);
  const now = pointed ? { query, key: pointed.key } : held;
  return { row: placeIn(queries, now.query), column: placeIn(keys, now.key) };
}

/** @type {(columns: Columns, row: number) => number} */
function middleOf({ step }, row) {
  return TOP + (row + 0.5) * step;
}

/** @type {(columns: Columns, y: number, visible: Viewport) => boolean} */
function inSight({ step }, y, visible) {
  return y >= visible.y - step && y <= visible.y + visible.height + step;
}

/** @type {(columns: Columns, room: Room, painter: Painter, visible: Viewport, theme: Theme) => void} */
function drawHeads(columns, room, painter, visible, theme) {
  painter.moved(0, -visible.y, () => {
    drawLines(columns, painter, visible, theme);
    drawColumn(columns, "left", painter, visible, theme);
    drawColumn(columns, "right", painter, visible, theme);
    drawStrips(columns, painter, visible, theme);
  });
  painter.rect(0, 0, room.width, TOP - 4, theme.ground);
  drawHeadings(columns, room, painter, theme);
}

/**
 * Beside the names, or, where these are too short for that, at the edge.
 *
 * @type {(columns: Columns, room: Room, painter: Painter, theme: Theme) => void}
 */
function drawHeadings({ left, right }, room, painter, theme) {
  const look = { size: 12, colour: theme.soft };
  const [from, to] = ["from (query)", "to (key)"];
  painter.text(from, Math.max(left - 8, textWidth(from, look.size)), 11, { ...look, align: "right" });
  painter.text(to, Math.min(right + 8, room.width - textWidth(to, look.size)), 11, look);
}

/** @type {(columns: Columns, painter: Painter, visible: Viewport, theme: Theme) => void} */
function drawLines(columns, painter, visible, theme) {
  const { pane, focused, limit, left, right } = columns;
  const all = focused.row === null && focused.column === null;
  const bundles = all ? allLines(pane, limit).bundles : focusedLines(pane, focused, limit);
  const power = all ? 1.3 : headsHere(pane).length > 3 ? 1.1 : 0.6; // weak lines fade among many, stand out among few
  for (const { head, shade, negative, pairs } of bundles) {
    const ends = [];
    for (let i = 0; i < pairs.length; i += 2) {
      const [from, to] = [middleOf(columns, pairs[i]), middleOf(columns, pairs[i + 1])];
      const seen = Math.max(from, to) >= visible.y && Math.min(from, to) <= visible.y + visible.height;
      if (seen) ends.push(left + 2, from, right - 2, to);
    }
    const share = shade / SHADES;
    const opacity = clamp(0.92 * share ** power, 0.02, 0.92);
    if (ends.length > 0) painter.curves(ends, headColour(head, theme), 0.7 + 2.3 * share, opacity, negative);
  }
}

/** @type {(columns: Columns, which: "left" | "right", painter: Painter, visible: Viewport, theme: Theme) => void} */
function drawColumn(columns, which, painter, visible, theme) {
  const { focused, label, step, size } = columns;
  const isLeft = which === "left";
  const edge = columns[which];
  const held = isLeft ? focused.row : focused.column;
  (isLeft ? columns.queryNames : columns.keyNames).forEach((text, row) => {
    const y = middleOf(columns, row);
    if (!inSight(columns, y, visible)) return;
    const strong = row === held;
    if (strong) painter.rect(isLeft ? edge - label : edge, y - step / 2, label, step, theme.band);
    painter.text(fitted(text, size, label - 8), isLeft ? edge - 4 : edge + 4, y, {
      size, colour: strong ? theme.accent : theme.ink, align: isLeft ? "right" : "left", bold: strong,
    });
  });
}

/**
 * Beside the other column: the weights of the focused token, a square per head, a dash where it is negative, and the
 * number where there is one head only.
 *
 * @type {(columns: Columns, painter: Painter, visible: Viewport, theme: Theme) => void}
 */
function drawStrips(columns, painter, visible, theme) {
  const { pane, queries, keys, focused, left, right, label, strip, size } = columns;
  if ((focused.row === null) === (focused.column === null)) return;
  const heads = headsHere(pane);
  const toKeys = focused.row !== null;
  const numbers = heads.length === 1 && strip >= 60;
  const wide = numbers ? 9 : Math.min(9, (strip - 4) / heads.length);
  const start = toKeys ? right + label + 4 : left - label - 4 - wide * heads.length;
  (toKeys ? keys : queries).forEach((other, row) => {
    const y = middleOf(columns, row);
    if (!inSight(columns, y, visible)) return;
    heads.forEach((head, index) => {
      const value = focusedWeight(columns, head, other);
      if (Math.abs(value) < thresholdWhole() || value === 0) return;
      drawSquare(columns, painter, head, value, { x: start + index * wide, y }, wide - 1, theme);
      if (!numbers) return;
      painter.text(withMinus(weightText(value)), toKeys ? start + 14 : start - 5, y, {
        size: Math.min(size, 11), colour: theme.soft, align: toKeys ? "left" : "right",
      });
    });
  });
}

/**
 * Between the focused token and another.
 *
 * @type {(columns: Columns, head: number, other: number) => number}
 */
function focusedWeight({ pane, queries, keys, focused }, head, other) {
  const query = focused.row === null ? other : queries[focused.row];
  const key = focused.column === null ? other : keys[focused.column];
  return weightAt(pane, state.part, state.layer, head, query, key);
}

/**
 * @typedef {(columns: Columns, painter: Painter, head: number, value: number, at: Point, width: number,
 *   theme: Theme) => void} DrawSquare
 * @type {DrawSquare}
 */
function drawSquare({ step, limit }, painter, head, value, { x, y }, width, theme) {
  const tall = value < 0 ? 3 : step - 2;
  painter.rect(x, y - tall / 2, width, tall, headColour(head, theme), Math.sqrt(Math.abs(value) / limit));
}

/** @type {(columns: Columns, x: number, y: number, visible: Viewport) => Target | null} */
function tokenAt({ queries, keys, left, right, step }, x, y, visible) {
  const index = Math.floor((y + visible.y - TOP) / step);
  if (index < 0 || y < TOP - 4) return null;
  if (x <= left + 10) return index < queries.length ? queryTarget(queries, index) : null;
  return x >= right - 10 && index < keys.length ? keyTarget(keys, index) : null;
}

/** @type {(columns: Columns, right: number, down: number) => Target} */
function nextToken({ queries, keys, focused }, right, down) {
  const onKeys = right > 0 || (right === 0 && focused.row === null && focused.column !== null);
  const from = onKeys ? focused.column : focused.row;
  const next = clamp(from === null ? 0 : from + down, 0, (onKeys ? keys : queries).length - 1);
  return onKeys ? keyTarget(keys, next) : queryTarget(queries, next);
}

/** @type {(places: number[], row: number) => Target} */
const queryTarget = (places, row) => ({ query: places[row], key: null, row, column: null });

/** @type {(places: number[], column: number) => Target} */
const keyTarget = (places, column) => ({ query: null, key: places[column], row: null, column });
