// The rollout of the chosen token: a row per layer, the last on upper, a column per input token.
import { scaleColour } from "../core/colours.js";
import { tokenLabel } from "../core/header.js";
import { isSigned } from "../core/matrices.js";
import { clamp, largest, upTo } from "../core/numbers.js";
import {
  isComparing, paneNumbers, placeIn, queryToken, shownName, shownTokens, sideOf, thresholdWhole,
} from "../core/selection.js";
import { state } from "../core/state.js";
import { rolloutNumbers, rolloutReady } from "../core/token_rollout.js";
import { gridScene } from "./grid.js";

const BARS_HEIGHT = 110; // pixels under the map: a heading, then the bars
const TALLEST = 68; // pixels

/** @type {(part: Attention) => number} */
export function rolloutLimit(part) {
  return largest(paneNumbers().map((pane) => {
    if (!rolloutReady(pane, part)) return 0;
    const { size } = sideOf(pane);
    const numbers = rolloutNumbers(pane, part, queryToken(pane));
    let most = 0;
    for (const place of shownTokens(pane, "key")) {
      for (let i = place; i < numbers.length; i += size) most = Math.max(most, Math.abs(numbers[i]));
    }
    return most;
  }));
}

/** @type {SceneMaker} */
export function rolloutScene(pane, room, pointed) {
  const { part } = state;
  const side = sideOf(pane);
  const places = shownTokens(pane, "key");
  const token = queryToken(pane);
  const all = rolloutNumbers(pane, part, token);
  const layers = upTo(side.layers).reverse();
  /** @type {(number: number) => number[]} */
  const rowOf = (number) => places.map((place) => all[number * side.size + place]);
  const most = Math.min(130, room.height * 0.3);
  const width = Math.max(2, Math.round(clamp(Math.floor((room.width - 90) / places.length), 6, 44) * state.zoom));
  const height = clamp(Math.floor((room.height - most - BARS_HEIGHT - 38) / side.layers), 16, 44);
  const limit = rolloutLimit(part);
  const grid = gridScene({
    rows: layers.map((number) => `layer ${number}`), columns: places.map((place) => tokenLabel(side.tokens[place])),
    numbers: Int32Array.from(layers.flatMap(rowOf)),
    key: `rollout ${pane} ${part} ${token} ${shownName()}`, cell: { width, height }, limit, least: thresholdWhole(),
    pointed: { row: placeIn(layers, pointed?.layer), column: placeIn(places, pointed?.key) },
    pinned: { row: placeIn(layers, state.layer), column: placeIn(places, token) },
    target: (row, column) => ({
      query: token, layer: row === null ? null : layers[row], key: column === null ? null : places[column], row, column,
    }),
    caption: `what reaches “${tokenLabel(side.tokens[token])}” from each input token`, spare: { left: 80, above: most },
  });
  const layer = Math.min(pointed?.layer ?? state.layer, side.layers - 1);
  return withBars(grid, { values: rowOf(layer), width, limit, layer, marked: placeIn(places, pointed?.key) });
}

/**
 * Under the map: one layer's row as bars.
 *
 * @typedef {{ values: number[], width: number, limit: number, layer: number, marked: number | null }} Bars
 * @type {(grid: Scene, bars: Bars) => Scene}
 */
function withBars(grid, bars) {
  const left = grid.box({ query: null, key: null }).x;
  const signed = isSigned(state.part === "difference" ? "difference" : "standard", isComparing());
  return {
    ...grid,
    height: grid.height + BARS_HEIGHT,
    draw: (painter, visible, theme) => {
      grid.draw(painter, { ...visible, height: Math.min(visible.height, grid.height - visible.y) }, theme);
      const upper = grid.height - visible.y + 32;
      const tallest = signed ? TALLEST / 2 : TALLEST;
      painter.text(`the row of layer ${bars.layer} as bars`, left, upper - 14, { size: 12, colour: theme.soft });
      painter.clipped(left, upper, Math.max(visible.width - left, 0), TALLEST + 2, () => {
        const start = { x: left - visible.x, y: upper + tallest };
        drawBars(painter, bars, start, tallest / (bars.limit || 1), visible, theme);
      });
    },
  };
}

/** @type {(painter: Painter, bars: Bars, start: Point, scale: number, visible: Viewport, theme: Theme) => void} */
function drawBars(painter, { values, width, marked }, start, scale, visible, theme) {
  values.forEach((value, column) => {
    const tall = Math.abs(value) * scale;
    const x = start.x + column * width;
    const colour = column === marked ? theme.accent : scaleColour(value, 150, theme);
    if (x <= -width || x >= visible.width) return;
    painter.rect(x, value < 0 ? start.y : start.y - tall, Math.max(width - 1, 1), tall, colour);
  });
  painter.rect(start.x, start.y, values.length * width, 1, theme.soft);
}
