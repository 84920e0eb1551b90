// The menu of pictures and numbers to take away.
import { byId, every } from "../core/elements.js";
import { settled } from "../core/redraw.js";
import { drawnPanes } from "../views/panes.js";
import { saveCsv } from "./csv_files.js";
import { savePng, saveSvg } from "./picture_files.js";
import { toast } from "./toast.js";

/** @type {Record<string, () => void | Promise<void>>} */
const SAVE = { svg: saveSvg, png: savePng, csv: saveCsv };

/** @type {() => void} */
export function buildExportMenu() {
  byId("export").addEventListener("click", () => (exportMenuIsOpen() ? closeExportMenu() : openExportMenu()));
  document.addEventListener("click", ({ target }) => {
    if (!(target instanceof Element && target.closest(".menu"))) closeExportMenu();
  });
  for (const button of every("[data-export]")) {
    button.addEventListener("click", () => {
      closeExportMenu();
      save(button.dataset.export);
    });
  }
}

/** @type {() => boolean} */
export function exportMenuIsOpen() {
  return !byId("export-menu").hidden;
}

/** @type {() => void} */
function openExportMenu() {
  byId("export-menu").hidden = false;
  byId("export").setAttribute("aria-expanded", "true");
  byId("export-menu").querySelector("button").focus();
}

/** @type {() => void} */
export function closeExportMenu() {
  if (byId("export-menu").contains(document.activeElement)) byId("export").focus();
  byId("export-menu").hidden = true;
  byId("export").setAttribute("aria-expanded", "false");
}

/** @type {(kind: string) => Promise<void>} */
async function save(kind) {
  await settled();
  if (drawnPanes().length === 0) toast("There is nothing to save in this view.");
  else await SAVE[kind]();
}
