// Every head of every layer as a thumbnail.
import { clamp } from "../core/numbers.js";
import { paneNumbers, sideOf } from "../core/selection.js";
import { state } from "../core/state.js";
import { largestInThumbnails, thumbnailBitmap, thumbnailNumbers } from "./thumbnails.js";

const TOP = 40; // pixels above the first row
const shown = { limit: 0 };

/**
 * The largest weight of the thumbnails drawn last, over all panes.
 *
 * @type {() => number}
 */
export const modelLimit = () => shown.limit;

/**
 * @typedef {object} Sheet
 * @property {number} pane
 * @property {Side} side
 * @property {(Int32Array | null)[]} pools the numbers of each head's thumbnail
 * @property {Target | null} pointed
 * @property {number} limit
 * @property {number} left
 * @property {number} edge from thumbnail to thumbnail
 * @property {number} inner a thumbnail's width
 */

/** @type {SceneMaker} */
export function modelScene(pane, room, pointed) {
  const sheet = sheetOf(pane, room, pointed);
  const { side, left, edge } = sheet;
  return {
    width: left + side.heads * edge + 4,
    height: TOP + side.layers * edge + 6,
    draw: (painter, visible, theme) => drawSheet(sheet, painter, visible, theme),
    hit: (x, y, visible) => headAt(sheet, x, y, visible),
    move: (right, down) => {
      const layer = clamp((pointed?.layer ?? state.layer) + down, 0, side.layers - 1);
      const head = clamp((pointed?.head ?? state.head) + right, 0, side.heads - 1);
      return { layer, head, query: null, key: null };
    },
    box: ({ layer, head }) => ({
      x: left + (head ?? 0) * edge, y: TOP + (layer ?? 0) * edge, width: edge, height: edge, left, above: TOP,
    }),
    lens: ({ layer, head }, theme) => {
      const place = { layer: layer ?? 0, head: head ?? 0 };
      const numbers = sheet.pools[place.layer * side.heads + place.head];
      return numbers && thumbnailBitmap(numbers, pane, place, sheet.limit, theme);
    },
  };
}

/** @type {(pane: number, room: Room, pointed: Target | null) => Sheet} */
function sheetOf(pane, room, pointed) {
  const side = sideOf(pane);
  const pools = thumbnailNumbers(pane);
  if (pane === paneNumbers()[0]) shown.limit = 0; // a new picture begins
  shown.limit = Math.max(shown.limit, largestInThumbnails(pane, pools));
  const label = room.width < 600 ? 26 : 62;
  const byWidth = (room.width - label - 8) / side.heads;
  const byHeight = (room.height - TOP - 8) / side.layers;
  const edge = Math.max(16, Math.floor(Math.min(byWidth, Math.max(byHeight, 44)) * state.zoom));
  const left = Math.max(label, Math.floor((room.width - side.heads * edge) / 2));
  return { pane, side, pools, pointed, limit: shown.limit, left, edge, inner: edge - (edge > 40 ? 6 : 3) };
}

/** @type {(sheet: Sheet, x: number, y: number, visible: Viewport) => Target | null} */
function headAt({ side, left, edge }, x, y, visible) {
  const layer = Math.floor((y + visible.y - TOP) / edge);
  const head = Math.floor((x + visible.x - left) / edge);
  const within = y >= TOP && layer >= 0 && layer < side.layers && head >= 0 && head < side.heads;
  return within ? { layer, head, query: null, key: null } : null;
}

/** @type {(sheet: Sheet, painter: Painter, visible: Viewport, theme: Theme) => void} */
function drawSheet(sheet, painter, visible, theme) {
  const { side, pools, left, edge } = sheet;
  painter.clipped(0, TOP, visible.width, Math.max(visible.height - TOP, 0), () => {
    pools.forEach((numbers, index) => {
      const place = { layer: Math.floor(index / side.heads), head: index % side.heads };
      const x = left + place.head * edge - visible.x;
      const y = TOP + place.layer * edge - visible.y;
      if (y < -edge || y > visible.height || x < -edge || x > visible.width) return;
      drawThumbnail(sheet, painter, numbers, place, { x, y }, theme);
    });
  });
  drawLayerNames(sheet, painter, visible, theme);
  drawHeadNames(sheet, painter, visible, theme);
}

/**
 * @typedef {(sheet: Sheet, painter: Painter, numbers: Int32Array | null, place: HeadPlace, at: Point,
 *   theme: Theme) => void} DrawThumbnail
 * @type {DrawThumbnail}
 */
function drawThumbnail({ pane, pointed, limit, inner }, painter, numbers, place, { x, y }, theme) {
  if (numbers === null) painter.rect(x, y, inner, inner, theme.faint);
  else {
    const pixels = Math.floor(inner * devicePixelRatio);
    painter.picture(thumbnailBitmap(numbers, pane, place, limit, theme, pixels), x, y, inner, inner);
  }
  painter.frame(x - 0.5, y - 0.5, inner + 1, inner + 1, theme.faint);
  const isPointed = pointed?.layer === place.layer && pointed?.head === place.head;
  const isChosen = state.layer === place.layer && state.head === place.head;
  if (!isPointed && !isChosen) return;
  painter.frame(x - 1.5, y - 1.5, inner + 3, inner + 3, isPointed ? theme.accent : theme.mark, 2);
}

/** @type {(strong: boolean, theme: Theme) => Look} */
function nameLook(strong, theme) {
  return { size: 12, colour: strong ? theme.accent : theme.soft, bold: strong };
}

/** @type {(sheet: Sheet, painter: Painter, visible: Viewport, theme: Theme) => void} */
function drawLayerNames({ side, pointed, left, edge, inner }, painter, visible, theme) {
  painter.clipped(0, TOP - 4, left, Math.max(visible.height - TOP + 4, 0), () => {
    for (let layer = 0; layer < side.layers; layer++) {
      const y = TOP + layer * edge + inner / 2 - visible.y;
      const look = nameLook(layer === (pointed?.layer ?? state.layer), theme);
      painter.text(left > 40 ? `layer ${layer}` : String(layer), left - 8, y, { ...look, align: "right" });
    }
  });
}

/** @type {(sheet: Sheet, painter: Painter, visible: Viewport, theme: Theme) => void} */
function drawHeadNames({ side, pointed, left, edge, inner }, painter, visible, theme) {
  const wide = edge > 66;
  painter.clipped(left - 2, 0, Math.max(visible.width - left, 0), TOP, () => {
    for (let head = 0; head < side.heads; head++) {
      const x = left + head * edge + inner / 2 - visible.x;
      const look = nameLook(head === (pointed?.head ?? state.head), theme);
      painter.text(wide ? `head ${head}` : String(head), x, TOP - 14, { ...look, align: "center" });
    }
  });
  if (!wide) painter.text("head", left, 10, nameLook(false, theme));
}
