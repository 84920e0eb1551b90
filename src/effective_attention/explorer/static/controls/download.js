// Files that the page hands to the reader, and what they are called.
import { make } from "../core/elements.js";
import { differenceName, showsWords } from "../core/header.js";
import { activeHeads, isComparing } from "../core/selection.js";
import { state } from "../core/state.js";
import { toast } from "./toast.js";

/** @type {(blob: Blob, file: string) => void} */
export function download(blob, file) {
  const link = make("a", { href: URL.createObjectURL(blob), download: file });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  toast(`Saved ${file}`);
}

/** @type {(head: number) => string[]} */
export function headWords(head) {
  return [`layer${state.layer}`, `head${head}`];
}

/** @type {() => string[]} */
export function viewWords() {
  const { view, layer, head } = state;
  const heads = activeHeads();
  if (view === "heads") return heads.length === 1 ? headWords(heads[0]) : [`layer${layer}`, "heads"];
  if (view === "heatmap") return headWords(head);
  return view === "neuron" ? ["neuron", ...headWords(head)] : [view];
}

/** @type {(where: string[], extension: string, side?: string) => string} */
export function fileName(where, extension, side = "") {
  const compared = isComparing() ? safeWords(differenceName("minus")) : "";
  const between = state.between === "all" ? "" : state.between.replace("-", "-to-");
  const what = ["attention", state.part, showsWords() ? "words" : "", between, state.stack, compared];
  return `${[...what, ...where, safeWords(side)].filter(Boolean).join("-")}.${extension}`;
}

/** @type {(text: string) => string} */
function safeWords(text) {
  return text.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
}
