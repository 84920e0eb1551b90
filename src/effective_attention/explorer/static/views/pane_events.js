// What pointer and keys do in a pane.
import { pointAt, pointer } from "../core/pointer.js";
import { redraw } from "../core/redraw.js";
import { setState, state } from "../core/state.js";
import { scrollIntoSight, viewportOf } from "./panes.js";

/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** @type {(pane: Pane) => void} */
export function listenToPane(pane) {
  const { scroller, canvas, number } = pane;
  scroller.addEventListener("scroll", redraw, { passive: true });
  scroller.addEventListener("mousedown", (press) => press.preventDefault()); // or a click takes the arrow keys away
  scroller.addEventListener("blur", () => pointAt(number, null));
  scroller.addEventListener("keydown", (press) => onKey(press, pane));
  canvas.addEventListener("pointermove", (motion) => {
    pointAt(number, targetOf(motion, pane), { x: motion.clientX, y: motion.clientY });
  });
  canvas.addEventListener("pointerleave", () => pointAt(number, null));
  canvas.addEventListener("click", (click) => choose(targetOf(click, pane)));
}

/** @type {(at: MouseEvent, pane: Pane) => Target | null} */
function targetOf(at, pane) {
  const box = pane.canvas.getBoundingClientRect();
  return pane.scene?.hit(at.clientX - box.left, at.clientY - box.top, viewportOf(pane)) ?? null;
}

/** @type {(target: Target | null) => void} */
function choose(target) {
  if (target === null) return;
  const { query, key, layer, head } = target;
  if (state.view === "model") setState({ view: "heatmap", layer, head });
  else if (state.view === "neuron") setState(target.choose === "query" ? { query } : { key });
  else if (state.view === "rollout") setState({ layer: layer ?? state.layer, query: key ?? state.query });
  else if (state.view === "heads") hold(query ?? (key === null ? null : state.query), key);
  else hold(query, key);
}

/**
 * A click holds a row, a column or both; a second one lets go.
 *
 * @type {(query: number | null, key: number | null) => void}
 */
function hold(query, key) {
  const same = state.query === query && state.key === key;
  setState(same ? { query: null, key: null } : { query, key });
}

/** @type {(press: KeyboardEvent, pane: Pane) => void} */
function onKey(press, pane) {
  if (pane.scene === null || press.altKey || press.ctrlKey || press.metaKey) return;
  const arrow = ARROWS[press.key];
  if (arrow) {
    const target = pane.scene.move(...arrow);
    pointAt(pane.number, target);
    scrollIntoSight(pane, pane.scene.box(target));
  } else if ((press.key === "Enter" || press.key === " ") && pointer.target) choose(pointer.target);
  else return;
  press.preventDefault();
  press.stopPropagation();
}
