// Above the picture: for each side its texts, its model, and what the model answered.
function fillCards() {
  const root = byId("sides");
  root.classList.toggle("two", sides.length > 1);
  root.replaceChildren(...sides.map(card));
}

function card(side, index) {
  const name = sideName(index);
  const facts = [side.model, side.checkpoint, `${side.size} tokens`, `${side.layers} layers × ${side.heads} heads`].filter(Boolean).join(" · ");
  const texts = side.texts.map((text, number) => {
    const mark = side.texts.length > 1 ? [make("span", { className: "mark", textContent: String(number + 1) })] : [];
    return make("p", { className: "text", title: text }, ...mark, make("span", { textContent: text }));
  });
  const about = make("p", { className: "facts" }, ...(name ? [make("b", { textContent: name })] : []), make("span", { textContent: facts }));
  const words = make("div", { className: "words" }, about, ...texts);
  return make("article", { className: "card" }, words, ...(side.prediction ? [prediction(side.prediction)] : []));
}

function prediction(found) {
  const root = make("div", { className: "prediction", role: "group", "aria-label": "prediction" });
  if (found.kind === "score") {
    root.append(make("span", { className: "label", textContent: "score" }), make("b", { textContent: shown(found.score.toFixed(3)) }));
    return root;
  }
  const best = largest(found.probabilities.map(([, value]) => value));
  const listed = found.probabilities.toSorted((a, b) => b[1] - a[1]).slice(0, 4);
  for (const [label, value] of listed) {
    const fill = make("i");
    fill.style.width = `${100 * value}%`;
    const row = make("div", { className: value === best ? "answer best" : "answer" });
    row.append(make("span", { className: "label", textContent: label, title: label }), make("span", { className: "meter" }, fill));
    row.append(make("b", { textContent: `${(100 * value).toFixed(1)} %` }));
    root.append(row);
  }
  return root;
}
