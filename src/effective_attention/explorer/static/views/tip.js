// The tip beside the pointer.
import { byId, make, penOf } from "../core/elements.js";
import { clamp } from "../core/numbers.js";
import { pointer } from "../core/pointer.js";
import { themeNow } from "../core/themes.js";
import { panes } from "./panes.js";

const MOST_ROWS = 16;
const LENS = 220; // pixels, the edge of an enlarged thumbnail

/** @type {(found: Description | null) => void} */
export function showTip(found) {
  const tip = byId("tip");
  const { target, position } = pointer;
  tip.hidden = found === null || target === null || position === null;
  if (found === null || target === null || position === null) return;
  const scene = panes.find((pane) => pane.number === target.pane)?.scene;
  const lens = scene?.lens?.(target, themeNow());
  const title = make("strong", { textContent: found.title });
  tip.replaceChildren(title, ...found.rows.slice(0, MOST_ROWS).map(rowOf), ...(lens ? [enlarged(lens)] : []));
  placeBeside(tip, position);
}

/** @type {(row: DescribedRow) => HTMLElement} */
function rowOf({ colour, label, number }) {
  const chip = make("i");
  if (colour) chip.style.background = colour;
  const words = [make("span", { textContent: label }), make("b", { textContent: number })];
  return make("div", { className: "row" }, ...(colour ? [chip] : []), ...words);
}

/**
 * Right of and below the pointer, or on the other side where there is no room.
 *
 * @type {(tip: HTMLElement, position: Point) => void}
 */
function placeBeside(tip, position) {
  const { width, height } = tip.getBoundingClientRect();
  const [wide, high] = [document.documentElement.clientWidth, innerHeight];
  const x = position.x + 18 + width > wide ? position.x - width - 14 : position.x + 18;
  const y = position.y + 18 + height > high ? position.y - height - 10 : position.y + 18;
  tip.style.left = `${clamp(x, 4, Math.max(wide - width - 4, 4))}px`;
  tip.style.top = `${clamp(y, 4, Math.max(high - height - 4, 4))}px`;
}

/** @type {(picture: HTMLCanvasElement) => HTMLCanvasElement} */
function enlarged(picture) {
  const canvas = make("canvas", { width: LENS, height: LENS });
  const pen = penOf(canvas);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(picture, 0, 0, LENS, LENS);
  return canvas;
}
