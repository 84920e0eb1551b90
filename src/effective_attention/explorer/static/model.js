// Every head of every layer as a thumbnail, drawn as the layers come in.
const FRAME_BUDGET = 12; // milliseconds of work before the browser gets its turn
const AT_ONCE = 4; // blocks being unpacked

// A thumbnail's numbers, or null: not yet.
function thumbnails(pane) {
  const side = sides[sideOf(pane)];
  const start = performance.now();
  const found = [];
  let waiting = false;
  for (let layer = 0; layer < side.layers; layer++) {
    const wanted = blocks.coming.size < AT_ONCE || blocksAreHere(pane, layer);
    const ready = wanted && planeReady(pane, state.part, layer);
    for (let head = 0; head < side.heads; head++) {
      const late = performance.now() - start > FRAME_BUDGET && !poolKnown(pane, layer, head);
      waiting ||= ready && late;
      found.push(ready && !late && hasHead(pane, layer, head) ? pooled(pane, state.part, layer, head) : null);
    }
  }
  if (waiting) redraw();
  return found;
}

function blocksAreHere(pane, layer) {
  return (pane < 0 ? [0, 1] : [pane]).every((side) => blockIds(side, state.part, layer).every((id) => blocks.ready.has(id)));
}

function poolKnown(pane, layer, head) {
  return pools.entries.has(`${pane} ${state.part} ${layer} ${head} ${state.special}`);
}

function poolLimit(all) {
  let most = 0;
  for (const pool of all) if (pool) for (let i = 0; i < pool.length; i++) most = Math.max(most, Math.abs(pool[i]));
  return most;
}

let modelLimit = 0; // of the thumbnails drawn last, over all panes

function modelScene(pane, room, hover) {
  const side = sides[sideOf(pane)];
  const pool = thumbnails(pane);
  if (pane === paneSides()[0]) modelLimit = 0; // a new picture begins
  modelLimit = Math.max(modelLimit, limits.get(`model ${pane} ${state.part} ${state.special} ${pool.filter(Boolean).length}`, () => poolLimit(pool)));
  const limit = modelLimit;
  const [name, top] = [room.width < 600 ? 26 : 62, 40];
  const byWidth = (room.width - name - 8) / side.heads;
  const byHeight = (room.height - top - 8) / side.layers;
  const edge = Math.max(16, Math.floor(Math.min(byWidth, Math.max(byHeight, 44)) * state.zoom));
  const gap = edge > 40 ? 6 : 3;
  const left = Math.max(name, Math.floor((room.width - side.heads * edge) / 2));

  function draw(painter, window, theme) {
    painter.clipped(0, top, window.width, Math.max(window.height - top, 0), () => {
      for (let index = 0; index < pool.length; index++) {
        const [layer, head] = [Math.floor(index / side.heads), index % side.heads];
        const x = left + head * edge - window.x;
        const y = top + layer * edge - window.y;
        if (y < -edge || y > window.height || x < -edge || x > window.width) continue;
        drawThumbnail(painter, pool[index], `${pane} ${layer} ${head}`, x, y, edge - gap, limit, theme);
        const now = hover?.layer === layer && hover?.head === head;
        const ring = now ? theme.accent : layer === state.layer && head === state.head ? theme.mark : null;
        if (ring) painter.frame(x - 1.5, y - 1.5, edge - gap + 3, edge - gap + 3, ring, 2);
      }
    });
    drawModelLabels(painter, side, { left, top, edge, gap }, window, hover, theme);
  }

  function hit(x, y, window) {
    const layer = Math.floor((y + window.y - top) / edge);
    const head = Math.floor((x + window.x - left) / edge);
    return y >= top && layer >= 0 && layer < side.layers && head >= 0 && head < side.heads ? { layer, head, query: null, key: null } : null;
  }

  function move(right, down) {
    const from = hover ?? state;
    return { layer: clamp(from.layer + down, 0, side.layers - 1), head: clamp(from.head + right, 0, side.heads - 1), query: null, key: null };
  }

  const box = (where) => ({ x: left + where.head * edge, y: top + where.layer * edge, width: edge, height: edge, left, top });
  const lens = ({ layer, head }, theme) => thumbnailPicture(pool[layer * side.heads + head], `${pane} ${layer} ${head}`, limit, theme);
  return { width: left + side.heads * edge + 4, height: top + side.layers * edge + 6, draw, hit, move, box, lens };
}

function thumbnailPicture(pool, name, limit, theme) {
  if (!pool) return null;
  const edge = Math.sqrt(pool.length);
  const key = `thumbnail ${name} ${state.part} ${state.special} ${limit} ${state.threshold} ${state.root} ${theme.ground}`;
  return pictures.get(key, () => Object.assign(bitmap(pool, edge, edge, limit, theme, thresholdWhole()), { byteLength: 4 * pool.length }));
}

function drawThumbnail(painter, pool, name, x, y, edge, limit, theme) {
  const picture = thumbnailPicture(pool, name, limit, theme);
  if (picture === null) painter.rect(x, y, edge, edge, theme.faint);
  else painter.picture(picture, x, y, edge, edge);
  painter.frame(x - 0.5, y - 0.5, edge + 1, edge + 1, theme.faint);
}

function drawModelLabels(painter, side, { left, top, edge, gap }, window, hover, theme) {
  const look = (strong) => ({ size: 12, colour: strong ? theme.accent : theme.soft, bold: strong });
  painter.clipped(0, top - 4, left, Math.max(window.height - top + 4, 0), () => {
    for (let layer = 0; layer < side.layers; layer++) {
      const y = top + (layer + 0.5) * edge - gap / 2 - window.y;
      painter.text(left > 40 ? `layer ${layer}` : String(layer), left - 8, y, { ...look(layer === (hover?.layer ?? state.layer)), align: "right" });
    }
  });
  painter.clipped(left - 2, 0, Math.max(window.width - left, 0), top, () => {
    for (let head = 0; head < side.heads; head++) {
      const x = left + (head + 0.5) * edge - gap / 2 - window.x;
      painter.text(edge > 66 ? `head ${head}` : String(head), x, top - 14, { ...look(head === (hover?.head ?? state.head)), align: "center" });
    }
  });
  if (edge <= 66) painter.text("head", left, 10, look(false));
}
