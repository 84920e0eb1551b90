"""The tables and figures of the league's page, made of the numbers that ``league.py`` keeps.

An *entry* is a method, under an attention where it reads one. Unless a table says otherwise numbers are of the last
layer, and tokens are deleted one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from page import Numbers, interval, markdown

from effective_attention.analyses.faithfulness import MEASURES
from effective_attention.attributions.comparison import LEVEL, critical_difference, not_told_apart
from effective_attention.reports.chapters.faithfulness.erasures import way_title
from effective_attention.reports.chapters.faithfulness.figures import colour_of, dots, key
from effective_attention.reports.chapters.faithfulness.reductions import TITLES, WITHOUT, method_title
from effective_attention.reports.drawing.average_ranks import draw_average_ranks
from effective_attention.reports.drawing.style import DOUBLE, grid, style

KEYS = ("attention", "method", "measure")
NUMBERS = ("value", "low", "high", "count")
Entry = tuple[str, str]
FIRST = ("token", "delete")
BETTER = {measure.name: {"high": 1, "low": -1, "zero": -1}[measure.better] for measure in MEASURES}
MODELS = {"minilm": "MiniLM", "mpnet": "MPNet-base", "smollm2": "SmolLM2"}
TASKS = {"sst2": "SST-2", "mrpc": "MRPC", "stsb": "STS-B", "agreement": "agreement"}
JUDGED = ("comprehensiveness", "sufficiency", "spearman_blank_out", "spearman_gradients", "mrr")
SMALLER = ("ways", "words")
ERASING = ("comprehensiveness", "sufficiency")
AGAINST = ("blank_out", "integrated_gradients", "random")
"""Set against the best: what ``explain`` does, what it did before there was a league, and chance."""
FEW = 6  # names that fit a cell
CHECKED = {"randomised": "random layers", "stability": "exchanged texts"}
TRUTH = ("mrr", "rma", "pta")
NONE = "\N{EN DASH}"


def tables(numbers: Mapping[str, Numbers]) -> dict[str, str]:
    """Write the tables of the page."""
    return {
        "models": models(numbers),
        "best": best(numbers),
        "lead": lead(numbers),
        "league": league(numbers),
        "effective": effective(numbers),
        "changes": changes(numbers),
        "ways": ways(numbers),
        "measures": measures(numbers),
        "truth": truth(numbers),
        "checks": checks(numbers),
    }


def title(part: str) -> str:
    """Return what the page calls a part.

    >>> title("mpnet-sst2")
    'MPNet-base, SST-2'
    """
    model, task = part.split("-")
    return f"{MODELS[model]}, {TASKS[task]}"


def name_of(entry: Entry) -> str:
    attention, method = entry
    return method_title(method) if not attention else f"{method_title(method)} ({attention})"


def listed(entries: Sequence[Entry]) -> str:
    """Write several entries; both attentions of a method are named once."""
    kinds: dict[str, list[str]] = {}
    for attention, method in entries:
        kinds.setdefault(method, []).append(attention)
    return ", ".join(
        sorted(
            f"{method_title(method)} (both)" if len(found) > 1 else name_of((found[0], method))
            for method, found in kinds.items()
        )
    )


def opened(kept: Numbers | None) -> list[Numbers]:
    """Return kept rows, each as a dictionary without what it has not.

    >>> opened({"columns": ["method", "p"], "rows": [["raw", None], ["flow", 0.5]]})
    [{'method': 'raw'}, {'method': 'flow', 'p': 0.5}]
    """
    rows = [] if kept is None else [dict(zip(kept["columns"], row, strict=True)) for row in kept["rows"]]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def means(found: Numbers, measure: str, way: tuple[str, str] = FIRST, run: str = "tokens") -> dict[Entry, Numbers]:
    """Return each entry's number of a measure, erased in one way (by default the first, where the measure erases)."""
    rows = [row for row in opened(found.get(run, {}).get("means")) if row["measure"] == measure]
    return {
        (row.get("attention", ""), row["method"]): row
        for row in rows
        if "erase" not in row or (row["unit"], row["erase"]) == way
    }


def known_ways(found: Numbers, run: str) -> list[tuple[str, str]]:
    """Return the ways to erase of a run, in their order."""
    rows = opened(found.get(run, {}).get("means"))
    return list(dict.fromkeys((row["unit"], row["erase"]) for row in rows if "erase" in row))


def models(numbers: Mapping[str, Numbers]) -> str:
    """Write accuracy and how many examples were explained."""
    rows = []
    for part, found in numbers.items():
        scores = list(found["tokens"]["scores"].values())
        score = f"{scores[0]:.3f}" if scores else NONE
        checked = str(found["checks"]["examples"]) if "checks" in found else NONE
        rows.append([title(part), score, str(found["tokens"]["examples"]), checked])
    return markdown(["model, task", "accuracy (STS-B: Pearson's r)", "examples explained", "in the checks"], rows)


# --- which method ---


def standing(found: Numbers) -> list[tuple[Entry, float]]:
    """Return entries by their average rank over examples, the best first."""
    rows = opened(found["tokens"]["ranks"])
    return [((row.get("attention", ""), row["method"]), row["value"]) for row in rows]


def order(numbers: Mapping[str, Numbers]) -> list[Entry]:
    """Order all entries by the mean, over parts, of their place in it: 0 the first of all, 1 the last."""
    places: dict[Entry, list[float]] = {}
    for found in numbers.values():
        ranks = standing(found)
        for place, (entry, _) in enumerate(ranks):
            places.setdefault(entry, []).append(place / (len(ranks) - 1))
    return sorted(places, key=lambda entry: fmean(places[entry]))


def best(numbers: Mapping[str, Numbers]) -> str:
    """Write each part's best, which others are not surely below it, and how many are above and below chance."""
    rows = []
    for part, found in numbers.items():
        (first, _), *others = standing(found)
        close = _not_below(found, first)
        told = listed(close) if len(close) <= FEW else f"{len(close)} of the {len(others)} others"
        rows.append([title(part), name_of(first), told or "none", _against_chance(found)])
    chance = "entries surely above / below random / not told apart"
    return markdown(["model, task", "best average rank", "not surely below it", chance], rows)


def lead(numbers: Mapping[str, Numbers]) -> str:
    """Write how far the comprehensiveness of each part's best is above those of ``AGAINST``."""
    rows = []
    for part, found in numbers.items():
        (first, _), *_ = standing(found)
        cells = [_difference(found, first, ("", other)) for other in AGAINST]
        rows.append([title(part), name_of(first), *cells])
    return markdown(["model, task", "the best, less", *map(method_title, AGAINST)], rows)


def _not_below(found: Numbers, first: Entry) -> list[Entry]:
    """Return the entries whose comprehensiveness is not surely lower than that of the first."""
    close = []
    for (one, other), row in _pairs(found).items():
        if first in (one, other):
            surely_below = row.get("p", 1) < LEVEL and row["value"] * (1 if one == first else -1) > 0
            close += [] if surely_below else [other if one == first else one]
    return close


def _against_chance(found: Numbers) -> str:
    """Count the entries that are surely more, and surely less, comprehensive than a random ranking."""
    chance = ("", "random")
    rows = {
        other if one == chance else one: {**row, "value": row["value"] * (-1 if one == chance else 1)}
        for (one, other), row in _pairs(found).items()
        if chance in (one, other)
    }
    return _counted(rows, "comprehensiveness")


def _pairs(found: Numbers) -> dict[tuple[Entry, Entry], Numbers]:
    return {
        ((row.get("attention", ""), row["method"]), (row.get("other_attention", ""), row["other_method"])): row
        for row in opened(found["tokens"]["pairs"])
    }


def _difference(found: Numbers, one: Entry, other: Entry) -> str:
    """Write the difference of comprehensiveness between two entries, with its interval."""
    pairs = _pairs(found)
    if one == other or not {(one, other), (other, one)} & set(pairs):
        return NONE
    if (one, other) in pairs:
        row = pairs[one, other]
        return _star(row, interval(row["value"], row["low"], row["high"]))
    row = pairs[other, one]
    return _star(row, interval(-row["value"], -row["high"], -row["low"]))


def league(numbers: Mapping[str, Numbers]) -> str:
    """Write comprehensiveness and sufficiency of every entry in every part."""
    rows = []
    for entry in order(numbers):
        cells = []
        for found in numbers.values():
            both = [means(found, measure).get(entry) for measure in ERASING]
            cells.append(" / ".join(NONE if one is None else f"{one['value']:.3f}" for one in both))
        rows.append([name_of(entry), *cells])
    return markdown(["method", *map(title, numbers)], rows)


def checks(numbers: Mapping[str, Numbers]) -> str:
    """Write what random layers and exchanged texts do to each entry, and what it takes beside a forward pass."""
    there = {part: found for part, found in numbers.items() if "checks" in found}
    columns = [
        (part, measure) for part, found in there.items() for measure in CHECKED if means(found, measure, run="checks")
    ]
    rows = []
    for entry in order(there):
        cells = [_cell(means(there[part], measure, run="checks").get(entry), digits=2) for part, measure in columns]
        rows.append([name_of(entry), *cells, *(_milliseconds(found, entry) for found in there.values())])
    heads = [f"{title(part)}: {CHECKED[measure]}" for part, measure in columns]
    return markdown(["method", *heads, *(f"{title(part)}: ms an example" for part in there)], rows)


def _milliseconds(found: Numbers, entry: Entry) -> str:
    rows = opened(found["tokens"]["milliseconds"])
    spent = [row["value"] for row in rows if (row.get("attention", ""), row["method"]) == entry]
    return NONE if not spent else f"{spent[0]:.0f}" if spent[0] >= 1 else "below 1"


# --- is effective attention more faithful? ---


def effective(numbers: Mapping[str, Numbers]) -> str:
    """Count the methods with which effective attention is surely better / surely worse / not told apart."""
    shown = [measure for measure in JUDGED if any(_changes(found, "tokens", measure) for found in numbers.values())]
    rows = []
    for part, found in numbers.items():
        for run, space in [("tokens", "value"), ("affine", "affine")][: 2 if "affine" in found else 1]:
            cells = [_counted(_changes(found, run, measure), measure) for measure in shown]
            rows.append([title(part), space, *cells])
    return markdown(["model, task", "space", *(TITLES[measure] for measure in shown)], rows)


def changes(numbers: Mapping[str, Numbers]) -> str:
    """Write by how much each method's comprehensiveness is higher under effective attention."""
    found = {part: _changes(one, "tokens", "comprehensiveness") for part, one in numbers.items()}
    methods = [method for attention, method in order(numbers) if attention == "effective"]
    rows = [[method_title(method), *(_changed(one.get(method)) for one in found.values())] for method in methods]
    return markdown(["method", *map(title, numbers)], rows)


def _changes(found: Numbers, run: str, measure: str, way: tuple[str, str] = FIRST) -> dict[str, Numbers]:
    rows = [row for row in opened(found.get(run, {}).get("changes")) if row["compared"] == measure]
    return {row["method"]: row for row in rows if "erase" not in row or (row["unit"], row["erase"]) == way}


def _counted(rows: Mapping[Any, Numbers], measure: str) -> str:
    if not rows:
        return NONE
    sure = [BETTER[measure] * row["value"] for row in rows.values() if row.get("p", 1) < LEVEL]
    better = sum(value > 0 for value in sure)
    return f"{better} / {len(sure) - better} / {len(rows) - len(sure)}"


def _changed(row: Numbers | None) -> str:
    return NONE if row is None else _star(row, interval(row["value"], row["low"], row["high"]))


def _star(row: Numbers, cell: str) -> str:
    return f"{cell} *" if row.get("p", 1) < LEVEL else cell


# --- how far do protocols change the answer? ---


def ways(numbers: Mapping[str, Numbers]) -> str:
    """Write, for each way to erase: the best, how alike the order of all entries is, and what effective changes."""
    rows = []
    for part, found in numbers.items():
        for run, way in [(name, way) for name in SMALLER for way in known_ways(found, name)]:
            cells = []
            for measure in ERASING:
                mine = means(found, measure, way, run)
                usual = means(found, measure, FIRST, "ways")
                cells += [_best(mine, measure), f"{_spearman(usual, mine):.2f}"]
            counted = _counted(_changes(found, run, "comprehensiveness", way), "comprehensiveness")
            rows.append([title(part), way_title(way), *cells, counted])
    heads = [cell for measure in ERASING for cell in (f"best {TITLES[measure]}", "order as by tokens deleted")]
    return markdown(
        ["model, task", "erased", *heads, "comprehensiveness: effective better / worse / not told apart"], rows
    )


def measures(numbers: Mapping[str, Numbers]) -> str:
    """Write how alike two measures order the entries."""
    others = [measure for measure in JUDGED if measure != "comprehensiveness"]
    rows = []
    for part, found in numbers.items():
        usual = means(found, "comprehensiveness")
        cells = []
        for measure in others:
            mine = means(found, measure)
            cells.append(f"{BETTER[measure] * _spearman(usual, mine):.2f}" if mine else NONE)
        rows.append([title(part), *cells])
    return markdown(["comprehensiveness and", *(TITLES[measure] for measure in others)], rows)


def truth(numbers: Mapping[str, Numbers]) -> str:
    """Write how well each entry finds the word that decides, where the data knows it."""
    there = {part: found for part, found in numbers.items() if means(found, "mrr")}
    if not there:
        return markdown(["method"], [])
    columns = [(part, measure) for part, found in there.items() for measure in TRUTH if means(found, measure)]
    rows = [
        [name_of(entry), *(_cell(means(there[part], measure).get(entry), 2) for part, measure in columns)]
        for entry in _by_reciprocal_rank(there, order(there))
    ]
    return markdown(["method", *(f"{title(part)}: {TITLES[measure]}" for part, measure in columns)], rows)


def _by_reciprocal_rank(there: Mapping[str, Numbers], entries: Sequence[Entry]) -> list[Entry]:
    """Order entries by their mean reciprocal rank of the decisive word, the first part's first."""
    values = means(next(iter(there.values())), "mrr")
    return sorted(entries, key=lambda entry: -values[entry]["value"] if entry in values else 1.0)


def _best(rows: Mapping[Entry, Numbers], measure: str) -> str:
    return name_of(max(rows, key=lambda entry: BETTER[measure] * rows[entry]["value"])) if rows else NONE


def _spearman(one: Mapping[Entry, Numbers], other: Mapping[Entry, Numbers]) -> float:
    """Correlate two measures over the entries that both have."""
    both = [entry for entry in one if entry in other]
    first, second = (pd.Series([rows[entry]["value"] for entry in both]) for rows in (one, other))
    return float(first.corr(second, method="spearman"))


def _cell(row: Numbers | None, digits: int = 3) -> str:
    return NONE if row is None else interval(row["value"], row.get("low"), row.get("high"), digits)


# --- figures ---


def figures(numbers: Mapping[str, Numbers]) -> dict[str, Figure]:
    """Draw the league, and average ranks with their critical difference."""
    if not numbers:
        return {}
    with style():
        return {"methods": _methods(numbers), "ranks": _ranks(numbers)}


def _methods(numbers: Mapping[str, Numbers]) -> Figure:
    """Draw every method's comprehensiveness with its interval, a panel for each part."""
    methods = list(dict.fromkeys(method for _, method in order(numbers)))
    across = min(3, len(numbers))
    down = -(-len(numbers) // across)
    figure, axes = grid(down, across, width=DOUBLE, height=(0.135 * len(methods) + 0.5) * down + 0.25)
    rows = None
    for number, (axis, (part, found)) in enumerate(zip(axes.flat, numbers.items(), strict=False)):
        rows = _frame(means(found, "comprehensiveness"))
        dots(axis, rows, methods)
        axis.set_title(title(part))
        axis.set_yticks(range(len(methods)), list(map(method_title, methods)) if number % across == 0 else [])
        if number // across == down - 1:
            axis.set_xlabel("comprehensiveness")
    return _finished(figure, axes, len(numbers), rows)


def _ranks(numbers: Mapping[str, Numbers]) -> Figure:
    """Draw average ranks of the parts of which all methods were measured."""
    most = max((len(standing(found)) for found in numbers.values()), default=0)
    shown = {part: found for part, found in numbers.items() if len(standing(found)) == most}
    figure, axes = grid(1, max(1, len(shown)), width=DOUBLE, height=0.13 * most + 1.0)
    rows = None
    for axis, (part, found) in zip(axes.flat, shown.items(), strict=False):
        rows = _frame({entry: {"value": rank} for entry, rank in standing(found)})
        ranks = rows["value"].tolist()
        difference = critical_difference(len(ranks), opened(found["tokens"]["ranks"])[0]["count"])
        names, colours = map(method_title, rows["method"]), map(colour_of, rows["attention"])
        draw_average_ranks(axis, list(names), list(colours), ranks, difference, not_told_apart(ranks, difference))
        axis.set_xlabel(f"average rank, {title(part)}")
    return _finished(figure, axes, len(shown), rows)


def _frame(found: Mapping[Entry, Numbers]) -> pd.DataFrame:
    rows = [{**row, "attention": attention or WITHOUT, "method": method} for (attention, method), row in found.items()]
    return pd.DataFrame(rows)


def _finished(figure: Figure, axes: Any, used: int, rows: pd.DataFrame | None) -> Figure:
    for axis in axes.flat[used:]:
        axis.set_visible(False)
    if rows is not None:
        key(figure, rows)
    return figure
