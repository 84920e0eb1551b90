// A matrix with names on two sides, which stay in sight while it scrolls: the heatmap and the rollout.
// A scene is what a pane shows: width, height, draw(painter, window, theme), hit(x, y, window), move(target, right, down), label.
// The window is the part of the scene that can be seen; x and y are those of the canvas.
const CELLS_AS_SHAPES = 40000; // above so many, an SVG holds a bitmap
const pictures = new Kept(64e6);

// rows, columns: names. numbers: whole numbers, row by row. target(row, column): what is there; either may be null.
function gridScene({ rows, columns, numbers, key, cell, limit, least, focus, pinned, target, caption, spare }) {
  const size = clamp(Math.floor(Math.min(cell.width, cell.height)) - 1, 10, 12);
  const left = nameWidth(rows, size, spare.left);
  const top = nameWidth(columns, size, spare.top) + (caption ? 22 : 4);
  const width = left + columns.length * cell.width + 2;
  const height = top + rows.length * cell.height + 2;
  const place = (window) => ({ x: left - window.x, y: top - window.y });

  function draw(painter, window, theme) {
    const at = place(window);
    painter.clipped(left, top, Math.max(window.width - left, 0), Math.max(window.height - top, 0), () => {
      drawCells(painter, { rows, columns, numbers, key, cell, limit, least, at, window }, theme);
      drawCross(painter, pinned, theme.mark, 2, at, window);
      drawCross(painter, focus, theme.accent, 1.5, at, window);
    });
    drawNames(painter, window, theme);
    if (caption) painter.text(caption, left, 10, { size: 12, colour: theme.soft });
  }

  function drawCross(painter, cross, colour, thickness, at, window) {
    if (cross.row !== null) {
      painter.frame(at.x - 1, at.y + cross.row * cell.height, columns.length * cell.width + 2, cell.height, colour, thickness);
    }
    if (cross.column !== null) {
      painter.frame(at.x + cross.column * cell.width, at.y - 1, cell.width, rows.length * cell.height + 2, colour, thickness);
    }
  }

  function drawNames(painter, window, theme) {
    const at = place(window);
    const held = (axis) => [focus[axis], pinned[axis]].filter((index) => index !== null);
    const common = { size, theme };
    painter.clipped(0, top - 5, left, Math.max(window.height - top + 5, 0), () => {
      const along = { start: at.y, step: cell.height, from: top, to: window.height, held: held("row"), ...common };
      eachName(rows, along, (name, middle, strong) => drawName(painter, name, left - 6, middle, left - 8, strong, false, common));
    });
    painter.clipped(left - 5, 0, Math.max(window.width - left + 5, 0), top, () => {
      const along = { start: at.x, step: cell.width, from: left, to: window.width, held: held("column"), ...common };
      const most = top - (caption ? 26 : 8);
      eachName(columns, along, (name, middle, strong) => drawName(painter, name, middle, top - 5, most, strong, true, common));
    });
  }

  function hit(x, y, window) {
    const at = place(window);
    const row = y < top ? null : Math.floor((y - at.y) / cell.height);
    const column = x < left ? null : Math.floor((x - at.x) / cell.width);
    if ((row === null && column === null) || row >= rows.length || column >= columns.length || row < 0 || column < 0) return null;
    return target(row, column);
  }

  function move(right, down) {
    const from = focus.row === null && focus.column === null ? pinned : focus;
    const step = (index, by, count) => clamp(index === null ? 0 : index + by, 0, count - 1);
    return target(step(from.row, down, rows.length), step(from.column, right, columns.length));
  }

  function box(where) {
    return { x: left + (where.column ?? 0) * cell.width, y: top + (where.row ?? 0) * cell.height, ...cell, left, top };
  }

  return { width, height, draw, hit, move, box };
}

function nameWidth(names, size, most) {
  return Math.ceil(Math.min(largest(names.map((name) => textWidth(name, size))) + 12, most));
}

// Names at least a line apart; those in focus always, and no other where they are.
function eachName(names, { start, step, from, to, held, size }, draw) {
  const every = Math.max(1, Math.ceil((size + 1) / step));
  const apart = (index) => held.every((other) => Math.abs(other - index) * step > size);
  names.forEach((name, index) => {
    const middle = start + (index + 0.5) * step;
    if (middle < from - step || middle > to + step || held.includes(index)) return;
    if (index % every === 0 && apart(index)) draw(name, middle, false);
  });
  held.forEach((index) => draw(names[index], start + (index + 0.5) * step, true));
}

function drawName(painter, name, x, y, most, strong, turned, { size, theme }) {
  const text = fitted(name, size, most);
  const colour = strong ? theme.accent : theme.ink;
  painter.text(text, x, y, { size, colour, align: turned ? "left" : "right", bold: strong, turned });
}

function drawCells(painter, { rows, columns, numbers, key, cell, limit, least, at, window }, theme) {
  const gap = Math.min(cell.width, cell.height) >= 9 ? 1 : 0;
  const visible = (value) => value !== 0 && Math.abs(value) >= least;
  const asShapes = rows.length * columns.length <= CELLS_AS_SHAPES;
  const [across, down] = [columns.length * cell.width, rows.length * cell.height];
  if (painter.vector && asShapes) {
    painter.rect(at.x, at.y, across, down, hexOf(ramp(theme.positive)[0]));
    eachCell(rows, columns, numbers, (value, row, column) => {
      const colour = hexOf(cellColour(value, limit, theme));
      if (visible(value)) painter.rect(at.x + column * cell.width, at.y + row * cell.height, cell.width - gap, cell.height - gap, colour);
    });
  } else {
    const picture = pictures.get(`${key} ${limit} ${least} ${state.root} ${theme.ground}`, () =>
      Object.assign(bitmap(numbers, columns.length, rows.length, limit, theme, least), { byteLength: 4 * numbers.length }));
    painter.picture(picture, at.x, at.y, across, down);
    if (gap) drawGaps(painter, at, cell, rows.length, columns.length, window, theme);
  }
  painter.frame(at.x - 0.5, at.y - 0.5, across + 1, down + 1, theme.faint);
  if (cell.width >= 34 && cell.height >= 18) drawNumbers(painter, { rows, columns, numbers, cell, limit, at, window, visible }, theme);
}

function drawGaps(painter, at, cell, rows, columns, window, theme) {
  for (let row = 1; row < rows; row++) {
    const y = at.y + row * cell.height - 1;
    if (y >= 0 && y <= window.height) painter.rect(at.x, y, columns * cell.width, 1, theme.ground);
  }
  for (let column = 1; column < columns; column++) {
    const x = at.x + column * cell.width - 1;
    if (x >= 0 && x <= window.width) painter.rect(x, at.y, 1, rows * cell.height, theme.ground);
  }
}

function eachCell(rows, columns, numbers, draw) {
  for (let row = 0; row < rows.length; row++) {
    for (let column = 0; column < columns.length; column++) draw(numbers[row * columns.length + column], row, column);
  }
}

// Where there is room, each cell says its weight.
function drawNumbers(painter, { rows, columns, numbers, cell, limit, at, window, visible }, theme) {
  eachCell(rows, columns, numbers, (value, row, column) => {
    const [x, y] = [at.x + (column + 0.5) * cell.width, at.y + (row + 0.5) * cell.height];
    if (!visible(value) || x < -cell.width || y < -cell.height || x > window.width + cell.width || y > window.height + cell.height) return;
    const text = shown((value / unit()).toFixed(2));
    if (Number(text.replace(MINUS, "-")) === 0) return;
    painter.text(text, x, y, { size: 10.5, colour: textOn(hexOf(cellColour(value, limit, theme))), align: "center" });
  });
}
