// A matrix with names on two sides, which stay in sight while it scrolls: the heatmap and the rollout.
import { bitmapOf } from "../core/bitmaps.js";
import { cellColour, scaleColour, textOn } from "../core/colours.js";
import { unit } from "../core/header.js";
import { clamp, MINUS, withMinus } from "../core/numbers.js";
import { fitted, nameWidth } from "../core/text_width.js";

const MOST_SHAPES = 40000; // above so many cells, an SVG holds a bitmap

/** @type {(spec: GridSpec) => Scene} */
export function gridScene(spec) {
  const { rows, columns, cell, caption, spare } = spec;
  const size = clamp(Math.floor(Math.min(cell.width, cell.height)) - 1, 10, 12);
  const left = nameWidth(rows, size, spare.left);
  const above = nameWidth(columns, size, spare.above) + (caption ? 22 : 4);
  const grid = { ...spec, size, left, above };
  return {
    width: left + columns.length * cell.width + 2,
    height: above + rows.length * cell.height + 2,
    draw: (painter, visible, theme) => drawGrid(grid, painter, visible, theme),
    hit: (x, y, visible) => cellAt(grid, x, y, visible),
    move: (right, down) => nextCell(grid, right, down),
    box: (where) => ({
      x: left + (where.column ?? 0) * cell.width, y: above + (where.row ?? 0) * cell.height, ...cell, left, above,
    }),
  };
}

/**
 * Where the first cell is on the canvas.
 *
 * @type {(grid: Grid, visible: Viewport) => Point}
 */
function cornerOf(grid, visible) {
  return { x: grid.left - visible.x, y: grid.above - visible.y };
}

/** @type {(grid: Grid, painter: Painter, visible: Viewport, theme: Theme) => void} */
function drawGrid(grid, painter, visible, theme) {
  const { left, above, caption } = grid;
  const corner = cornerOf(grid, visible);
  painter.clipped(left, above, Math.max(visible.width - left, 0), Math.max(visible.height - above, 0), () => {
    drawCells(grid, painter, corner, visible, theme);
    drawCross(grid, painter, grid.pinned, theme.mark, 2, corner);
    drawCross(grid, painter, grid.pointed, theme.accent, 1.5, corner);
  });
  drawRowNames(grid, painter, corner, visible, theme);
  drawColumnNames(grid, painter, corner, visible, theme);
  if (caption) painter.text(caption, left, 10, { size: 12, colour: theme.soft });
}

/** @type {(grid: Grid, painter: Painter, cross: Cross, colour: string, thickness: number, corner: Point) => void} */
function drawCross({ rows, columns, cell }, painter, cross, colour, thickness, corner) {
  if (cross.row !== null) {
    const y = corner.y + cross.row * cell.height;
    painter.frame(corner.x - 1, y, columns.length * cell.width + 2, cell.height, colour, thickness);
  }
  if (cross.column !== null) {
    const x = corner.x + cross.column * cell.width;
    painter.frame(x, corner.y - 1, cell.width, rows.length * cell.height + 2, colour, thickness);
  }
}

/** @type {(grid: Grid, painter: Painter, corner: Point, visible: Viewport, theme: Theme) => void} */
function drawRowNames(grid, painter, corner, visible, theme) {
  const { rows, cell, left, above, size } = grid;
  const held = [grid.pointed.row, grid.pinned.row].filter((row) => row !== null);
  const along = { start: corner.y, step: cell.height, from: above, to: visible.height, held, size };
  painter.clipped(0, above - 5, left, Math.max(visible.height - above + 5, 0), () => {
    eachName(rows, along, (text, y, strong) => {
      const look = { size, colour: strong ? theme.accent : theme.ink, bold: strong };
      painter.text(fitted(text, size, left - 8), left - 6, y, { ...look, align: "right" });
    });
  });
}

/** @type {(grid: Grid, painter: Painter, corner: Point, visible: Viewport, theme: Theme) => void} */
function drawColumnNames(grid, painter, corner, visible, theme) {
  const { columns, cell, left, above, size, caption } = grid;
  const held = [grid.pointed.column, grid.pinned.column].filter((column) => column !== null);
  const along = { start: corner.x, step: cell.width, from: left, to: visible.width, held, size };
  const most = above - (caption ? 26 : 8);
  painter.clipped(left - 5, 0, Math.max(visible.width - left + 5, 0), above, () => {
    eachName(columns, along, (text, x, strong) => {
      const look = { size, colour: strong ? theme.accent : theme.ink, bold: strong };
      painter.text(fitted(text, size, most), x, above - 5, { ...look, align: "left", turned: true });
    });
  });
}

/**
 * Names at least a line apart; those that are held always, and no other where they are.
 *
 * @type {(names: string[], along: Along, draw: (text: string, middle: number, strong: boolean) => void) => void}
 */
function eachName(names, { start, step, from, to, held, size }, draw) {
  const every = Math.max(1, Math.ceil((size + 1) / step));
  names.forEach((text, index) => {
    const middle = start + (index + 0.5) * step;
    if (middle < from - step || middle > to + step || held.includes(index)) return;
    const apart = held.every((other) => Math.abs(other - index) * step > size);
    if (index % every === 0 && apart) draw(text, middle, false);
  });
  held.forEach((index) => draw(names[index], start + (index + 0.5) * step, true));
}

/** @type {(grid: Grid, painter: Painter, corner: Point, visible: Viewport, theme: Theme) => void} */
function drawCells(grid, painter, corner, visible, theme) {
  const { rows, columns, numbers, key, cell, limit, least } = grid;
  const gap = Math.min(cell.width, cell.height) >= 9 ? 1 : 0;
  const [width, height] = [columns.length * cell.width, rows.length * cell.height];
  if (painter.makesShapes && rows.length * columns.length <= MOST_SHAPES) {
    drawShapes(grid, painter, corner, gap, theme);
  } else {
    const bitmap = bitmapOf(key, numbers, columns.length, limit, least, theme);
    painter.picture(bitmap, corner.x, corner.y, width, height);
    if (gap) drawGaps(grid, painter, corner, visible, theme);
  }
  painter.frame(corner.x - 0.5, corner.y - 0.5, width + 1, height + 1, theme.faint);
  if (cell.width >= 34 && cell.height >= 18) drawNumbers(grid, painter, corner, visible, theme);
}

/**
 * Every cell that the threshold leaves.
 *
 * @type {(grid: Grid, draw: (value: number, row: number, column: number) => void) => void}
 */
function eachCell({ rows, columns, numbers, least }, draw) {
  for (let row = 0; row < rows.length; row++) {
    for (let column = 0; column < columns.length; column++) {
      const value = numbers[row * columns.length + column];
      if (value !== 0 && Math.abs(value) >= least) draw(value, row, column);
    }
  }
}

/** @type {(grid: Grid, painter: Painter, corner: Point, gap: number, theme: Theme) => void} */
function drawShapes(grid, painter, corner, gap, theme) {
  const { rows, columns, cell, limit } = grid;
  const ground = scaleColour(0, 0, theme);
  painter.rect(corner.x, corner.y, columns.length * cell.width, rows.length * cell.height, ground);
  eachCell(grid, (value, row, column) => {
    const [x, y] = [corner.x + column * cell.width, corner.y + row * cell.height];
    painter.rect(x, y, cell.width - gap, cell.height - gap, cellColour(value, limit, theme));
  });
}

/** @type {(grid: Grid, painter: Painter, corner: Point, visible: Viewport, theme: Theme) => void} */
function drawGaps({ rows, columns, cell }, painter, corner, visible, theme) {
  for (let row = 1; row < rows.length; row++) {
    const y = corner.y + row * cell.height - 1;
    if (y >= 0 && y <= visible.height) painter.rect(corner.x, y, columns.length * cell.width, 1, theme.ground);
  }
  for (let column = 1; column < columns.length; column++) {
    const x = corner.x + column * cell.width - 1;
    if (x >= 0 && x <= visible.width) painter.rect(x, corner.y, 1, rows.length * cell.height, theme.ground);
  }
}

/**
 * Where there is room, each cell says its weight.
 *
 * @type {(grid: Grid, painter: Painter, corner: Point, visible: Viewport, theme: Theme) => void}
 */
function drawNumbers(grid, painter, corner, visible, theme) {
  const { cell, limit } = grid;
  eachCell(grid, (value, row, column) => {
    const [x, y] = [corner.x + (column + 0.5) * cell.width, corner.y + (row + 0.5) * cell.height];
    if (x < -cell.width || y < -cell.height) return;
    if (x > visible.width + cell.width || y > visible.height + cell.height) return;
    const text = withMinus((value / unit()).toFixed(2));
    if (Number(text.replace(MINUS, "-")) === 0) return;
    painter.text(text, x, y, { size: 10.5, colour: textOn(cellColour(value, limit, theme)), align: "center" });
  });
}

/** @type {(grid: Grid, x: number, y: number, visible: Viewport) => Target | null} */
function cellAt(grid, x, y, visible) {
  const { rows, columns, cell } = grid;
  const corner = cornerOf(grid, visible);
  const row = y < grid.above ? null : Math.floor((y - corner.y) / cell.height);
  const column = x < grid.left ? null : Math.floor((x - corner.x) / cell.width);
  if (row === null && column === null) return null;
  const within = (row ?? 0) >= 0 && (row ?? 0) < rows.length && (column ?? 0) >= 0 && (column ?? 0) < columns.length;
  return within ? grid.target(row, column) : null;
}

/** @type {(grid: Grid, right: number, down: number) => Target} */
function nextCell({ rows, columns, pointed, pinned, target }, right, down) {
  const from = pointed.row === null && pointed.column === null ? pinned : pointed;
  /** @type {(index: number | null, by: number, count: number) => number} */
  const next = (index, by, count) => clamp(index === null ? 0 : index + by, 0, count - 1);
  return target(next(from.row, down, rows.length), next(from.column, right, columns.length));
}
