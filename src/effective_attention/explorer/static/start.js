// Where the page begins: puts its parts together, and offers tests and notebooks a way in.
import { showChips } from "./controls/head_chips.js";
import { fillCards } from "./controls/cards.js";
import { buildExportMenu } from "./controls/export_menu.js";
import { buildHelp } from "./controls/help.js";
import { listenToKeys } from "./controls/keyboard.js";
import { buildLink } from "./controls/link.js";
import { buildToolbar } from "./controls/toolbar.js";
import { layerLoaded, loadingCount } from "./core/blocks.js";
import { byId } from "./core/elements.js";
import { weightText } from "./core/header.js";
import { weightAt } from "./core/matrices.js";
import { drawWith, redraw, settled } from "./core/redraw.js";
import { onStateChange, readAddress, restoreState, setState, state } from "./core/state.js";
import { drawPage } from "./views/drawing.js";
import { panes } from "./views/panes.js";

drawWith(drawPage, () => loadingCount() > 0);
readAddress();
fillCards();
buildToolbar();
buildHelp();
listenToKeys();
buildExportMenu();
buildLink();

onStateChange(fillCards);
addEventListener("hashchange", restoreState);
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  showChips();
  redraw();
});
byId("skip").addEventListener("click", (/** @type {MouseEvent} */ click) => {
  click.preventDefault();
  panes[0]?.scroller.focus();
});

// What is shown, how to change it, and any weight exactly as stored, as text.
window.explorer = {
  get state() {
    return { ...state };
  },
  set: setState,
  async value(side, part, layer, head, query, key) {
    await layerLoaded(side, part, layer);
    return weightText(weightAt(side, part, layer, head, query, key));
  },
  settled,
  ready: settled(),
};
