// What the pointer or the keyboard is at.
import { header } from "./header.js";
import { redraw } from "./redraw.js";

/** @type {{ target: Pointed | null, position: Point | null }} position: on the screen; null: it came by keyboard */
export const pointer = { target: null, position: null };

/** @type {(pane: number, target: Target | null, position?: Point | null) => void} */
export function pointAt(pane, target, position = null) {
  pointer.target = target === null ? null : { ...target, pane };
  pointer.position = position;
  redraw();
}

/**
 * With the same tokens on both sides, what is pointed at on one is marked on the other.
 *
 * @type {(pane: number) => Pointed | null}
 */
export function pointedIn(pane) {
  const { target } = pointer;
  return target !== null && (target.pane === pane || header.same_tokens) ? target : null;
}
