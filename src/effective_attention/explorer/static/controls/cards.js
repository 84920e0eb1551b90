// Above the picture: for each side its texts, its model, and what the model answered.
import { byId, make } from "../core/elements.js";
import { header, sideName, sides } from "../core/header.js";
import { largest, withMinus } from "../core/numbers.js";

const MOST_ANSWERS = 4;
const STANDARD_ONLY = "standard attention only: its values were not given";

/** @type {() => void} */
export function fillCards() {
  const root = byId("sides");
  root.classList.toggle("two", sides.length > 1);
  root.replaceChildren(...sides.map(cardOf));
}

/** @type {(side: Side, index: number) => HTMLElement} */
function cardOf(side, index) {
  const ownName = sideName(index);
  const tokens = tokenCounts(side.joined?.side ?? side);
  const sizes = [tokens, `${side.layers} layers × ${side.heads} heads`];
  const lacking = header.attentions.includes("effective") ? "" : STANDARD_ONLY;
  const facts = [side.model, side.checkpoint, ...sizes, lacking].filter(Boolean).join(" · ");
  const title = ownName ? [make("b", { textContent: ownName })] : [];
  const about = make("p", { className: "facts" }, ...title, make("span", { textContent: facts }));
  const words = make("div", { className: "words" }, about, ...side.texts.map(textOf));
  const prediction = side.prediction ? predictionOf(side.prediction) : null;
  const answers = [prediction, goldOf(side)].filter((part) => part !== null);
  const box = answers.length > 0 ? [make("div", { className: "answers" }, ...answers)] : [];
  return make("article", { className: "card" }, words, ...box);
}

/** @type {(side: Side) => string} */
function tokenCounts({ size, keys, words }) {
  const joined = words === null ? "" : ` in ${words.tokens.length} words`;
  return keys === null ? `${size} tokens${joined}` : `from ${size} tokens to ${keys.size}`;
}

/** @type {(text: string, index: number, all: string[]) => HTMLElement} */
function textOf(text, index, all) {
  const marks = header.stacks.length > 0 ? ["read", "written"] : ["A", "B"];
  const mark = all.length > 1 ? [make("span", { className: "mark", textContent: marks[index] })] : [];
  return make("p", { className: "text", title: text }, ...mark, make("span", { textContent: text }));
}

/** @type {(prediction: Prediction) => HTMLElement} */
function predictionOf(prediction) {
  const root = make("div", { className: "prediction", role: "group", "aria-label": "prediction" });
  if (prediction.kind === "score") {
    const number = make("b", { textContent: withMinus(prediction.score.toFixed(3)) });
    root.append(make("span", { className: "label", textContent: "score" }), number);
    return root;
  }
  const best = largest(prediction.probabilities.map(([, value]) => value));
  const listed = prediction.probabilities.toSorted((a, b) => b[1] - a[1]).slice(0, MOST_ANSWERS);
  root.append(...listed.map(([label, value]) => answerOf(label, value, value === best)));
  return root;
}

/**
 * What the data says, and whether the model agrees.
 *
 * @type {(side: Side) => HTMLElement | null}
 */
function goldOf({ gold, right }) {
  if (gold === null) return null;
  const said = typeof gold === "number" ? withMinus(gold.toFixed(3)) : gold;
  const label = make("span", { className: "label", textContent: `gold: ${said}`, title: `gold: ${said}` });
  const [className, textContent] = right ? ["right", "✓ right"] : ["wrong", "✗ wrong"];
  return make("p", { className: "gold" }, label, ...(right === null ? [] : [make("b", { className, textContent })]));
}

/** @type {(label: string, value: number, best: boolean) => HTMLElement} */
function answerOf(label, value, best) {
  const fill = make("i");
  fill.style.width = `${100 * value}%`;
  const title = make("span", { className: "label", textContent: label, title: label });
  const number = make("b", { textContent: `${(100 * value).toFixed(1)} %` });
  const meter = make("span", { className: "meter" }, fill);
  return make("div", { className: best ? "answer best" : "answer" }, title, meter, number);
}
