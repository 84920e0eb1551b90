// The rollout of the chosen token: a row per layer, the last on top, a column per input token.
function rolloutToken(pane) {
  return chosenToken("query", pane) ?? 0;
}

function rolloutLimit(part) {
  return largest(paneSides().map((pane) => {
    if (!rolloutReady(pane, part)) return 0;
    const size = sides[sideOf(pane)].size;
    const numbers = rolloutNumbers(pane, part, rolloutToken(pane));
    const layers = numbers.length / size;
    let most = 0;
    for (const place of shownTokens(pane)) {
      for (let layer = 0; layer < layers; layer++) most = Math.max(most, Math.abs(numbers[layer * size + place]));
    }
    return most;
  }));
}

function rolloutScene(pane, room, hover) {
  const { part } = state;
  const side = sides[sideOf(pane)];
  const places = shownTokens(pane);
  const token = rolloutToken(pane);
  const all = rolloutNumbers(pane, part, token);
  const layers = Array.from({ length: side.layers }, (_, row) => side.layers - 1 - row);
  const numbers = Int32Array.from(layers.flatMap((layer) => places.map((place) => all[layer * side.size + place])));
  const columns = places.map((place) => tokenLabel(side.tokens[place]));
  const most = Math.min(130, room.height * 0.3);
  const width = Math.max(2, Math.round(clamp(Math.floor((room.width - 90) / places.length), 6, 44) * state.zoom));
  const height = clamp(Math.floor((room.height - most - 130) / side.layers), 16, 44);
  const limit = rolloutLimit(part);
  const grid = gridScene({
    rows: layers.map((layer) => `layer ${layer}`), columns, numbers, key: `rollout ${pane} ${part} ${token} ${state.special}`,
    cell: { width, height }, limit, least: thresholdWhole(),
    focus: { row: placeIn(layers, hover?.layer), column: placeIn(places, hover?.key) },
    pinned: { row: placeIn(layers, state.layer), column: placeIn(places, token) },
    target: (row, column) => ({ query: token, layer: layers[row] ?? null, key: places[column] ?? null, row, column }),
    caption: `what reaches “${tokenLabel(side.tokens[token])}” from each input token`, spare: { left: 80, top: most },
  });
  return withBars(grid, { all, side, places, width, limit, layer: Math.min(hover?.layer ?? state.layer, side.layers - 1), hover });
}

// Under the map: the chosen layer's row as bars.
function withBars(grid, { all, side, places, width, limit, layer, hover }) {
  const room = 92;
  const left = grid.box({}).x;
  const signed = isSigned(state.part === "difference" ? "difference" : "standard", comparing());
  const height = grid.height + room;
  function draw(painter, window, theme) {
    grid.draw(painter, { ...window, height: Math.min(window.height, grid.height - window.y) }, theme);
    const top = grid.height - window.y + 14;
    const middle = signed ? top + 34 : top + 68;
    const scale = (signed ? 34 : 68) / (limit || 1);
    painter.clipped(left, top - 12, Math.max(window.width - left, 0), room, () => {
      places.forEach((place, column) => {
        const value = all[layer * side.size + place];
        const tall = Math.abs(value) * scale;
        const x = left - window.x + column * width;
        const colour = place === hover?.key ? theme.accent : hexOf(ramp(value < 0 ? theme.negative : theme.positive)[150]);
        if (x > -width && x < window.width) painter.rect(x, value < 0 ? middle : middle - tall, Math.max(width - 1, 1), tall, colour);
      });
      painter.rect(left - window.x, middle, places.length * width, 1, theme.soft);
    });
    painter.text(`layer ${layer}`, left - 6, middle - 6, { size: 12, colour: theme.soft, align: "right" });
  }
  return { ...grid, height, draw };
}
