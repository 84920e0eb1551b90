// Panes: one per side, or one for first − second. A canvas as large as what can be seen stays in place while its pane
// scrolls, so 512 tokens cost no more than 50.
import { CanvasPainter } from "../core/canvas_painter.js";
import { byId, make, penOf } from "../core/elements.js";
import { differenceName, sideName } from "../core/header.js";
import { redraw } from "../core/redraw.js";
import { paneNumbers } from "../core/selection.js";

/** @type {Pane[]} */
export const panes = [];

/** @type {() => Pane[]} */
export function drawnPanes() {
  return panes.filter((pane) => pane.scene !== null);
}

/**
 * As many as are wanted now; each new one is handed to what listens to it.
 *
 * @type {(listen: (pane: Pane) => void) => void}
 */
export function buildPanes(listen) {
  const wanted = paneNumbers();
  if (panes.length === wanted.length && panes.every((pane, i) => pane.number === wanted[i])) return;
  panes.splice(0).forEach((pane) => pane.root.remove());
  panes.push(...wanted.map(buildPane));
  panes.forEach((pane) => listen(pane));
  byId("stage").classList.toggle("two", wanted.length > 1);
}

/** @type {(number: number) => Pane} */
function buildPane(number) {
  const canvas = make("canvas");
  const message = make("p", { className: "message", hidden: true });
  const sizer = make("div", { className: "sizer" }, canvas);
  const scroller = make("div", { className: "scroll", tabIndex: 0, role: "application" }, sizer);
  const title = number < 0 ? differenceName() : sideName(number);
  const heading = title ? [make("h2", { textContent: title })] : [];
  const root = make("section", { className: "pane" }, ...heading, scroller, message);
  byId("stage").append(root);
  new ResizeObserver(redraw).observe(scroller);
  return { number, title, root, scroller, sizer, canvas, message, scene: null };
}

/** @type {(pane: Pane) => Viewport} */
export function viewportOf({ scroller }) {
  return { x: scroller.scrollLeft, y: scroller.scrollTop, width: scroller.clientWidth, height: scroller.clientHeight };
}

/** @type {(pane: Pane, theme: Theme) => void} */
export function drawPane(pane, theme) {
  const { scene, canvas, sizer } = pane;
  canvas.hidden = scene === null;
  if (scene === null) return;
  const { width, height } = viewportOf(pane);
  sizer.style.width = `${Math.max(scene.width <= width + 1 ? width : scene.width, 1)}px`;
  sizer.style.height = `${Math.max(scene.height, height)}px`;
  const pen = sizedPen(canvas, width, height);
  pen.fillStyle = theme.ground;
  pen.fillRect(0, 0, width, height);
  scene.draw(new CanvasPainter(pen), viewportOf(pane), theme);
}

/**
 * The pen of a canvas made so large, in pixels of the page, and as sharp as the screen.
 *
 * @type {(canvas: HTMLCanvasElement, width: number, height: number) => CanvasRenderingContext2D}
 */
export function sizedPen(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = penOf(canvas);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

/**
 * Scroll until a box of the scene is in sight, beside and below the names that stay.
 *
 * @type {(pane: Pane, box: Box) => void}
 */
export function scrollIntoSight({ scroller }, box) {
  scroller.scrollLeft = nearest(box.x - box.left, box.x + box.width, scroller.scrollLeft, scroller.clientWidth);
  scroller.scrollTop = nearest(box.y - box.above, box.y + box.height, scroller.scrollTop, scroller.clientHeight);
}

/** @type {(start: number, end: number, now: number, room: number) => number} */
function nearest(start, end, now, room) {
  if (start < now) return start;
  return end > now + room ? end - room : now;
}
