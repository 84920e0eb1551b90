// What colours and lines mean, with their ends.
import { CanvasPainter } from "../core/canvas_painter.js";
import { scaleColour } from "../core/colours.js";
import { byId } from "../core/elements.js";
import { isSignedPart, sides, unit } from "../core/header.js";
import { commonLimit, isSigned } from "../core/matrices.js";
import { briefly, largest, MINUS } from "../core/numbers.js";
import { activeHeads, isComparing } from "../core/selection.js";
import { state } from "../core/state.js";
import { rolloutIsMeant } from "../core/token_rollout.js";
import { allLines } from "./head_lines.js";
import { modelLimit } from "./model.js";
import { drawnPanes, sizedPen } from "./panes.js";
import { rolloutLimit } from "./rollout.js";

const STEPS = 60;
const MARGIN = 30; // pixels left and right of the bar

/**
 * A limit of 0: no colour scale. Saved: on paper nobody can point at anything.
 *
 * @type {(saved?: boolean) => Legend}
 */
export function legendNow(saved = false) {
  const signed = isSigned(state.part, isComparing());
  const scale = state.root ? "colour by √ of the weight" : "";
  if (state.view === "neuron") return { signed, limit: 0, note: "blue: above 0 · orange: below 0" };
  if (state.view === "model") return { signed, limit: modelLimit(), note: scale };
  if (state.view === "rollout") return rolloutLegend(scale);
  if (state.view === "heads") return { signed, limit: 0, note: headsNote(signed, saved) };
  return { signed, limit: commonLimit(state.part, state.layer, [state.head]), note: scale };
}

/** @type {(scale: string) => Legend} */
function rolloutLegend(scale) {
  const { part } = state;
  const signed = part === "difference" || isComparing();
  if (part === "null" || !rolloutIsMeant()) return { signed, limit: 0, note: "" };
  const { convention, residual } = sides[0];
  const rule = convention === "absolute" ? "size of negative weights taken" : "negative weights dropped";
  const notes = [isSignedPart(part) ? rule : "", `residual ${residual}`, scale];
  return { signed, limit: rolloutLimit(part), note: notes.filter(Boolean).join(" · ") };
}

/** @type {(signed: boolean, saved: boolean) => string} */
function headsNote(signed, saved) {
  const limit = commonLimit(state.part, state.layer, activeHeads());
  const cut = largest(drawnPanes().map((pane) => allLines(pane.number, limit).cut));
  const where = saved ? "are left out" : "show when you point at a token";
  const left = cut > 0 ? ` · weights below ${briefly(cut / unit())} ${where}` : "";
  return `full colour = ${briefly(limit / unit())}${signed ? " · dashed: negative" : ""}${left}`;
}

/** @type {(theme: Theme) => void} */
export function showLegend(theme) {
  const legend = legendNow();
  byId("legend-note").textContent = legend.note;
  const canvas = byId("legend-bar");
  canvas.hidden = legend.limit === 0;
  if (canvas.hidden) return;
  const pen = sizedPen(canvas, 240, 26);
  pen.clearRect(0, 0, 240, 26);
  paintLegend(new CanvasPainter(pen), { x: 0, y: 0 }, 240, legend, theme);
  const end = briefly(legend.limit / unit());
  canvas.setAttribute("aria-label", `colour scale from ${legend.signed ? `${MINUS}${end}` : "0"} to ${end}`);
}

/**
 * A bar with three numbers under it; the middle one is where the middle colour is.
 *
 * @type {(painter: Painter, at: Point, width: number, legend: Legend, theme: Theme) => void}
 */
export function paintLegend(painter, { x, y }, width, { signed, limit }, theme) {
  const inner = width - 2 * MARGIN;
  for (let i = 0; i < STEPS; i++) {
    const place = signed ? (2 * i) / (STEPS - 1) - 1 : i / (STEPS - 1);
    const colour = scaleColour(place, Math.round(255 * Math.abs(place)), theme);
    painter.rect(x + MARGIN + (i * inner) / STEPS, y, inner / STEPS + 0.5, 10, colour);
  }
  painter.frame(x + MARGIN - 0.5, y + 0.5, inner + 1, 10, theme.faint);
  const middle = signed ? 0 : state.root ? limit / 4 : limit / 2;
  [signed ? -limit : 0, middle, limit].forEach((value, i) => {
    const place = x + MARGIN + (i * inner) / 2;
    painter.text(briefly(value / unit()), place, y + 19, { size: 11, colour: theme.soft, align: "center" });
  });
}
