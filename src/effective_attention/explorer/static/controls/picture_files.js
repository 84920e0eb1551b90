// Pictures to take away: always on white, the whole view and not only what is in sight.
import { CanvasPainter } from "../core/canvas_painter.js";
import { make, penOf } from "../core/elements.js";
import { differenceName, showsWords, sides } from "../core/header.js";
import { largest } from "../core/numbers.js";
import { betweenName, isComparing } from "../core/selection.js";
import { state } from "../core/state.js";
import { SvgPainter } from "../core/svg_painter.js";
import { fitted } from "../core/text_width.js";
import { THEMES } from "../core/themes.js";
import { legendNow, paintLegend } from "../views/legend.js";
import { drawnPanes, panes } from "../views/panes.js";
import { download, fileName, viewWords } from "./download.js";
import { toast } from "./toast.js";

const LONGEST_EDGE = 16000; // pixels that every browser's canvas can do
const MOST_PIXELS = 1.2e8;
const GAP = 24; // pixels around and between scenes
const TOP = 64; // above them, for the titles
const BOTTOM = 56; // below them, for the legend

/** @type {() => string} */
function pictureTitle() {
  const { view, part, layer, head, stack } = state;
  const heads = state.heads === null ? "all heads" : `heads ${state.heads.join(" ")}`;
  const one = `layer ${layer}, head ${head}`;
  const where = {
    heads: `layer ${layer}, ${heads}`, model: "all layers and heads", rollout: "rollout", heatmap: one, neuron: one,
  };
  const models = [...new Set(sides.map((side) => side.model))].join(" and ");
  const who = isComparing() ? differenceName() : models;
  const words = showsWords() ? "between words" : "";
  return [`${part} attention`, words, betweenName(), stack, where[view], who].filter(Boolean).join(" · ");
}

/**
 * The current view as scenes side by side, each with the size it wants.
 *
 * @typedef {{ scenes: { x: number, scene: Scene, title: string }[], width: number, height: number }} Sheet
 * @type {() => Sheet}
 */
function sheetNow() {
  /** @type {Sheet["scenes"]} */
  const scenes = [];
  let x = GAP;
  for (const { scene, title } of drawnPanes()) {
    if (scene === null) continue;
    scenes.push({ x, scene, title: panes.length > 1 ? title : "" });
    x += scene.width + GAP;
  }
  return { scenes, width: Math.max(x, 560), height: TOP + largest(scenes.map(({ scene }) => scene.height)) + BOTTOM };
}

/** @type {(painter: Painter, sheet: Sheet) => void} */
function paintSheet(painter, { scenes, width, height }) {
  const theme = THEMES.light;
  painter.rect(0, 0, width, height, theme.ground);
  painter.text(fitted(pictureTitle(), 15, width - 2 * GAP), GAP, 24, { size: 15, colour: theme.ink, bold: true });
  for (const { x, scene, title } of scenes) {
    const whole = { x: 0, y: 0, width: scene.width, height: scene.height };
    if (title) painter.text(title, x, 48, { size: 13, colour: theme.soft, bold: true });
    painter.moved(x, TOP, () => scene.draw(painter, whole, theme));
  }
  const legend = legendNow(true);
  if (legend.limit > 0) paintLegend(painter, { x: 0, y: height - 38 }, 260, legend, theme);
  painter.text(legend.note, legend.limit > 0 ? 270 : GAP, height - 28, { size: 12, colour: theme.soft });
}

/** @type {() => void} */
export function saveSvg() {
  const sheet = sheetNow();
  const painter = new SvgPainter();
  paintSheet(painter, sheet);
  const text = painter.finished(sheet.width, sheet.height, pictureTitle());
  download(new Blob([text], { type: "image/svg+xml" }), fileName(viewWords(), "svg"));
}

/**
 * Twice the size, or as large as a canvas can be.
 *
 * @type {() => void}
 */
export function savePng() {
  const sheet = sheetNow();
  const { width, height } = sheet;
  const scale = Math.min(2, LONGEST_EDGE / width, LONGEST_EDGE / height, Math.sqrt(MOST_PIXELS / (width * height)));
  const canvas = make("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
  const pen = penOf(canvas);
  pen.scale(scale, scale);
  paintSheet(new CanvasPainter(pen), sheet);
  canvas.toBlob((blob) => {
    if (blob === null) toast("This picture is too large for the browser; zoom out and try again.");
    else download(blob, fileName(viewWords(), "png"));
  });
}
