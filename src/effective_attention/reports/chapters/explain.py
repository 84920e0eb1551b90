"""Why this prediction? What the report says and shows of ``explain``.

That is the highlighted text, its strongest words, and how far to trust them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame, isna

from effective_attention.attributions.trust import BesideRandom, Trust
from effective_attention.reports.chapter import Chapter, Drawing, Highlighted, Highlights, Piece
from effective_attention.reports.drawing.style import SINGLE, grid, styled
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.reductions import Panel, one_line, panels, token_label

LEVELS = 5  # of a background's strength
_MOST_WORDS = 20  # in the figure
_MOST_PANELS = 4
_FOR = "#2171b5"
_AGAINST = "#e6550d"
_PER_WORD = 0.145  # inches


def explained(table: DataFrame) -> Iterator[tuple[Panel, DataFrame]]:
    """Yield the words of each task or setting, in the order of the text; of several seeds those of the first."""
    for panel in panels(table):
        rows = panel.table
        rows = rows[rows["run"] == rows["run"].iloc[0]] if "run" in rows else rows
        yield panel, rows.sort_values(["position"])


def trust_of(row: Any) -> Trust:
    """Read off a row how far the explanation can be trusted."""
    needed, enough = (
        BesideRandom(float(row[name]), float(row[f"{name}_random"]), int(row[f"{name}_beaten"]))
        for name in ("comprehensiveness", "sufficiency")
    )
    return Trust(needed, enough, int(row["rankings"]))


@styled
def draw_explain(table: DataFrame) -> Figure:
    """Draw a bar for each of the strongest words, in the order of the text, a panel for each task or setting."""
    shown = [(panel, strongest(rows)) for panel, rows in explained(table)][:_MOST_PANELS]
    heights = [0.7 + _PER_WORD * len(rows) for _, rows in shown]
    figure, axes = grid(len(shown), 1, width=SINGLE, height=sum(heights), height_ratios=heights)
    for (axis,), (panel, rows) in zip(axes, shown, strict=True):
        colours = [_FOR if score >= 0 else _AGAINST for score in rows["score"]]
        axis.barh(range(len(rows)), rows["score"], color=colours, height=0.72)
        axis.set_yticks(range(len(rows)), [token_label(word, 20) for word in rows["word"]])
        axis.invert_yaxis()
        axis.xaxis.set_major_locator(MaxNLocator(5))  # more would run into each other
        axis.axvline(0, color="#666666", linewidth=0.6)
        axis.set_ylabel("words of the text")
        axis.set_xlabel(f"score for {token_label(rows['target'].iloc[0], 40)}\n{_made_with(rows.iloc[0])}")
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_title(f"{one_line(panel.title)}: {_prediction(rows.iloc[0])}", loc="left")
    return figure


def strongest(rows: DataFrame) -> DataFrame:
    """Choose the words with the largest scores, of either sign, in the order of the text."""
    words = rows[~rows["special"].astype(bool)]
    return words.loc[words["score"].abs().sort_values(ascending=False, kind="stable").index[:_MOST_WORDS].sort_values()]


def highlights(table: DataFrame) -> list[Highlights]:
    """Set the texts with their words' scores as backgrounds."""
    found = []
    for panel, rows in explained(table):
        title = f"{one_line(panel.title)}, {_made_with(rows.iloc[0])}"
        found.append(Highlights(title, "signed", [("", [Highlighted(title, _pieces(rows))])], is_open=True))
    return found


def trust_table(table: DataFrame) -> Grid:
    """Set the checks beside those of random words, two rows for each task or setting."""
    lines = []
    for panel, rows in explained(table):
        for check in trust_of(rows.iloc[0]).rows():
            lines.append([one_line(panel.title), *check])
    columns = ["task", "what is lost", "these words", "random words", "better than"]
    caption = (
        "How far to trust this: the probability (of a regression the score) that the explained class loses without "
        "the words ranked highest (comprehensiveness), and with them alone (sufficiency)."
    )
    alone = len({line[0] for line in lines}) == 1
    return Grid(caption, columns[alone:], [line[alone:] for line in lines], labels=2 - alone)


def found_in(table: DataFrame) -> list[str]:
    """Say what was predicted and explained, and how far the ranking can be trusted."""
    found = []
    for panel, rows in explained(table):
        row = rows.iloc[0]
        gold = "" if isna(row["gold"]) else f" (the right answer is {row['gold']})"
        asked = "" if row["target"] == row["predicted"] else f" Explained is {row['target']}."
        found.append(f"{one_line(panel.title)}: predicted {_prediction(row)}{gold}.{asked} {trust_of(row).verdict}")
    return found


def _prediction(row: Any) -> str:
    if row["predicted"] == "score":
        return f"score {number(row['probability'])}"
    return f"{token_label(row['predicted'], 40)}, probability {number(row['probability'])}"


def _made_with(row: Any) -> str:
    name = str(row["method"]).replace("_", " ")
    return name if isna(row["attention"]) else f"{name} ({row['attention']} attention, layer {int(row['layer'])})"


def _pieces(rows: DataFrame) -> list[Piece]:
    words = rows[~rows["special"].astype(bool)]
    most = float(words["score"].abs().max()) or 1.0
    found: list[Piece] = []
    segment = 0
    for row in rows.to_dict("records"):
        gap = "" if isna(row["before"]) else str(row["before"])
        gap = f"{gap}\n" if row["segment"] != segment else gap or (" " if row["special"] else "")
        segment = row["segment"]
        strength = max(-1.0, min(1.0, float(row["score"]) / most))
        found += [Piece(gap), Piece(str(row["word"]), round(LEVELS * strength), number(row["score"], 4))]
    return [piece for piece in found if piece.text]


CHAPTER = Chapter(
    analysis="explain",
    title="Why this prediction",
    source="measures: DeYoung et al. 2020",
    question="Which words decided the prediction of this text?",
    text=(
        "Blue words speak for the explained class, orange and underlined ones "
        "against it; the deeper, the more. A method always points at some words, so two checks ask the model itself: "
        "the words ranked highest are taken away, or they alone are kept, and what the explained class loses stands "
        "beside what it loses with random words (mean over the top 1, 5, 10, 20 and 50 % of the tokens)."
    ),
    figures=(Drawing("explain", "The words with the largest scores, in the order of the text.", draw_explain),),
    tables=(trust_table,),
    found=found_in,
    highlights=highlights,
)
