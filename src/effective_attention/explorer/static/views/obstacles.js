// Why a pane shows nothing, in words.
import { loadingFailure } from "../core/blocks.js";
import { sides } from "../core/header.js";
import { matrixReady } from "../core/matrices.js";
import { hasHead } from "../core/selection.js";
import { state } from "../core/state.js";
import { rolloutIsMeant, rolloutPossible, rolloutReady } from "../core/token_rollout.js";
import { headsHere } from "./head_lines.js";
import { neuronAvailable, neuronReady } from "./neuron_numbers.js";

const READING = "reading…";
const NO_NULL_ROLLOUT =
  "Rollout is not available for null attention, whose weights are no shares: choose another one.";
const NO_OTHERS_ROLLOUT = "Rollout follows tokens through all layers to themselves; these look at others, too.";
const NO_NEURONS = "Queries and keys are not in this file.";

/**
 * Why a view shows nothing in any pane, whatever else is chosen; null: it does.
 *
 * @type {(view: View) => string | null}
 */
export function closedView(view) {
  if (view === "rollout" && !rolloutIsMeant()) return NO_OTHERS_ROLLOUT;
  return view === "neuron" && !sides.some((_, side) => neuronAvailable(side)) ? NO_NEURONS : null;
}

/**
 * Likewise of an attention, in the view that is chosen.
 *
 * @type {(part: Attention) => string | null}
 */
export function closedPart(part) {
  return part === "null" && state.view === "rollout" ? NO_NULL_ROLLOUT : null;
}

/**
 * Null: the pane can be drawn.
 *
 * @type {(pane: number) => string | null}
 */
export function obstacle(pane) {
  const failure = loadingFailure();
  if (failure !== null) return failure;
  if (state.view === "model") return null;
  if (state.view === "rollout") return rolloutObstacle(pane);
  const head = state.view === "heads" ? 0 : state.head;
  if (!hasHead(pane, state.layer, head)) return `There is no layer ${state.layer}, head ${state.head} on this side.`;
  if (state.view === "neuron") return neuronObstacle(pane);
  if (state.view === "heads" && headsHere(pane).length === 0) return "No head is chosen: click a number above.";
  return matrixReady(pane, state.part, state.layer) ? null : READING;
}

/** @type {(pane: number) => string | null} */
function rolloutObstacle(pane) {
  if (!rolloutIsMeant()) return NO_OTHERS_ROLLOUT;
  if (closedPart(state.part) !== null) return closedPart(state.part);
  if (!rolloutPossible(pane)) return "Rollout: the two sides have different numbers of layers.";
  return rolloutReady(pane, state.part) ? null : READING;
}

/** @type {(pane: number) => string | null} */
function neuronObstacle(pane) {
  if (!neuronAvailable(pane)) return NO_NEURONS;
  return neuronReady(pane) ? null : READING;
}
