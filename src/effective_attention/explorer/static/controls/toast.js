// A short message that goes away by itself.
import { byId } from "../core/elements.js";

const SECONDS = 4;
const timer = { id: 0 };

/** @type {(text: string) => void} */
export function toast(text) {
  const box = byId("toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(timer.id);
  timer.id = setTimeout(() => {
    box.hidden = true;
  }, 1000 * SECONDS);
}
