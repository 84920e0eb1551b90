// One head's matrix: queries down, keys across.
import { commonLimit, shownMatrix } from "../core/matrices.js";
import { clamp } from "../core/numbers.js";
import { axisOf, chosenToken, placeIn, shownName, thresholdWhole } from "../core/selection.js";
import { state } from "../core/state.js";
import { nameWidth } from "../core/text_width.js";
import { gridScene } from "./grid.js";
import { withStrongest } from "./strongest.js";

/** @type {SceneMaker} */
export function heatmapScene(pane, room, pointed) {
  const { part, layer, head } = state;
  const rows = axisOf(pane, "query");
  const columns = axisOf(pane, "key");
  const most = Math.min(130, room.width * 0.28);
  const cell = cellSize(room, rows.names, columns.names, most);
  const grid = gridScene({
    rows: rows.names, columns: columns.names, numbers: shownMatrix(pane, part, layer, head),
    key: `${pane} ${part} ${layer} ${head} ${shownName()}`, cell,
    limit: commonLimit(part, layer, [head]), least: thresholdWhole(),
    pointed: { row: placeIn(rows.places, pointed?.query), column: placeIn(columns.places, pointed?.key) },
    pinned: {
      row: placeIn(rows.places, chosenToken("query", pane)), column: placeIn(columns.places, chosenToken("key", pane)),
    },
    target: (row, column) => ({
      query: row === null ? null : rows.places[row], key: column === null ? null : columns.places[column], row, column,
    }),
    caption: "rows: queries · columns: keys", spare: { left: most, above: most },
  });
  return withStrongest(grid, pane, rows, columns, room, pointed);
}

/**
 * Squares; where there are many more keys than queries, or the other way round, up to twice as high or wide.
 *
 * @type {(room: Room, rows: string[], columns: string[], most: number) => Room}
 */
function cellSize(room, rows, columns, most) {
  const across = (room.width - nameWidth(rows, 12, most) - 18) / columns.length;
  const down = (room.height - nameWidth(columns, 12, most) - 30) / rows.length;
  const whole = Math.floor(Math.min(across, down)); // all of it in sight
  const readable = Math.min(Math.floor(across), 14); // or room for every name
  const edge = Math.max(2, Math.round(clamp(Math.max(whole, readable), 5, 56) * state.zoom));
  if (rows.length === columns.length) return { width: edge, height: edge };
  const longest = Math.max(edge, Math.min(2 * edge, 30 * state.zoom));
  return { width: clamp(Math.floor(across), edge, longest), height: clamp(Math.floor(down), edge, longest) };
}
