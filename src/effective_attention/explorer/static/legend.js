// What colours and lines mean, with their ends.
// saved: on paper nobody can point at anything.
function legendSpec(saved = false) {
  const signed = isSigned(state.part, comparing());
  const scale = state.root ? "colour by √ of the weight" : "";
  if (state.view === "neuron") return { note: "blue: above 0 · orange: below 0", limit: 0 };
  if (state.view === "model") return { signed, limit: modelLimit, note: scale };
  if (state.view === "rollout") {
    const shares = state.part !== "difference" && !comparing();
    return state.part === "null" ? { note: "", limit: 0 } : { signed: !shares, limit: rolloutLimit(state.part), note: rolloutNote(scale) };
  }
  if (state.view === "heatmap") return { signed, limit: commonLimit(state.part, state.layer, [state.head]), note: scale };
  return { limit: 0, note: headsNote(signed, saved) };
}

function rolloutNote(scale) {
  const { convention, residual } = sides[0];
  const negative = state.part === "standard" ? "" : convention === "absolute" ? "size of negative weights taken" : "negative weights dropped";
  return [negative, `residual ${residual}`, scale].filter(Boolean).join(" · ");
}

function headsNote(signed, saved) {
  const limit = commonLimit(state.part, state.layer, activeHeads());
  const drawn = panes.filter((one) => one.scene !== null).map((one) => linesOf(one.pane, limit));
  const few = largest(drawn.map((lines) => lines.cut));
  const left = few > 0 ? ` · weights below ${brief(few / unit())} ${saved ? "are left out" : "show when you point at a token"}` : "";
  return `full colour = ${brief(limit / unit())}${signed ? " · dashed: negative" : ""}${left}`;
}

function drawLegend(theme) {
  const spec = legendSpec();
  byId("legend-note").textContent = spec.note;
  const canvas = byId("legend-bar");
  canvas.hidden = spec.limit === 0;
  if (canvas.hidden) return;
  const ratio = devicePixelRatio || 1;
  const [width, height] = [240, 26];
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  paintLegend(new CanvasPainter(context), 0, 0, width, spec, theme);
  const end = brief(spec.limit / unit());
  canvas.setAttribute("aria-label", `colour scale from ${spec.signed ? `${MINUS}${end}` : "0"} to ${end}`);
}

// A bar with three numbers under it; the middle one is where the middle colour is.
function paintLegend(painter, x, y, width, { signed, limit }, theme) {
  const inner = width - 60;
  const steps = 60;
  for (let i = 0; i < steps; i++) {
    const place = signed ? (2 * i) / (steps - 1) - 1 : i / (steps - 1);
    const colours = ramp(place < 0 ? theme.negative : theme.positive);
    painter.rect(x + 30 + (i * inner) / steps, y, inner / steps + 0.5, 10, hexOf(colours[Math.round(255 * Math.abs(place))]));
  }
  painter.frame(x + 29.5, y + 0.5, inner + 1, 10, theme.faint);
  const middle = signed ? 0 : state.root ? limit / 4 : limit / 2;
  const ends = [[signed ? -limit : 0, 30], [middle, 30 + inner / 2], [limit, 30 + inner]];
  for (const [value, at] of ends) painter.text(brief(value / unit()), x + at, y + 19, { size: 11, colour: theme.soft, align: "center" });
}
