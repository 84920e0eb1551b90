// Pictures and numbers to take away: always on white, the whole view and not only what is in sight.
const WIDEST = 16000; // pixels that every browser's canvas can do

function buildSaving() {
  byId("export").addEventListener("click", () => (byId("export-menu").hidden ? openMenu() : closeMenu()));
  document.addEventListener("click", (event) => event.target.closest(".menu") || closeMenu());
  for (const button of document.querySelectorAll("[data-export]")) {
    button.addEventListener("click", () => {
      closeMenu();
      save(button.dataset.export);
    });
  }
  byId("link").addEventListener("click", copyLink);
}

function openMenu() {
  byId("export-menu").hidden = false;
  byId("export").setAttribute("aria-expanded", "true");
  byId("export-menu").querySelector("button").focus();
}

function closeMenu() {
  if (byId("export-menu").contains(document.activeElement)) byId("export").focus();
  byId("export-menu").hidden = true;
  byId("export").setAttribute("aria-expanded", "false");
}

function fileName(extension, side = "") {
  const { view, part, layer, head } = state;
  const one = (number) => [`layer${layer}`, `head${number}`];
  const several = activeHeads().length === 1 ? one(activeHeads()[0]) : [`layer${layer}`, "heads"];
  const pictures = { heads: several, model: ["model"], heatmap: one(head), neuron: ["neuron", ...one(head)], rollout: ["rollout"] };
  const where = extension === "csv" && view !== "rollout" && view !== "neuron" ? one(csvHead()) : pictures[view];
  const safe = side.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  return ["attention", part, ...(comparing() ? ["second-minus-first"] : []), ...where, ...(safe ? [safe] : [])].join("-") + `.${extension}`;
}

function pictureTitle() {
  const { view, part, layer, head } = state;
  const heads = state.heads === null ? "all heads" : `heads ${state.heads.join(" ")}`;
  const where = { heads: `layer ${layer}, ${heads}`, model: "all layers and heads", rollout: "rollout" }[view] ?? `layer ${layer}, head ${head}`;
  const who = comparing() ? `${sideName(1)} ${MINUS} ${sideName(0)}` : [...new Set(sides.map((side) => side.model))].join(" and ");
  return `${part} attention · ${where} · ${who}`;
}

// The current view as a list of scenes side by side, each with the size it wants.
function album() {
  const gap = 24;
  let x = gap;
  const scenes = panes.filter((one) => one.scene !== null).map((one) => {
    const placed = { x, y: 64, scene: one.scene, title: panes.length > 1 ? one.root.querySelector("h2").textContent : "" };
    x += one.scene.width + gap;
    return placed;
  });
  return { scenes, width: Math.max(x, 560), height: 64 + largest(scenes.map(({ scene }) => scene.height)) + 56 };
}

function paintAlbum(painter, { scenes, width, height }) {
  const theme = THEMES.light;
  painter.rect(0, 0, width, height, theme.ground);
  painter.text(fitted(pictureTitle(), 15, width - 48), 24, 24, { size: 15, colour: theme.ink, bold: true });
  for (const { x, y, scene, title } of scenes) {
    if (title) painter.text(title, x, 48, { size: 13, colour: theme.soft, bold: true });
    painter.moved(x, y, () => scene.draw(painter, { x: 0, y: 0, width: scene.width, height: scene.height }, theme));
  }
  const spec = legendSpec(true);
  if (spec.limit > 0) paintLegend(painter, 0, height - 38, 260, spec, theme);
  painter.text(spec.note, spec.limit > 0 ? 270 : 24, height - 28, { size: 12, colour: theme.soft });
}

async function save(kind) {
  await settled();
  if (panes.every((one) => one.scene === null)) toast("There is nothing to save in this view.");
  else if (kind === "svg") saveSvg();
  else if (kind === "png") savePng();
  else saveCsv();
}

function saveSvg() {
  const pages = album();
  const painter = new SvgPainter();
  paintAlbum(painter, pages);
  download(new Blob([painter.finished(pages.width, pages.height, pictureTitle())], { type: "image/svg+xml" }), fileName("svg"));
}

function savePng() {
  const pages = album();
  const scale = Math.min(2, WIDEST / pages.width, WIDEST / pages.height, Math.sqrt(1.2e8 / (pages.width * pages.height)));
  const canvas = make("canvas", { width: Math.round(pages.width * scale), height: Math.round(pages.height * scale) });
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  paintAlbum(new CanvasPainter(context), pages);
  canvas.toBlob((blob) => (blob ? download(blob, fileName("png")) : toast("This picture is too large for the browser; zoom out and try again.")));
}

function csvHead() {
  return state.view === "heads" && !activeHeads().includes(state.head) ? activeHeads()[0] : state.head;
}

const quoted = (text) => `"${text.replaceAll('"', '""')}"`;

// RFC 4180; tokens always in quotes. The numbers as stored: no threshold.
function csvOf(pane) {
  const side = sides[sideOf(pane)];
  const places = shownTokens(pane);
  const row = (name, numbers) => [quoted(name), ...numbers.map(weightText)].join(",");
  const first = [quoted(""), ...places.map((place) => quoted(side.tokens[place]))].join(",");
  const lines = state.view === "rollout"
    ? Array.from({ length: side.layers }, (_, layer) => {
        const numbers = rolloutNumbers(pane, state.part, rolloutToken(pane));
        return row(`layer ${layer}`, places.map((place) => numbers[layer * side.size + place]));
      })
    : places.map((query) => row(side.tokens[query], places.map((key) => weightAt(pane, state.part, state.layer, csvHead(), query, key))));
  return [first, ...lines, ""].join("\r\n");
}

async function saveCsv() {
  const ready = paneSides().flatMap((pane) => (pane < 0 ? [0, 1] : [pane])).filter((side) => state.layer < sides[side].layers);
  await Promise.all(ready.map((side) => layerLoaded(side, state.part, state.layer)));
  for (const one of panes) {
    if (one.scene === null || (state.view !== "rollout" && !hasHead(one.pane, state.layer, csvHead()))) continue;
    download(new Blob([csvOf(one.pane)], { type: "text/csv;charset=utf-8" }), fileName("csv", panes.length > 1 ? sideName(one.pane) : ""));
  }
}

function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  toast(`Saved ${name}`);
}

async function copyLink() {
  const link = location.href.split("#")[0] + hashOf(state);
  try {
    await navigator.clipboard.writeText(link);
    toast("Link copied");
  } catch {
    toast(link); // no clipboard here: the link itself, to copy by hand
  }
}

let toastTimer = 0;

function toast(text) {
  const box = byId("toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { box.hidden = true; }, 4000);
}
