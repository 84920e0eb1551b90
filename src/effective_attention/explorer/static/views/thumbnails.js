// Small pictures of heads, made a few per frame as the layers come in.
import { bitmapOf } from "../core/bitmaps.js";
import { blockIds, isLoaded, loadingCount } from "../core/blocks.js";
import { LimitedCache } from "../core/limited_cache.js";
import { keyCount, matrixOf, matrixReady } from "../core/matrices.js";
import { redraw } from "../core/redraw.js";
import { hasHead, shownName, shownTokens, sideOf, sidesOf, thresholdWhole } from "../core/selection.js";
import { state } from "../core/state.js";

const MOST_EDGE = 64; // rows and columns
const FRAME_BUDGET = 12; // milliseconds of work before the browser gets its turn
const AT_ONCE = 4; // blocks being unpacked

/** @type {LimitedCache<Int32Array>} */
const pools = new LimitedCache(64e6);
/** @type {LimitedCache<number>} */
const largestNumbers = new LimitedCache(1e6);

/** @type {(pane: number, layer: number, head: number) => string} */
function nameOf(pane, layer, head) {
  return `${pane} ${state.part} ${layer} ${head} ${shownName()}`;
}

/**
 * The numbers of each head's thumbnail, layer by layer; null: not yet.
 *
 * @type {(pane: number) => (Int32Array | null)[]}
 */
export function thumbnailNumbers(pane) {
  const side = sideOf(pane);
  const start = performance.now();
  const found = [];
  let unfinished = false;
  for (let layer = 0; layer < side.layers; layer++) {
    const ready = (loadingCount() < AT_ONCE || layerIsHere(pane, layer)) && matrixReady(pane, state.part, layer);
    for (let head = 0; head < side.heads; head++) {
      const late = performance.now() - start > FRAME_BUDGET && !pools.has(nameOf(pane, layer, head));
      unfinished ||= ready && late;
      found.push(ready && !late && hasHead(pane, layer, head) ? pooled(pane, layer, head) : null);
    }
  }
  if (unfinished) redraw();
  return found;
}

/** @type {(pane: number, layer: number) => boolean} */
function layerIsHere(pane, layer) {
  return sidesOf(pane).every((side) => blockIds(side, state.part, layer).every(isLoaded));
}

/**
 * The matrix of the shown tokens made at most 64 × 64: of each field the number furthest from 0, so that thin lines
 * survive.
 *
 * @type {(pane: number, layer: number, head: number) => Int32Array}
 */
function pooled(pane, layer, head) {
  return pools.get(nameOf(pane, layer, head), () => {
    const numbers = matrixOf(pane, state.part, layer, head);
    const size = keyCount(pane);
    const [queries, keys] = [shownTokens(pane, "query"), shownTokens(pane, "key")];
    const [height, width] = [pooledEdge(queries), pooledEdge(keys)];
    const columns = keys.map((_, j) => Math.floor((j * width) / keys.length));
    const pool = new Int32Array(height * width);
    queries.forEach((query, i) => {
      const start = Math.floor((i * height) / queries.length) * width;
      keys.forEach((key, j) => {
        const value = numbers[query * size + key];
        const at = start + columns[j];
        if (Math.abs(value) > Math.abs(pool[at])) pool[at] = value;
      });
    });
    return pool;
  });
}

/** @type {(places: number[]) => number} */
const pooledEdge = (places) => Math.min(MOST_EDGE, places.length);

/** @type {(pane: number, all: (Int32Array | null)[]) => number} */
export function largestInThumbnails(pane, all) {
  const drawn = all.filter((pool) => pool !== null);
  return largestNumbers.get(`${pane} ${state.part} ${shownName()} ${drawn.length}`, () => {
    let most = 0;
    for (const pool of drawn) for (let i = 0; i < pool.length; i++) most = Math.max(most, Math.abs(pool[i]));
    return most;
  });
}

/**
 * A thumbnail as a picture of at most so many rows and columns.
 *
 * @typedef {(numbers: Int32Array, pane: number, head: HeadPlace, limit: number, theme: Theme,
 *   most?: number) => HTMLCanvasElement} MakeBitmap
 * @type {MakeBitmap}
 */
export function thumbnailBitmap(numbers, pane, { layer, head }, limit, theme, most = MOST_EDGE) {
  const width = pooledEdge(shownTokens(pane, "key"));
  const key = `thumbnail ${nameOf(pane, layer, head)} ${most}`;
  const shown = pools.get(key, () => shrunk(numbers, width, most));
  return bitmapOf(key, shown, Math.min(width, most), limit, thresholdWhole(), theme);
}

/**
 * Numbers in rows of a width, made at most so many rows and columns as `pooled` does: a picture drawn smaller than it
 * is would lose whole rows, and with them a diagonal.
 *
 * @type {(numbers: Int32Array, width: number, most: number) => Int32Array}
 */
function shrunk(numbers, width, most) {
  const height = numbers.length / width;
  const [rows, columns] = [Math.min(height, most), Math.min(width, most)];
  if (rows === height && columns === width) return numbers;
  const pool = new Int32Array(rows * columns);
  for (let at = 0; at < numbers.length; at++) {
    const row = Math.floor((Math.floor(at / width) * rows) / height);
    const place = row * columns + Math.floor(((at % width) * columns) / width);
    if (Math.abs(numbers[at]) > Math.abs(pool[place])) pool[place] = numbers[at];
  }
  return pool;
}
