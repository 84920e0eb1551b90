// Light and dark. Blue is positive and orange negative, in every view; the scale of standard attention is the positive
// half of the signed one. Both halves grow steadily darker (on dark ground: lighter), so they survive grey print and
// colour blindness.
import { state } from "./state.js";

/** @type {{ light: Theme, dark: Theme }} */
export const THEMES = {
  light: {
    ground: "#ffffff", ink: "#18212b", soft: "#566270", faint: "#e4e8ed", accent: "#0b5cad", band: "#eef3f9",
    mark: "#111827",
    positive: ["#ffffff", "#dbe9f6", "#a3cbe6", "#5aa1d0", "#2371b4", "#0a3f7d", "#06234d"],
    negative: ["#ffffff", "#fee3c8", "#fdbd83", "#f58634", "#cf520c", "#8b3104", "#4f1a02"],
  },
  dark: {
    ground: "#131920", ink: "#e9edf2", soft: "#a9b4c0", faint: "#2a333d", accent: "#86bffb", band: "#1e2833",
    mark: "#ffffff",
    positive: ["#131920", "#143352", "#17548c", "#2b7fc9", "#62aef0", "#a9d5fc", "#eaf6ff"],
    negative: ["#131920", "#43260f", "#7b3c0c", "#bd5f12", "#ee9038", "#fcc586", "#fff0dc"],
  },
};

/** @type {() => Theme} */
export function themeNow() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches;
  return state.theme === "dark" || (state.theme === "auto" && system) ? THEMES.dark : THEMES.light;
}
