// Draws on a canvas, for the screen and for PNG. svg_painter.js has the same methods.
import { FONT } from "./text_width.js";

// Dashes along a curve. Not by setLineDash: with thousands of curves that takes ten times as long.
const DASHES = 28;
const DASH_ENDS = Array.from({ length: 2 * DASHES }, (_, i) => {
  const t = (Math.floor(i / 2) + (i % 2) * 0.55) / DASHES;
  const s = 1 - t;
  return { across: 1.5 * s * s * t + 1.5 * s * t * t + t ** 3, down: 3 * s * t * t + t ** 3 };
});

/** @type {(pen: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number) => void} */
function dashedCurve(pen, x1, y1, x2, y2) {
  for (let i = 0; i < DASH_ENDS.length; i++) {
    const x = x1 + (x2 - x1) * DASH_ENDS[i].across;
    const y = y1 + (y2 - y1) * DASH_ENDS[i].down;
    if (i % 2 === 0) pen.moveTo(x, y);
    else pen.lineTo(x, y);
  }
}

/** @type {(pen: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number) => void} */
function plainCurve(pen, x1, y1, x2, y2) {
  const middle = (x1 + x2) / 2;
  pen.moveTo(x1, y1);
  pen.bezierCurveTo(middle, y1, middle, y2, x2, y2);
}

/** @implements {Painter} */
export class CanvasPainter {
  /** @param {CanvasRenderingContext2D} pen */
  constructor(pen) {
    this.pen = pen;
    this.makesShapes = false;
  }

  /** @type {Painter["rect"]} */
  rect(x, y, width, height, fill, opacity = 1) {
    this.pen.globalAlpha = opacity;
    this.pen.fillStyle = fill;
    this.pen.fillRect(x, y, width, height);
    this.pen.globalAlpha = 1;
  }

  /** @type {Painter["frame"]} */
  frame(x, y, width, height, colour, thickness = 1) {
    this.pen.strokeStyle = colour;
    this.pen.lineWidth = thickness;
    this.pen.strokeRect(x, y, width, height);
  }

  /** @type {Painter["curves"]} */
  curves(ends, colour, thickness, opacity, dashed = false) {
    const { pen } = this;
    const curve = dashed ? dashedCurve : plainCurve;
    pen.globalAlpha = opacity;
    pen.strokeStyle = colour;
    pen.lineWidth = thickness;
    pen.beginPath();
    for (let i = 0; i < ends.length; i += 4) curve(pen, ends[i], ends[i + 1], ends[i + 2], ends[i + 3]);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  /** @type {Painter["text"]} */
  text(text, x, y, { size, colour, align = "left", bold = false, turned = false }) {
    const { pen } = this;
    pen.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    pen.fillStyle = colour;
    pen.textAlign = align;
    pen.textBaseline = "middle";
    if (!turned) {
      pen.fillText(text, x, y);
      return;
    }
    pen.save();
    pen.translate(x, y);
    pen.rotate(-Math.PI / 2);
    pen.fillText(text, 0, 0);
    pen.restore();
  }

  /** @type {Painter["picture"]} */
  picture(canvas, x, y, width, height) {
    this.pen.imageSmoothingEnabled = false;
    this.pen.drawImage(canvas, x, y, width, height);
  }

  /** @type {Painter["clipped"]} */
  clipped(x, y, width, height, draw) {
    this.pen.save();
    this.pen.beginPath();
    this.pen.rect(x, y, width, height);
    this.pen.clip();
    draw();
    this.pen.restore();
  }

  /** @type {Painter["moved"]} */
  moved(x, y, draw) {
    this.pen.save();
    this.pen.translate(x, y);
    draw();
    this.pen.restore();
  }
}
