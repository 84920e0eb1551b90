// Two painters with one set of strokes: a view is drawn on canvas for the screen and PNG, and as elements for SVG.
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const measuring = document.createElement("canvas").getContext("2d");
const widths = new Map();

function textWidth(text, size) {
  const key = `${size} ${text}`;
  if (!widths.has(key)) {
    if (widths.size > 20000) widths.clear();
    measuring.font = `${size}px ${FONT}`;
    widths.set(key, measuring.measureText(text).width);
  }
  return widths.get(key);
}

// As much of a text as fits.
function fitted(text, size, most) {
  if (textWidth(text, size) <= most) return text;
  const letters = [...text];
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(`${letters.slice(0, middle).join("")}…`, size) <= most) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("")}…`;
}

// The same curve in dashes. Not by setLineDash: with thousands of curves that takes ten times as long.
const DASHES = 28;
const STOPS = Array.from({ length: 2 * DASHES }, (_, i) => {
  const t = (Math.floor(i / 2) + (i % 2) * 0.55) / DASHES;
  const s = 1 - t;
  return { across: 1.5 * s * s * t + 1.5 * s * t * t + t ** 3, down: 3 * s * t * t + t ** 3 };
});

function dashes(context, x1, y1, x2, y2) {
  for (let i = 0; i < STOPS.length; i++) {
    const x = x1 + (x2 - x1) * STOPS[i].across;
    const y = y1 + (y2 - y1) * STOPS[i].down;
    if (i % 2 === 0) context.moveTo(x, y);
    else context.lineTo(x, y);
  }
}

class CanvasPainter {
  constructor(context) {
    this.context = context;
    this.vector = false;
  }

  rect(x, y, width, height, fill, opacity = 1) {
    this.context.globalAlpha = opacity;
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }

  frame(x, y, width, height, colour, thickness = 1) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = thickness;
    this.context.strokeRect(x, y, width, height);
  }

  // Curves from column to column, flat list of x1, y1, x2, y2; all of one look, in one stroke.
  curves(ends, colour, thickness, opacity, dashed = false) {
    const context = this.context;
    context.globalAlpha = opacity;
    context.strokeStyle = colour;
    context.lineWidth = thickness;
    context.beginPath();
    for (let i = 0; i < ends.length; i += 4) {
      const [x1, y1, x2, y2] = [ends[i], ends[i + 1], ends[i + 2], ends[i + 3]];
      const middle = (x1 + x2) / 2;
      if (dashed) dashes(context, x1, y1, x2, y2);
      else {
        context.moveTo(x1, y1);
        context.bezierCurveTo(middle, y1, middle, y2, x2, y2);
      }
    }
    context.stroke();
    context.globalAlpha = 1;
  }

  text(text, x, y, { size = 12, colour, align = "left", bold = false, turned = false } = {}) {
    const context = this.context;
    context.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    context.fillStyle = colour;
    context.textAlign = align;
    context.textBaseline = "middle";
    if (!turned) {
      context.fillText(text, x, y);
      return;
    }
    context.save();
    context.translate(x, y);
    context.rotate(-Math.PI / 2);
    context.fillText(text, 0, 0);
    context.restore();
  }

  picture(canvas, x, y, width, height) {
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(canvas, x, y, width, height);
  }

  clipped(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }

  moved(x, y, draw) {
    this.context.save();
    this.context.translate(x, y);
    draw();
    this.context.restore();
  }
}

// Letters that no XML file may hold become the replacement character.
function xmlText(text) {
  const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  const valid = text.toWellFormed ? text.toWellFormed() : text;
  return valid.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd").replace(/[&<>"']/g, (letter) => entities[letter]);
}

const short = (number) => String(Math.round(number * 100) / 100);

class SvgPainter {
  constructor() {
    this.parts = [];
    this.vector = true;
    this.embedded = false;
  }

  rect(x, y, width, height, fill, opacity = 1) {
    const faint = opacity < 1 ? ` fill-opacity="${short(opacity)}"` : "";
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${fill}"${faint}/>`);
  }

  frame(x, y, width, height, colour, thickness = 1) {
    const place = `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
    this.parts.push(`<rect ${place} fill="none" stroke="${colour}" stroke-width="${thickness}"/>`);
  }

  curves(ends, colour, thickness, opacity, dashed = false) {
    const dash = dashed ? ' stroke-dasharray="5 4"' : "";
    const look = `stroke="${colour}" stroke-width="${short(thickness)}" stroke-opacity="${short(opacity)}"${dash}`;
    this.parts.push(`<g fill="none" ${look}>`);
    for (let i = 0; i < ends.length; i += 4) {
      const [x1, y1, x2, y2] = [ends[i], ends[i + 1], ends[i + 2], ends[i + 3]].map(short);
      const middle = short((ends[i] + ends[i + 2]) / 2);
      this.parts.push(`<path d="M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}"/>`);
    }
    this.parts.push("</g>");
  }

  text(text, x, y, { size = 12, colour, align = "left", bold = false, turned = false } = {}) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const turn = turned ? ` transform="rotate(-90 ${short(x)} ${short(y)})"` : "";
    const place = `x="${short(x)}" y="${short(y)}" font-size="${short(size)}" text-anchor="${anchor}" dominant-baseline="central"`;
    this.parts.push(`<text ${place} fill="${colour}"${bold ? ' font-weight="600"' : ""}${turn}>${xmlText(text)}</text>`);
  }

  picture(canvas, x, y, width, height) {
    this.embedded = true;
    const place = `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
    this.parts.push(`<image ${place} preserveAspectRatio="none" style="image-rendering:pixelated" href="${canvas.toDataURL()}"/>`);
  }

  clipped(x, y, width, height, draw) {
    draw(); // a whole picture has nothing to cut off
  }

  moved(x, y, draw) {
    this.parts.push(`<g transform="translate(${short(x)} ${short(y)})">`);
    draw();
    this.parts.push("</g>");
  }

  finished(width, height, title) {
    const size = `width="${Math.ceil(width)}" height="${Math.ceil(height)}" viewBox="0 0 ${Math.ceil(width)} ${Math.ceil(height)}"`;
    const said = this.embedded ? " (the cells are an embedded bitmap: there are too many for single shapes)" : "";
    const start = `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${xmlText(FONT)}"><title>${xmlText(title + said)}</title>`;
    return `<?xml version="1.0" encoding="UTF-8"?>\n${start}\n${this.parts.join("\n")}\n</svg>\n`;
  }
}
