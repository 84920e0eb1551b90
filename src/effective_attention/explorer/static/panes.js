// Panes: one per side. A canvas as large as what can be seen stays in place while its pane scrolls, so 512 tokens cost no more
// than 50. Everything is redrawn at most once per frame.
const panes = [];
const SCENES = { heads: headsScene, model: modelScene, heatmap: heatmapScene, neuron: neuronScene, rollout: rolloutScene };
let hover = null; // {pane, query, key, layer, head, ...}: what the pointer or the keyboard is at
let pending = false;
let drawnView = null;
const waiting = []; // who wants to know when all is drawn

function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    render();
    if (!pending && blocks.coming.size === 0) waiting.splice(0).forEach((tell) => tell());
  });
}

function settled() {
  return new Promise((resolve) => {
    waiting.push(resolve);
    redraw();
  });
}

function hoverIn(pane) {
  return hover !== null && (hover.pane === pane || header.same_tokens) ? hover : null;
}

// Why a pane shows nothing, in words; null: it can be drawn.
function obstacle(pane) {
  if (blocks.failed) return blocks.failed;
  const single = state.view === "heatmap" || state.view === "neuron";
  if (state.view === "rollout") {
    if (state.part === "null") return "Rollout is not available for null attention, whose weights are no shares: choose standard or effective.";
    if (!rolloutPossible(pane)) return "Rollout: the two sides have different numbers of layers.";
    return rolloutReady(pane, state.part) ? null : "…";
  }
  if (state.view === "model") return null;
  if (!hasHead(pane, state.layer, single ? state.head : 0)) return `There is no layer ${state.layer}, head ${state.head} on this side.`;
  if (state.view === "neuron") {
    if (!neuronAvailable(pane)) return "Queries and keys are not in this file.";
    return neuronReady(pane) ? null : "…";
  }
  if (state.view === "heads" && headsHere(pane).length === 0) return "No head is chosen: click a number above.";
  return planeReady(pane, state.part, state.layer) ? null : "…";
}

function buildPanes() {
  const wanted = paneSides();
  if (panes.length === wanted.length && panes.every((one, i) => one.pane === wanted[i])) return;
  panes.splice(0).forEach((one) => one.root.remove());
  wanted.forEach((pane) => panes.push(buildPane(pane)));
  byId("stage").classList.toggle("two", wanted.length > 1);
}

function buildPane(pane) {
  const canvas = make("canvas");
  const message = make("p", { className: "message", hidden: true });
  const sizer = make("div", { className: "sizer" }, canvas);
  const scroll = make("div", { className: "scroll", tabIndex: 0, role: "application" }, sizer);
  const title = pane < 0 ? `${sideName(1)} ${MINUS} ${sideName(0)}` : sideName(pane);
  const root = make("section", { className: "pane" }, ...(title ? [make("h2", { textContent: title })] : []), scroll, message);
  const one = { pane, root, scroll, sizer, canvas, message, scene: null };
  byId("stage").append(root);
  listenToPane(one);
  new ResizeObserver(redraw).observe(scroll);
  return one;
}

function windowOf(one) {
  return { x: one.scroll.scrollLeft, y: one.scroll.scrollTop, width: one.scroll.clientWidth, height: one.scroll.clientHeight };
}

function render() {
  buildPanes();
  if (drawnView !== state.view) {
    drawnView = state.view;
    hover = null; // what was pointed at is no longer there
    panes.forEach((one) => one.scroll.scrollTo(0, 0));
  }
  const theme = themeNow();
  for (const one of panes) {
    const trouble = obstacle(one.pane);
    one.message.hidden = trouble === null;
    one.message.textContent = trouble === "…" ? "reading…" : trouble ?? "";
    one.scene = trouble === null ? SCENES[state.view](one.pane, roomOf(one), hoverIn(one.pane)) : null;
    one.scroll.setAttribute("aria-label", paneLabel(one.pane));
  }
  panes.forEach((one) => drawPane(one, theme));
  drawLegend(theme);
  tell();
}

function roomOf(one) {
  return { width: one.scroll.clientWidth, height: one.scroll.clientHeight };
}

function drawPane(one, theme) {
  const { scene, canvas, sizer } = one;
  canvas.hidden = scene === null;
  const window = windowOf(one);
  if (scene === null) return;
  sizer.style.width = `${Math.max(scene.width <= window.width + 1 ? window.width : scene.width, 1)}px`;
  sizer.style.height = `${Math.max(scene.height, window.height)}px`;
  const ratio = devicePixelRatio || 1;
  const [width, height] = [Math.round(window.width * ratio), Math.round(window.height * ratio)];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  canvas.style.width = `${window.width}px`;
  canvas.style.height = `${window.height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = theme.ground;
  context.fillRect(0, 0, window.width, window.height);
  scene.draw(new CanvasPainter(context), windowOf(one), theme);
}

function paneLabel(pane) {
  const { layer, head, view } = state;
  const where = { heads: `layer ${layer}`, model: "all layers and heads", rollout: "all layers" }[view] ?? `layer ${layer} head ${head}`;
  const who = pane < 0 ? "second minus first" : sideName(pane);
  return [`${state.view} view`, `${state.part} attention`, where, who, "arrow keys move, Enter chooses"].filter(Boolean).join(", ");
}

function listenToPane(one) {
  const { scroll, canvas, pane } = one;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return one.scene?.hit(event.clientX - box.left, event.clientY - box.top, windowOf(one)) ?? null;
  };
  scroll.addEventListener("scroll", redraw, { passive: true });
  scroll.addEventListener("mousedown", (event) => event.preventDefault()); // a click must not take the arrow keys from layer and head
  canvas.addEventListener("pointermove", (event) => setHover(pane, at(event), { x: event.clientX, y: event.clientY }));
  canvas.addEventListener("pointerleave", () => setHover(pane, null));
  canvas.addEventListener("click", (event) => choose(pane, at(event)));
  scroll.addEventListener("blur", () => setHover(pane, null));
  scroll.addEventListener("keydown", (event) => paneKey(event, one));
}

function setHover(pane, target, pointer = null) {
  hover = target === null ? null : { ...target, pane };
  placeTip(pointer);
  redraw();
}

function choose(pane, target) {
  if (target === null) return;
  if (state.view === "model") setState({ view: "heatmap", layer: target.layer, head: target.head });
  else if (state.view === "neuron") setState(target.choose === "query" ? { query: target.query } : { key: target.key });
  else if (state.view === "rollout") setState({ layer: target.layer ?? state.layer, query: target.key ?? state.query });
  else if (state.view === "heads") pin({ query: target.query ?? (target.key === null ? null : state.query), key: target.key });
  else pin(target);
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function paneKey(event, one) {
  if (one.scene === null || event.altKey || event.ctrlKey || event.metaKey) return;
  const arrow = ARROWS[event.key];
  if (arrow) {
    const target = one.scene.move(...arrow);
    setHover(one.pane, target);
    intoSight(one, one.scene.box(target));
  } else if ((event.key === "Enter" || event.key === " ") && hover) choose(one.pane, hover);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function intoSight({ scroll }, box) {
  const within = (start, length, from, visible, frozen) =>
    start - frozen < from ? start - frozen : start + length > from + visible ? start + length - visible : from;
  scroll.scrollLeft = within(box.x, box.width, scroll.scrollLeft, scroll.clientWidth, box.left);
  scroll.scrollTop = within(box.y, box.height, scroll.scrollTop, scroll.clientHeight, box.top);
}
