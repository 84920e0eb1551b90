// What pointer and keys do in a pane.
import { pointAt, pointer } from "../core/pointer.js";
import { redraw } from "../core/redraw.js";
import { setState, state } from "../core/state.js";
import { scrollIntoSight, viewportOf } from "./panes.js";

/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const PLACES = /** @type {const} */ (["query", "key", "layer", "head"]);
const last = { pointerType: "mouse" };
addEventListener("scroll", leaveTip, { passive: true });

/** @type {(pane: Pane) => void} */
export function listenToPane(pane) {
  const { scroller, canvas, number } = pane;
  scroller.addEventListener("scroll", leaveTip, { passive: true });
  scroller.addEventListener("mousedown", (press) => press.preventDefault()); // or a click takes the arrow keys away
  scroller.addEventListener("blur", () => pointAt(number, null));
  scroller.addEventListener("keydown", (press) => onKey(press, pane));
  canvas.addEventListener("pointermove", (motion) => {
    if (motion.pointerType !== "touch") pointAt(number, targetOf(motion, pane), placeOf(motion)); // a finger scrolls
  });
  canvas.addEventListener("pointerleave", (leave) => {
    if (leave.pointerType !== "touch") pointAt(number, null); // a finger leaves with every tap
  });
  canvas.addEventListener("pointerdown", ({ pointerType }) => Object.assign(last, { pointerType }));
  canvas.addEventListener("click", (click) => onClick(click, pane));
}

/**
 * A finger cannot point without touching: its first tap points, a second one at the same place chooses.
 *
 * @type {(click: MouseEvent, pane: Pane) => void}
 */
function onClick(click, pane) {
  const target = targetOf(click, pane);
  if (last.pointerType !== "touch" || isPointedAt(target, pane)) choose(target);
  else pointAt(pane.number, target, placeOf(click));
}

/** @type {(target: Target | null, pane: Pane) => boolean} */
function isPointedAt(target, { number }) {
  const before = pointer.target;
  if (target === null || before?.pane !== number) return false;
  return PLACES.every((field) => (before[field] ?? null) === (target[field] ?? null));
}

/**
 * What a finger scrolls moves away from under the tip.
 *
 * @type {() => void}
 */
function leaveTip() {
  if (last.pointerType === "touch") pointer.position = null;
  redraw();
}

/** @type {(at: MouseEvent) => Point} */
const placeOf = ({ clientX, clientY }) => ({ x: clientX, y: clientY });

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
