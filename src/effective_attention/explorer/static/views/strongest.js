// Beside the heatmap, where there is room: the strongest weights, of the whole head or of the row or column in focus.
import { cellColour } from "../core/colours.js";
import { weightText } from "../core/header.js";
import { LimitedCache } from "../core/limited_cache.js";
import { commonLimit, shownMatrix } from "../core/matrices.js";
import { largestFew, upTo, withMinus } from "../core/numbers.js";
import { chosenToken, placeIn, shownName } from "../core/selection.js";
import { state } from "../core/state.js";
import { fitted } from "../core/text_width.js";

/** @typedef {{ row: number, column: number, value: number }} Cell */

/** @type {LimitedCache<Cell[]>} */
const lists = new LimitedCache(2e6);
const MOST = 40;

/** @type {(pane: number, height: number, width: number, focused: Cross) => Cell[]} */
function strongestCells(pane, height, width, focused) {
  const { part, layer, head } = state;
  return lists.get(`${pane} ${part} ${layer} ${head} ${shownName()} ${focused.row} ${focused.column}`, () => {
    const numbers = shownMatrix(pane, part, layer, head);
    const rows = focused.row === null ? upTo(height) : [focused.row];
    const columns = focused.column === null ? upTo(width) : [focused.column];
    const places = rows.flatMap((row) => columns.map((column) => row * width + column));
    const found = largestFew(places.filter((i) => numbers[i] !== 0), (i) => Math.abs(numbers[i]), MOST);
    return found.map((i) => ({ row: Math.floor(i / width), column: i % width, value: numbers[i] }));
  });
}

/**
 * A row is named by its query; once a cell is meant, its row is what is listed.
 *
 * @type {(pane: number, rows: Axis, columns: Axis, pointed: Target | null) => Cross}
 */
function focusOf(pane, rows, columns, pointed) {
  const meant = pointed ?? { query: chosenToken("query", pane), key: chosenToken("key", pane) };
  const row = placeIn(rows.places, meant.query);
  return { row, column: row === null ? placeIn(columns.places, meant.key) : null };
}

/** @type {(rows: Axis, columns: Axis, focused: Cross) => string} */
function titleOf(rows, columns, { row, column }) {
  if (row !== null) return `strongest from “${rows.names[row]}”`;
  return column === null ? "strongest weights of this head" : `strongest to “${columns.names[column]}”`;
}

/** @type {(rows: Axis, columns: Axis, focused: Cross, cell: Cell) => string} */
function cellName(rows, columns, focused, cell) {
  const [from, to] = [rows.names[cell.row], columns.names[cell.column]];
  if (focused.row !== null) return to;
  return focused.column === null ? `${from} → ${to}` : from;
}

/**
 * The grid with the list to its right.
 *
 * @type {(grid: Scene, pane: number, rows: Axis, columns: Axis, room: Room, pointed: Target | null) => Scene}
 */
export function withStrongest(grid, pane, rows, columns, room, pointed) {
  const spare = room.width - grid.width - 40;
  if (spare < 230) return grid;
  const width = Math.min(spare, 420);
  const left = grid.width + 40;
  const focused = focusOf(pane, rows, columns, pointed);
  const list = strongestCells(pane, rows.places.length, columns.places.length, focused);
  const limit = commonLimit(state.part, state.layer, [state.head]);
  return {
    ...grid,
    width: left + width,
    hit: (x, y, visible) => (x > grid.width ? null : grid.hit(x, y, visible)),
    draw: (painter, visible, theme) => {
      grid.draw(painter, { ...visible, width: Math.min(visible.width, grid.width) }, theme);
      painter.text(fitted(titleOf(rows, columns, focused), 13, width), left, 14, { size: 13, colour: theme.soft });
      const fit = Math.min(list.length, Math.floor((visible.height - 40) / 20));
      list.slice(0, fit).forEach((cell, index) => {
        const bar = { x: left, y: 42 + index * 20, width: Math.abs(cell.value / list[0].value) * (width - 190) };
        drawBar(painter, cellName(rows, columns, focused, cell), cell.value, bar, limit, theme);
      });
    },
  };
}

/**
 * A name, a bar, a number.
 *
 * @typedef {{ x: number, y: number, width: number }} Bar
 * @type {(painter: Painter, text: string, value: number, bar: Bar, limit: number, theme: Theme) => void}
 */
function drawBar(painter, text, value, { x, y, width }, limit, theme) {
  const wide = Math.max(width, 1);
  painter.text(fitted(text, 12, 118), x + 122, y, { size: 12, colour: theme.ink, align: "right" });
  painter.rect(x + 130, y - 6, wide, 12, cellColour(value, limit, theme));
  painter.frame(x + 130, y - 6, wide, 12, theme.faint);
  painter.text(withMinus(weightText(value)), x + 136 + width, y, { size: 11, colour: theme.soft });
}
