// Writes SVG. canvas_painter.js has the same methods.
import { FONT } from "./text_width.js";

/** @type {Record<string, string>} */
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const ANCHORS = { left: "start", center: "middle", right: "end" };

/**
 * Letters that no XML file may hold become the replacement character.
 *
 * @type {(text: string) => string}
 */
function xmlText(text) {
  const valid = text.toWellFormed ? text.toWellFormed() : text;
  // eslint-disable-next-line no-control-regex -- these are the letters that are looked for
  const printable = valid.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return printable.replace(/[&<>"']/g, (letter) => ENTITIES[letter]);
}

/** @type {(number: number) => string} */
const short = (number) => String(Math.round(number * 100) / 100);

/** @type {(x: number, y: number, width: number, height: number) => string} */
const boxOf = (x, y, width, height) =>
  `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;

/** @implements {Painter} */
export class SvgPainter {
  constructor() {
    /** @type {string[]} */
    this.parts = [];
    this.makesShapes = true;
    this.hasBitmap = false;
  }

  /** @type {Painter["rect"]} */
  rect(x, y, width, height, fill, opacity = 1) {
    const faint = opacity < 1 ? ` fill-opacity="${short(opacity)}"` : "";
    this.parts.push(`<rect ${boxOf(x, y, width, height)} fill="${fill}"${faint}/>`);
  }

  /** @type {Painter["frame"]} */
  frame(x, y, width, height, colour, thickness = 1) {
    const line = `fill="none" stroke="${colour}" stroke-width="${thickness}"`;
    this.parts.push(`<rect ${boxOf(x, y, width, height)} ${line}/>`);
  }

  /** @type {Painter["curves"]} */
  curves(ends, colour, thickness, opacity, dashed = false) {
    const dash = dashed ? ' stroke-dasharray="5 4"' : "";
    const look = `stroke="${colour}" stroke-width="${short(thickness)}" stroke-opacity="${short(opacity)}"${dash}`;
    this.parts.push(`<g fill="none" ${look}>`);
    for (let i = 0; i < ends.length; i += 4) {
      const [x1, y1, x2, y2] = ends.slice(i, i + 4).map(short);
      const middle = short((ends[i] + ends[i + 2]) / 2);
      this.parts.push(`<path d="M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}"/>`);
    }
    this.parts.push("</g>");
  }

  /** @type {Painter["text"]} */
  text(text, x, y, { size, colour, align = "left", bold = false, turned = false }) {
    const turn = turned ? ` transform="rotate(-90 ${short(x)} ${short(y)})"` : "";
    const anchor = `text-anchor="${ANCHORS[align]}" dominant-baseline="central"`;
    const place = `x="${short(x)}" y="${short(y)}" font-size="${short(size)}" ${anchor}`;
    const weight = bold ? ' font-weight="600"' : "";
    this.parts.push(`<text ${place} fill="${colour}"${weight}${turn}>${xmlText(text)}</text>`);
  }

  /** @type {Painter["picture"]} */
  picture(canvas, x, y, width, height) {
    this.hasBitmap = true;
    const look = 'preserveAspectRatio="none" style="image-rendering:pixelated"';
    this.parts.push(`<image ${boxOf(x, y, width, height)} ${look} href="${canvas.toDataURL()}"/>`);
  }

  /** @type {Painter["clipped"]} */
  clipped(_x, _y, _width, _height, draw) {
    draw(); // a whole picture has nothing to cut off
  }

  /** @type {Painter["moved"]} */
  moved(x, y, draw) {
    this.parts.push(`<g transform="translate(${short(x)} ${short(y)})">`);
    draw();
    this.parts.push("</g>");
  }

  /** @type {(width: number, height: number, title: string) => string} */
  finished(width, height, title) {
    const [wide, high] = [Math.ceil(width), Math.ceil(height)];
    const size = `width="${wide}" height="${high}" viewBox="0 0 ${wide} ${high}"`;
    const note = this.hasBitmap ? " (the cells are an embedded bitmap: there are too many for single shapes)" : "";
    const start = `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${xmlText(FONT)}">`;
    const head = `<?xml version="1.0" encoding="UTF-8"?>\n${start}<title>${xmlText(title + note)}</title>`;
    return `${head}\n${this.parts.join("\n")}\n</svg>\n`;
  }
}
