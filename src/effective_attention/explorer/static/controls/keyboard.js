// The keyboard.
import { header, VIEWS } from "../core/header.js";
import { pointAt } from "../core/pointer.js";
import { canCompare, hasPairs } from "../core/selection.js";
import { BETWEEN, setState, state } from "../core/state.js";
import { closedView } from "../views/obstacles.js";
import { closeExportMenu, exportMenuIsOpen } from "./export_menu.js";
import { helpIsOpen, openHelp } from "./help.js";
import { copyLink } from "./link.js";
import { stepHead, stepLayer, stepThreshold, stepZoom } from "./steps.js";
import { toast } from "./toast.js";

/** @type {Record<string, () => void>} */
const ACTIONS = {
  s: () => setState({ part: "standard" }),
  e: () => setState({ part: "effective" }),
  n: () => setState({ part: "null" }),
  d: () => setState({ part: "difference" }),
  f: () => setState({ part: "affine" }),
  p: () => setState({ part: "sparse" }),
  m: () => setState({ part: "smallest" }),
  c: () => setState({ compare: canCompare() && !state.compare }),
  a: () => setState({ heads: null }),
  x: () => setState({ stack: header.stacks[(header.stacks.indexOf(state.stack ?? "") + 1) % header.stacks.length] }),
  b: () => setState({ between: hasPairs() ? BETWEEN[(BETWEEN.indexOf(state.between) + 1) % BETWEEN.length] : "all" }),
  w: () => setState({ words: !state.words }),
  t: () => setState({ special: !state.special }),
  l: copyLink,
  "[": () => stepThreshold(-1),
  "]": () => stepThreshold(1),
  "+": () => stepZoom(1),
  "=": () => stepZoom(1),
  "-": () => stepZoom(-1),
  "?": openHelp,
  Escape: letGo,
  ArrowLeft: () => stepHead(-1),
  ArrowRight: () => stepHead(1),
  ArrowUp: () => stepLayer(state.view === "rollout" ? 1 : -1), // there the last layer is on top
  ArrowDown: () => stepLayer(state.view === "rollout" ? -1 : 1),
  ...Object.fromEntries(VIEWS.map((view, index) => [String(index + 1), () => openView(view)])),
};

/**
 * Unless it is closed, as its button is: then say why.
 *
 * @type {(view: View) => void}
 */
function openView(view) {
  const reason = closedView(view);
  if (reason === null) setState({ view });
  else toast(reason);
}

/** @type {() => void} */
function letGo() {
  if (exportMenuIsOpen()) closeExportMenu();
  else setState({ query: null, key: null });
  pointAt(0, null);
}

/**
 * Keys that a control needs for itself stay with it.
 *
 * @type {(key: string, control: any) => boolean}
 */
function belongsToControl(key, { tagName, type }) {
  if (tagName === "SELECT") return key.startsWith("Arrow") || key.length === 1;
  if (tagName === "INPUT") return type === "range" ? key.startsWith("Arrow") : type !== "checkbox";
  return false;
}

/** @type {() => void} */
export function listenToKeys() {
  document.addEventListener("keydown", (press) => {
    const { key } = press;
    if (press.ctrlKey || press.metaKey || press.altKey || helpIsOpen() || belongsToControl(key, press.target)) return;
    if (!Object.hasOwn(ACTIONS, key)) return;
    press.preventDefault();
    ACTIONS[key]();
  });
}
