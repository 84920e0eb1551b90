// One head's matrix: queries down, keys across.
const sheets = new Kept(64e6);

function heatmapNeeds(pane) {
  return planeReady(pane, state.part, state.layer);
}

// The plane of the shown tokens only.
function sheet(pane, part, layer, head) {
  return sheets.get(`${pane} ${part} ${layer} ${head} ${state.special}`, () => {
    const numbers = plane(pane, part, layer, head);
    const size = sides[sideOf(pane)].size;
    const places = shownTokens(pane);
    const cut = new Int32Array(places.length ** 2);
    places.forEach((query, i) => places.forEach((key, j) => { cut[i * places.length + j] = numbers[query * size + key]; }));
    return cut;
  });
}

function placeIn(places, token) {
  const found = token === null || token === undefined ? -1 : places.indexOf(token);
  return found < 0 ? null : found;
}

function heatmapScene(pane, room, hover) {
  const { part, layer, head } = state;
  const places = shownTokens(pane);
  const names = places.map((place) => tokenLabel(sides[sideOf(pane)].tokens[place]));
  const most = Math.min(130, room.width * 0.28);
  const label = nameWidth(names, 12, most);
  const [across, down] = [room.width - label - 18, room.height - label - 30];
  const whole = Math.floor(Math.min(across, down) / places.length); // all of it in sight
  const readable = Math.min(Math.floor(across / places.length), 14); // or room for every name
  const edge = Math.max(2, Math.round(clamp(Math.max(whole, readable), 5, 56) * state.zoom));
  const grid = gridScene({
    rows: names, columns: names, numbers: sheet(pane, part, layer, head), key: `${pane} ${part} ${layer} ${head} ${state.special}`,
    cell: { width: edge, height: edge }, limit: commonLimit(part, layer, [head]), least: thresholdWhole(),
    focus: { row: placeIn(places, hover?.query), column: placeIn(places, hover?.key) },
    pinned: { row: placeIn(places, chosenToken("query", pane)), column: placeIn(places, chosenToken("key", pane)) },
    target: (row, column) => ({ query: places[row] ?? null, key: places[column] ?? null, row, column }),
    caption: "rows: queries · columns: keys", spare: { left: most, top: most },
  });
  return withRanking(grid, pane, places, names, room, hover);
}

// A click holds a row, a column or both; a second one lets go.
function pin(target) {
  const same = state.query === target.query && state.key === target.key;
  setState(same ? { query: null, key: null } : { query: target.query, key: target.key });
}
