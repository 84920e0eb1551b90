// Draws the page: each pane's scene, the legend, and what is said of the place in focus.
import { differenceName, showsWords, sideName } from "../core/header.js";
import { pointedIn, pointer } from "../core/pointer.js";
import { betweenName } from "../core/selection.js";
import { state } from "../core/state.js";
import { themeNow } from "../core/themes.js";
import { describeFocus } from "./descriptions.js";
import { headsScene } from "./heads.js";
import { heatmapScene } from "./heatmap.js";
import { showLegend } from "./legend.js";
import { modelScene } from "./model.js";
import { neuronScene } from "./neuron.js";
import { obstacle } from "./obstacles.js";
import { listenToPane } from "./pane_events.js";
import { buildPanes, drawPane, panes, viewportOf } from "./panes.js";
import { showReadout } from "./readout.js";
import { rolloutScene } from "./rollout.js";
import { showTip } from "./tip.js";

/** @type {Record<View, SceneMaker>} */
const SCENES = {
  heads: headsScene, model: modelScene, heatmap: heatmapScene, neuron: neuronScene, rollout: rolloutScene,
};
/** @type {{ view: View | null, stack: string | null }} */
const last = { view: null, stack: null };

/** @type {() => void} */
export function drawPage() {
  buildPanes(listenToPane);
  if (last.view !== state.view || last.stack !== state.stack) {
    Object.assign(last, { view: state.view, stack: state.stack });
    pointer.target = null; // what was pointed at is no longer there
    panes.forEach((pane) => pane.scroller.scrollTo(0, 0));
  }
  const theme = themeNow();
  panes.forEach(updatePane);
  panes.forEach((pane) => drawPane(pane, theme));
  showLegend(theme);
  const found = describeFocus();
  showReadout(found);
  showTip(found);
}

/** @type {(pane: Pane) => void} */
function updatePane(pane) {
  const { number, message, scroller } = pane;
  const trouble = obstacle(number);
  message.hidden = trouble === null;
  message.textContent = trouble ?? "";
  pane.scene = trouble === null ? SCENES[state.view](number, viewportOf(pane), pointedIn(number)) : null;
  scroller.setAttribute("aria-label", paneLabel(number));
}

/** @type {(number: number) => string} */
function paneLabel(number) {
  const { view, part, layer, head, stack } = state;
  const one = `layer ${layer}, head ${head}`;
  const all = { model: "all layers and heads", rollout: "all layers" };
  const where = { heads: `layer ${layer}`, heatmap: one, neuron: one, ...all };
  const who = number < 0 ? differenceName("minus") : sideName(number);
  const words = showsWords() ? "between words" : "";
  const parts = [`${view} view`, `${part} attention`, words, betweenName(), stack, where[view], who];
  return [...parts, "arrow keys move, Enter chooses"].filter(Boolean).join(", ");
}
