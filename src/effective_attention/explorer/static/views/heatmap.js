// One head's matrix: queries down, keys across.
import { tokenLabel } from "../core/header.js";
import { commonLimit, shownMatrix } from "../core/matrices.js";
import { clamp } from "../core/numbers.js";
import { chosenToken, placeIn, shownTokens, sideOf, thresholdWhole } from "../core/selection.js";
import { state } from "../core/state.js";
import { nameWidth } from "../core/text_width.js";
import { gridScene } from "./grid.js";
import { withStrongest } from "./strongest.js";

/** @type {SceneMaker} */
export function heatmapScene(pane, room, pointed) {
  const { part, layer, head } = state;
  const places = shownTokens(pane);
  const names = places.map((place) => tokenLabel(sideOf(pane).tokens[place]));
  const most = Math.min(130, room.width * 0.28);
  const edge = cellEdge(room, nameWidth(names, 12, most), places.length);
  const grid = gridScene({
    rows: names, columns: names, numbers: shownMatrix(pane, part, layer, head),
    key: `${pane} ${part} ${layer} ${head} ${state.special}`, cell: { width: edge, height: edge },
    limit: commonLimit(part, layer, [head]), least: thresholdWhole(),
    pointed: { row: placeIn(places, pointed?.query), column: placeIn(places, pointed?.key) },
    pinned: { row: placeIn(places, chosenToken("query", pane)), column: placeIn(places, chosenToken("key", pane)) },
    target: (row, column) => ({
      query: row === null ? null : places[row], key: column === null ? null : places[column], row, column,
    }),
    caption: "rows: queries · columns: keys", spare: { left: most, above: most },
  });
  return withStrongest(grid, pane, places, names, room, pointed);
}

/** @type {(room: Room, label: number, count: number) => number} */
function cellEdge(room, label, count) {
  const [across, down] = [room.width - label - 18, room.height - label - 30];
  const whole = Math.floor(Math.min(across, down) / count); // all of it in sight
  const readable = Math.min(Math.floor(across / count), 14); // or room for every name
  return Math.max(2, Math.round(clamp(Math.max(whole, readable), 5, 56) * state.zoom));
}
