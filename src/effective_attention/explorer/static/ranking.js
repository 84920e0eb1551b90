// Beside the heatmap, where there is room: the strongest weights, of the whole head or of the row or column in focus.
const rankings = new Kept(2e6);
const RANKED = 40;

function strongest(pane, places, row, column) {
  const { part, layer, head } = state;
  return rankings.get(`${pane} ${part} ${layer} ${head} ${state.special} ${row} ${column}`, () => {
    const numbers = sheet(pane, part, layer, head);
    const size = places.length;
    const cells = [];
    for (let i = 0; i < size; i++) {
      if (row !== null && row !== i) continue;
      for (let j = 0; j < size; j++) if ((column === null || column === j) && numbers[i * size + j] !== 0) cells.push(i * size + j);
    }
    return largestOf(cells, (cell) => Math.abs(numbers[cell])).map((cell) => [Math.floor(cell / size), cell % size, numbers[cell]]);
  });
}

// The first few of a long list in order, without sorting all of it.
function largestOf(cells, sizeOf) {
  if (cells.length <= 4 * RANKED) return cells.toSorted((a, b) => sizeOf(b) - sizeOf(a)).slice(0, RANKED);
  const sizes = Float64Array.from(cells, sizeOf).sort();
  const least = sizes[sizes.length - RANKED];
  return cells.filter((cell) => sizeOf(cell) >= least).toSorted((a, b) => sizeOf(b) - sizeOf(a)).slice(0, RANKED);
}

// A row is named by its query; once a cell is meant, its row is what is listed.
function rankedFocus(pane, places, hover) {
  const meant = hover ?? { query: chosenToken("query", pane), key: chosenToken("key", pane) };
  const row = placeIn(places, meant.query);
  return { row, column: row === null ? placeIn(places, meant.key) : null };
}

function withRanking(grid, pane, places, names, room, hover) {
  const spare = room.width - grid.width - 40;
  if (spare < 230) return grid;
  const width = Math.min(spare, 420);
  const { row, column } = rankedFocus(pane, places, hover);
  const left = grid.width + 40;
  const whose = row !== null ? `from “${names[row]}”` : column !== null ? `to “${names[column]}”` : "weights of this head";
  const list = strongest(pane, places, row, column);
  const limit = commonLimit(state.part, state.layer, [state.head]);
  const most = Math.abs(list[0]?.[2] ?? 1);

  function draw(painter, window, theme) {
    grid.draw(painter, { ...window, width: Math.min(window.width, grid.width) }, theme);
    painter.text(fitted(`strongest ${whose}`, 13, width), left, 14, { size: 13, colour: theme.soft });
    const fit = Math.min(list.length, Math.floor((window.height - 40) / 20));
    list.slice(0, fit).forEach(([from, to, value], index) => {
      const y = 42 + index * 20;
      const name = row !== null ? names[to] : column !== null ? names[from] : `${names[from]} → ${names[to]}`;
      const wide = (Math.abs(value) / most) * (width - 190);
      painter.text(fitted(name, 12, 118), left + 122, y, { size: 12, colour: theme.ink, align: "right" });
      painter.rect(left + 130, y - 6, Math.max(wide, 1), 12, hexOf(cellColour(value, limit, theme)));
      painter.frame(left + 130, y - 6, Math.max(wide, 1), 12, theme.faint);
      painter.text(shown(weightText(value)), left + 136 + wide, y, { size: 11, colour: theme.soft });
    });
  }

  const hit = (x, y, window) => (x > grid.width ? null : grid.hit(x, y, window));
  return { ...grid, width: left + width, draw, hit };
}
