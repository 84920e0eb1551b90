// A matrix as a picture of one pixel per number, kept while there is room for it.
import { fillPixels } from "./colours.js";
import { make, penOf } from "./elements.js";
import { LimitedCache } from "./limited_cache.js";
import { state } from "./state.js";

/** @type {LimitedCache<Bitmap>} */
const bitmaps = new LimitedCache(64e6);

/**
 * The key must tell the numbers from all others.
 *
 * @typedef {HTMLCanvasElement & { byteLength: number }} Bitmap
 * @type {(key: string, numbers: Whole, width: number, limit: number, least: number, theme: Theme) => Bitmap}
 */
export function bitmapOf(key, numbers, width, limit, least, theme) {
  return bitmaps.get(`${key} ${limit} ${least} ${state.root} ${theme.ground}`, () => {
    const canvas = make("canvas", { width, height: numbers.length / width });
    const pen = penOf(canvas);
    const image = pen.createImageData(canvas.width, canvas.height);
    fillPixels(numbers, limit, least, theme, image.data);
    pen.putImageData(image, 0, 0);
    return Object.assign(canvas, { byteLength: 4 * numbers.length });
  });
}
