"""The report's small tables on the structure of attention, and texts with the weights of their exemplars as background."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pandas import DataFrame, Series

from effective_attention.reports.chapter import Highlighted, Highlights, Piece
from effective_attention.reports.figures.dependency_alignment import Best, aligned, baselines, best_heads
from effective_attention.reports.figures.exemplars import Passage, Word, passages
from effective_attention.reports.figures.pos_attention import TAG_TITLES, targeted_tags
from effective_attention.reports.figures.structure import even
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.reductions import attentions, by_layer, one_line, panels

LEVELS = 5  # of a background's strength
_MOST_PASSAGES = 600  # on the page; each is a kilobyte or so
_HEAD = ["task", "model", "data", "split", "checkpoint", "attention", "layer", "head"]
_ARROWS = {"to_head": "to its head", "from_head": "to its dependent"}


def _layer_means(
    table: DataFrame,
    *,
    caption: str,
    digits: int,
    last: str,
    largest: bool = True,
    references: Callable[[DataFrame], Mapping[str, float]] = lambda _: {},
) -> Grid:
    """A row for each task and attention, a column for each layer; then what to compare with, and the extreme layer."""
    heads = table[table["attention"].isin(attentions(table))]
    layers = sorted(int(layer) for layer in heads["layer"].unique())
    names = list(references(table))
    rows = []
    for panel in panels(table) if len(heads) else ():
        fixed = references(panel.table)
        for kind in attentions(panel.table):
            mine = panel.table[panel.table["attention"] == kind]
            means = by_layer(mine)
            cells = [means.get(layer) for layer in layers] + [fixed.get(name) for name in names]
            front = [one_line(panel.title), kind, *(number(cell, digits) for cell in cells)]
            rows.append([*front, _extreme(means, largest=largest), _depth(mine)])
    columns = ["task", "attention", *map(str, layers), *names, f"{last} (depth)", "correlation with depth"]
    groups = [
        ("", 2),
        ("mean over heads of layer", len(layers)),
        ("fixed rules" if len(names) > 1 else "", len(names)),
        ("", 2),
    ]
    groups = [group for group in groups if group[1]]
    said = f"{caption}, by layer. Depth is 0 in the first and 1 in the last layer; its correlation is Spearman's over heads."
    return Grid(said, columns, rows, groups, labels=2)


def _extreme(means: Series, *, largest: bool) -> str:
    """Such as ``layer 3 (0.60)``."""
    known = means.dropna()
    if known.empty:
        return NONE
    layer = int(known.idxmax() if largest else known.idxmin())
    return f"layer {layer} ({layer / max(int(means.index.max()), 1):.2f})"


def _depth(rows: DataFrame) -> str:
    return _correlation(rows["layer"].astype(float), rows["value"].astype(float))


def _correlation(first: Series, second: Series) -> str:
    """Spearman's, as the correlation of ranks; a dash where one of them is constant."""
    both = DataFrame({"first": first, "second": second}).dropna().rank()
    if both.nunique().min() < 2:
        return NONE
    return number(float(both["first"].corr(both["second"])), 2)


distance = partial(_layer_means, caption="Mean distance in tokens", digits=1, last="furthest", references=even)
variability = partial(_layer_means, caption="Variability", digits=3, last="most variable")


def entropy(table: DataFrame) -> Grid:
    """Entropy in nats."""
    rows = table[table["statistic"] == "entropy"]
    return _layer_means(rows, caption="Entropy in nats", digits=2, last="most focused", largest=False)


def relative_entropy(table: DataFrame) -> Grid:
    """Entropy as a share of the largest possible."""
    rows = table[table["statistic"] == "relative"]
    return _layer_means(
        rows, caption="Entropy as a share of the largest possible", digits=3, last="most focused", largest=False
    )


def alignment(table: DataFrame) -> Grid:
    """Share of attention between related words by layer, what the fixed rules reach, and how deep the strongest layer is."""
    caption = "Share of attention between related words"
    return _layer_means(aligned(table), caption=caption, digits=3, last="strongest", references=baselines)


def relations(table: DataFrame) -> Grid:
    """The best head of each relation, beside the best fixed rule of the same direction."""
    rows = []
    for panel in panels(table) if len(table) else ():
        kinds = attentions(panel.table)
        found = {kind: {best.relation: best for best in best_heads(panel.table, kind)} for kind in kinds}
        for relation, first in found[kinds[0]].items() if kinds else ():
            cells = [cell for kind in kinds for cell in _head(found[kind].get(relation))]
            rows.append([one_line(panel.title), relation, number(first.count, 0), *cells])
    kinds = attentions(table)
    columns = ["task", "relation", "arcs", *["head", "looks", "hits", "best fixed rule", "gain"] * len(kinds)]
    groups = [("", 3), *((kind, 5) for kind in kinds)]
    caption = "For each relation the head that finds the partner most often, largest gain first."
    return Grid(caption, columns, rows, groups, labels=2)


def _head(best: Best | None) -> list[str]:
    if best is None:
        return [NONE] * 5
    rule = max(best.baselines, key=lambda name: best.baselines[name], default=None)
    fixed = NONE if rule is None else f"{number(best.baselines[rule])} ({rule})"
    return [f"{best.layer}.{best.head}", _ARROWS[best.direction], number(best.value), fixed, number(best.gain)]


def alignment_and_distance(tables: Mapping[str, DataFrame]) -> Grid:
    """How alignment and distance of the same heads go together; no rows unless both were measured."""
    rows = []
    if "dependency_alignment" in tables and "distance" in tables:
        shares, far = (_by_head(part) for part in (aligned(tables["dependency_alignment"]), tables["distance"]))
        both = shares.merge(far, on=_HEAD, suffixes=("", "_far")).dropna(subset=["value", "value_far"])
        for panel in panels(both) if len(both) else ():
            for kind in attentions(panel.table):
                heads = panel.table[panel.table["attention"] == kind]
                layers = heads.groupby("layer")[["value", "value_far"]].mean()
                cells = [_correlation(part["value"], part["value_far"]) for part in (heads, layers)]
                rows.append([one_line(panel.title), kind, *cells, number(len(heads), 0)])
    columns = ["task", "attention", "over heads", "over layers", "heads"]
    caption = "Correlation of dependency alignment with distance (Spearman); the poster finds it negative."
    return Grid(caption, columns, rows, labels=2)


def _by_head(table: DataFrame) -> DataFrame:
    """Seeds of one setting that name the same weights are averaged."""
    return (
        table.assign(checkpoint=table["checkpoint"].fillna("")).groupby(_HEAD, sort=False)["value"].mean().reset_index()
    )


def parts_of_speech(table: DataFrame) -> Grid:
    """For each of the tags some head prefers most: even share, the mean of all heads, and the head that prefers it most."""
    rows = []
    for panel in panels(table) if len(table) else ():
        for direction in ("to", "from"):
            mine = panel.table[panel.table["direction"] == direction]
            for tag in targeted_tags(mine, direction) if len(mine) else ():
                chosen = mine[mine["tag"] == tag]
                cells = [cell for kind in attentions(table) for cell in _preferred(chosen[chosen["attention"] == kind])]
                even = number(100 * chosen["even"].mean(), 1)
                rows.append([one_line(panel.title), direction, TAG_TITLES.get(tag, tag), even, *cells])
    kinds = attentions(table)
    columns = ["task", "direction", "tag", "even", *["mean", "most", "head"] * len(kinds)]
    groups = [("", 4), *((kind, 3) for kind in kinds)]
    return Grid("Attention to and from parts of speech, percent; the head with most.", columns, rows, groups, labels=3)


def _preferred(rows: DataFrame) -> list[str]:
    heads = rows.groupby(["layer", "head"])["value"].mean().dropna()
    if heads.empty:
        return [NONE] * 3
    layer, head = heads.idxmax()
    return [number(100 * heads.mean(), 1), number(100 * heads.max(), 1), f"{int(layer)}.{int(head)}"]


def highlights(table: DataFrame) -> list[Highlights]:
    """All heads' exemplars; if these are too many for a page, of each layer those with the lowest rank and the largest weight."""
    parts = [(panel, kind) for panel in panels(table) for kind in attentions(panel.table)] if len(table) else []
    found = [passages(panel.table[panel.table["attention"] == kind]) for panel, kind in parts]
    most = max(1, _MOST_PASSAGES // max(1, sum(len({passage.layer for passage in mine}) for mine in found)))
    return [
        Highlights(f"{one_line(panel.title)}, {kind} attention", kind, _by_number(mine, most))
        for (panel, kind), mine in zip(parts, found, strict=True)
    ]


def _by_number(found: Sequence[Passage], most: int) -> list[tuple[str, list[Highlighted]]]:
    layers = []
    for layer in sorted({passage.layer for passage in found}):
        mine = sorted((p for p in found if p.layer == layer), key=lambda p: (p.rank, -p.score, p.head))[:most]
        ordered = sorted(mine, key=lambda passage: (passage.head, passage.rank))
        layers.append((f"Layer {layer}", [_highlighted(passage) for passage in ordered]))
    return layers


def _highlighted(passage: Passage) -> Highlighted:
    title = f"head {passage.head}, weight {number(passage.score)}, example {passage.example}"
    return Highlighted(title, _pieces(passage.words))


def _pieces(words: Sequence[Word]) -> list[Piece]:
    """Words without a background are joined, so that the page stays small."""
    pieces: list[Piece] = []
    for place, word in enumerate(words):
        level = round(LEVELS * word.strength)
        gap = "" if word.glued or place == 0 else " "
        if level == 0 and not word.query:
            pieces.append(Piece(gap + word.text))
            continue
        if gap:
            pieces.append(Piece(gap))
        pieces.append(Piece(word.text, level, number(word.value), word.query))
    return _joined(pieces)


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    out: list[Piece] = []
    for piece in pieces:
        plain = piece.level == 0 and not piece.query
        if plain and out and out[-1].level == 0 and not out[-1].query:
            out[-1] = Piece(out[-1].text + piece.text)
        else:
            out.append(piece)
    return out
