// The line under the picture: what is in focus, for the eye and as data for programs.
import { byId } from "../core/elements.js";
import { sideName, sides, tokensOf } from "../core/header.js";
import { state } from "../core/state.js";

const FIELDS = /** @type {const} */ (["value", "query", "key", "layer", "head"]);

/** @type {(found: Description | null) => void} */
export function showReadout(found) {
  const readout = byId("readout");
  const text = found?.text ?? restingText();
  if (readout.textContent !== text) readout.textContent = text;
  for (const field of FIELDS) {
    const value = found?.[field] ?? null;
    if (value === null) delete readout.dataset[field];
    else readout.dataset[field] = value;
  }
  readout.dataset.part = state.part;
}

/**
 * With nothing in focus: what the values allow the head's attention to be.
 *
 * @type {() => string}
 */
function restingText() {
  const { view, layer, head } = state;
  if (view === "model") return "Point at a head to see it larger; click to open it.";
  const facts = sides.map(rankText).filter(Boolean).join(" · ");
  if (view === "rollout" || facts === "") return "Point at a cell or a token to read its value.";
  return `Layer ${layer}, head ${head}: ${facts}.`;
}

/** @type {(side: Side, index: number) => string} */
function rankText(side, index) {
  const rank = side.ranks?.[state.layer]?.[state.head] ?? null;
  if (rank === null) return "";
  const nothing = "nothing is lost: effective equals standard";
  const { size } = tokensOf(side.joined?.side ?? side, "key"); // values are of pieces
  const lost = rank >= size ? nothing : `a null space of ${size - rank} dimensions`;
  return `${sideName(index) ? `${sideName(index)}: ` : ""}values of rank ${rank} for ${size} tokens, ${lost}`;
}
