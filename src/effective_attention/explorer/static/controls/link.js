// A link that opens this very view.
import { byId } from "../core/elements.js";
import { hashOfState } from "../core/state.js";
import { toast } from "./toast.js";

/** @type {() => void} */
export function buildLink() {
  byId("link").addEventListener("click", copyLink);
}

/** @type {() => Promise<void>} */
export async function copyLink() {
  const link = location.href.split("#")[0] + hashOfState();
  try {
    await navigator.clipboard.writeText(link);
    toast("Link copied");
  } catch {
    toast(link); // no clipboard here: the link itself, to copy by hand
  }
}
