// Everything is declared; now it begins.
Object.assign(state, stateOf(location.hash));
fillCards();
buildControls();
buildHelp();
buildKeys();
buildSaving();
addEventListener("hashchange", restoreState);
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  showChips();
  redraw();
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  panes[0]?.scroll.focus();
});

// For tests and notebooks: what is shown, how to change it, and any weight exactly as stored, as text.
window.explorer = {
  get state() {
    return { ...state };
  },
  set: setState,
  async value(side, part, layer, head, query, key) {
    await layerLoaded(side, part, layer);
    return weightText(weightAt(side, part, layer, head, query, key));
  },
  settled,
  ready: settled(),
};
