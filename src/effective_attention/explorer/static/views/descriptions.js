// What is pointed at, or held, in words and exact numbers: a description per view.
import { headColour } from "../core/colours.js";
import { differenceName, hasWords, showsWords, sideName, tokenLabel, tokensOf, weightText } from "../core/header.js";
import { weightAt } from "../core/matrices.js";
import { largestFew, withMinus } from "../core/numbers.js";
import { pointer } from "../core/pointer.js";
import { chosenToken, paneNumbers, queryToken, shownTokens, sideOf } from "../core/selection.js";
import { state } from "../core/state.js";
import { themeNow } from "../core/themes.js";
import { rolloutNumbers } from "../core/token_rollout.js";
import { headsHere } from "./head_lines.js";
import { neuronPair, scoreOf } from "./neuron_numbers.js";
import { obstacle } from "./obstacles.js";

const MOST_LINES = 6; // of one token's strongest

/** @type {Record<View, (seen: Focus) => Description | null>} */
const DESCRIBE = {
  heads: describeLines, model: describeHead, heatmap: describeCell, neuron: describePair, rollout: describeRollout,
};

/**
 * Null: nothing is in focus.
 *
 * @type {() => Description | null}
 */
export function describeFocus() {
  const [first] = paneNumbers();
  const held = { pane: first, query: chosenToken("query", first), key: chosenToken("key", first) };
  const target = pointer.target ?? (held.query !== null && held.key !== null ? held : null);
  if (target === null || obstacle(target.pane) !== null) return null;
  const { pane } = target;
  const side = sideOf(pane);
  const level = hasWords() ? `between ${showsWords() ? "words" : "pieces"}` : "";
  const part = [state.part, pane < 0 ? differenceName() : "", level].filter(Boolean).join(" ");
  const suffix = pane >= 0 && sideName(pane) ? `  (${sideName(pane)})` : "";
  /** @type {Focus["tokenName"]} */
  const tokenName = (which, place) => {
    const { tokens, size } = tokensOf(side, which);
    return tokenLabel(tokens[Math.min(place, size - 1)]);
  };
  return DESCRIBE[state.view]({ pane, side, tokenName, part, target, suffix });
}

/** @type {(seen: Focus) => Description | null} */
function describeHead({ part, target }) {
  const { layer, head } = target;
  if (layer === undefined) return null;
  const title = `layer ${layer}, head ${head}`;
  return { title, text: `${title}  ${part}: click to open`, layer, head, rows: [] };
}

/** @type {(seen: Focus) => Description | null} */
function describeCell({ pane, tokenName, part, target, suffix }) {
  const { layer, head } = state;
  const { query, key } = target;
  if (query === null || key === null) return describeToken(tokenName, query, key);
  const value = weightText(weightAt(pane, state.part, layer, head, query, key));
  const title = `${tokenName("query", query)} → ${tokenName("key", key)}`;
  const text = `${title}  layer ${layer}, head ${head}  ${part} ${withMinus(value)}${suffix}`;
  return { title, text, value, query, key, layer, head, rows: [{ label: part, number: withMinus(value) }] };
}

/** @type {(tokenName: Focus["tokenName"], query: number | null, key: number | null) => Description | null} */
function describeToken(tokenName, query, key) {
  const token = query ?? key;
  if (token === null) return null;
  const title = query === null ? `to ${tokenName("key", token)}` : `from ${tokenName("query", token)}`;
  return { title, text: `${title}: token ${token}`, query, key, rows: [] };
}

/**
 * One pair: each head's number. One token: the strongest of its lines.
 *
 * @type {(seen: Focus) => Description | null}
 */
function describeLines(seen) {
  const { pane, target } = seen;
  const query = target.query ?? (target.key === null ? null : chosenToken("query", pane));
  const { key } = target;
  if (query === null && key === null) return null;
  return query !== null && key !== null ? describeHeads(seen, query, key) : describeStrongest(seen, query, key);
}

/** @type {(pane: number, pairs: { from: number, to: number }[]) => HeadWeight[]} */
function weightsOf(pane, pairs) {
  return headsHere(pane).flatMap((head) => pairs.map(({ from, to }) => (
    { head, from, to, value: weightAt(pane, state.part, state.layer, head, from, to) }
  )));
}

/** @type {(weight: HeadWeight, label: string) => DescribedRow} */
function rowOf({ head, value }, label) {
  return { colour: headColour(head, themeNow()), label, number: withMinus(weightText(value)) };
}

/** @type {(seen: Focus, query: number, key: number) => Description} */
function describeHeads({ pane, tokenName, part, suffix }, query, key) {
  const weights = weightsOf(pane, [{ from: query, to: key }]);
  const [strongest] = largestFew(weights, ({ value }) => Math.abs(value), 1);
  const first = weights.find(({ head }) => head === state.head) ?? strongest;
  const rows = weights.map((weight) => rowOf(weight, `head ${weight.head}`));
  const single = `head ${first.head}  ${part} ${withMinus(weightText(first.value))}`;
  const said = weights.length === 1 ? single : `${part}: ${listed(rows)}`;
  return describedLines(`${tokenName("query", query)} → ${tokenName("key", key)}`, said, suffix, first, rows);
}

/** @type {(seen: Focus, query: number | null, key: number | null) => Description} */
function describeStrongest({ pane, tokenName, part, suffix }, query, key) {
  const others = shownTokens(pane, query === null ? "query" : "key");
  const pairs = others.map((other) => ({ from: query ?? other, to: key ?? other }));
  const strongest = largestFew(weightsOf(pane, pairs), ({ value }) => Math.abs(value), MOST_LINES);
  const rows = strongest.map((weight) => {
    const other = query === null ? tokenName("query", weight.from) : tokenName("key", weight.to);
    return rowOf(weight, `${other}  (head ${weight.head})`);
  });
  const title = query === null ? `to ${tokenName("key", key ?? 0)}` : `from ${tokenName("query", query)}`;
  return describedLines(title, `${part}: ${listed(rows)}`, suffix, strongest[0], rows);
}

/** @type {(rows: DescribedRow[]) => string} */
function listed(rows) {
  return rows.map(({ label, number }) => `${label} ${number}`).join(", ");
}

/** @type {(title: string, said: string, suffix: string, first: HeadWeight, rows: DescribedRow[]) => Description} */
function describedLines(title, said, suffix, { head, from, to, value }, rows) {
  const { layer } = state;
  const text = `${title}  layer ${layer} ${said}${suffix}`;
  return { title, text, value: weightText(value), query: from, key: to, layer, head, rows };
}

/** @type {(seen: Focus) => Description | null} */
function describePair(seen) {
  const { pane, tokenName, target } = seen;
  if (target.choose === "query") {
    const query = target.query ?? 0;
    const token = tokenName("query", query);
    return { title: `query ${token}`, text: `${token}: click to take its query`, query, rows: [] };
  }
  const pair = neuronPair(pane, target);
  const found = describeCell({ ...seen, target: { pane, ...pair } });
  const score = withMinus(scoreOf(pane, pair.query, pair.key).toFixed(2));
  const row = { label: "score ≈", number: score };
  return found && { ...found, text: `${found.text}  score ≈ ${score}`, rows: [...found.rows, row] };
}

/** @type {(seen: Focus) => Description | null} */
function describeRollout({ pane, side, tokenName, part, target, suffix }) {
  const query = queryToken(pane);
  const layer = target.layer ?? state.layer;
  const { key } = target;
  if (key === null || layer >= side.layers) return null;
  const value = weightText(rolloutNumbers(pane, state.part, query)[layer * side.size + key]);
  const title = `${tokenName("query", query)} ← ${tokenName("key", key)}`;
  const text = `${title}  rollout to layer ${layer}  ${part} ${withMinus(value)}${suffix}`;
  return { title, text, value, query, key, layer, rows: [{ label: `layer ${layer}`, number: withMinus(value) }] };
}
