// Changes by steps, for buttons and keys alike.
import { headCount, layerCount } from "../core/header.js";
import { clamp } from "../core/numbers.js";
import { setState, state, THEME_NAMES, THRESHOLDS, ZOOMS } from "../core/state.js";

/** @type {(by: number) => void} */
export function stepLayer(by) {
  setState({ layer: clamp(state.layer + by, 0, layerCount() - 1) });
}

/** @type {(by: number) => void} */
export function stepHead(by) {
  takeHead(clamp(state.head + by, 0, headCount() - 1));
}

/**
 * In the view of heads, going to a head shows it alone.
 *
 * @type {(head: number) => void}
 */
export function takeHead(head) {
  setState(state.view === "heads" ? { head, heads: [head] } : { head });
}

/** @type {(by: number) => void} */
export function stepZoom(by) {
  setState({ zoom: ZOOMS[clamp(ZOOMS.indexOf(state.zoom) + by, 0, ZOOMS.length - 1)] });
}

/** @type {(by: number) => void} */
export function stepThreshold(by) {
  setState({ threshold: THRESHOLDS[clamp(nearestThreshold() + by, 0, THRESHOLDS.length - 1)] });
}

/**
 * Where on the slider the threshold is; a link may hold any.
 *
 * @type {() => number}
 */
export function nearestThreshold() {
  const distances = THRESHOLDS.map((value) => Math.abs(value - state.threshold));
  return distances.indexOf(Math.min(...distances));
}

/** @type {() => void} */
export function nextTheme() {
  setState({ theme: THEME_NAMES[(THEME_NAMES.indexOf(state.theme) + 1) % THEME_NAMES.length] });
}
