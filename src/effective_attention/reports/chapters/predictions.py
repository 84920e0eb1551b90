"""What the model answers: what the report says and shows of ``predictions``, a table that testing writes."""

from __future__ import annotations

from functools import partial

from pandas import DataFrame

from effective_attention.reports.chapter import Chapter
from effective_attention.reports.findings import percent, said_of
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.reductions import Panel, correlation, one_line, panels, shortened

_MOST_MISTAKES = 10  # of one task; of several less of each, because the table is to be read
_MOST_LETTERS = 240  # of a text


# --- reductions ---


def classified(table: DataFrame) -> list[Panel]:
    """Return the panels whose task has classes."""
    if "correct" not in table:
        return []
    return panels(table[table["correct"].notna()]) if table["correct"].notna().any() else []


def rated(table: DataFrame) -> list[Panel]:
    """Return the panels whose answers are numbers."""
    rows = table if "correct" not in table else table[table["correct"].isna()]
    rows = rows[rows["gold"].notna()]
    return panels(rows) if len(rows) else []


def classes(rows: DataFrame) -> list[str]:
    """Return every class that is an answer, or should be one, in order of appearance among the sorted names."""
    return sorted({str(name) for column in ("gold", "predicted") for name in rows[column]})


def mistakes(rows: DataFrame) -> DataFrame:
    """Return the wrong answers, the most confident first."""
    return rows[~rows["correct"].astype(bool)].sort_values("probability", ascending=False, kind="stable")


def furthest(rows: DataFrame) -> DataFrame:
    """Return the answers that are numbers, those furthest from the right one first."""
    distance = (rows["predicted"].astype(float) - rows["gold"].astype(float)).abs()
    return rows.assign(distance=distance).sort_values("distance", ascending=False, kind="stable")


# --- tables ---


def confusion(table: DataFrame) -> Grid:
    """Set for each class of each task how often it was answered as what, and how often rightly."""
    found = classified(table)
    names = list(dict.fromkeys(name for panel in found for name in classes(panel.table)))
    rows = []
    for panel in found:
        mine = classes(panel.table)
        for gold in mine:
            asked = panel.table[panel.table["gold"].astype(str) == gold]
            counts = asked["predicted"].astype(str).value_counts()
            cells = [str(int(counts.get(name, 0))) if name in mine else NONE for name in names]
            right = number(asked["correct"].astype(float).mean()) if len(asked) else NONE
            rows.append([one_line(panel.title), gold, str(len(asked)), *cells, right])
    columns = ["task", "label", "examples", *names, "right"]
    groups = [("", 3), ("answered as", len(names)), ("", 1)]
    return Grid("How often each label was answered as what, and rightly.", columns, rows, groups, labels=2)


def distances(table: DataFrame) -> Grid:
    """Set how far answers that are numbers are from the right ones."""
    rows = []
    for panel in rated(table):
        off = furthest(panel.table)["distance"]
        ranks = correlation(panel.table["gold"].astype(float), panel.table["predicted"].astype(float))
        rows.append([one_line(panel.title), str(len(off)), number(off.mean()), number(off.max()), number(ranks)])
    columns = ["task", "examples", "mean distance", "largest distance", "correlation of ranks"]
    return Grid("How far the answers are from the right numbers.", columns, rows)


def _wrong(table: DataFrame, *, numbers: bool) -> Grid:
    found = rated(table) if numbers else classified(table)
    most = _MOST_MISTAKES if len(found) == 1 else _MOST_MISTAKES // 3
    rows = []
    for panel in found:
        for answer in (furthest if numbers else mistakes)(panel.table).head(most).to_dict("records"):
            texts = [answer.get(name) for name in ("text", "text_pair")]
            said = "\n".join(shortened(text, _MOST_LETTERS) for text in texts if isinstance(text, str) and text)
            sure = number(answer["distance"] if numbers else answer["probability"])
            ends = [number(answer[name], 2) if numbers else str(answer[name]) for name in ("gold", "predicted")]
            rows.append([one_line(panel.title), str(answer["example"]), said, *ends, sure])
    caption = "The answers that are furthest off." if numbers else "The most confident mistakes."
    columns = ["task", "example", "text", "label", "answer", "distance" if numbers else "probability"]
    return Grid(caption, columns, rows, prose=frozenset({2}), labels=5 - 2 * numbers)


most_confident_mistakes = partial(_wrong, numbers=False)
furthest_answers = partial(_wrong, numbers=True)


# --- what was found ---


def found_answers(table: DataFrame) -> list[str]:
    """Say how often the model is right, beside always giving the most frequent answer, and its commonest mistake."""
    said = []
    for panel in classified(table):
        rows = panel.table
        right = float(rows["correct"].astype(float).mean())
        frequent = rows["gold"].astype(str).value_counts()
        always = float(frequent.iloc[0]) / len(rows)
        than = "as many as" if right == always else f"{'more' if right > always else 'fewer'} than"
        count = f"{int(rows['correct'].astype(bool).sum())} of {len(rows)} answers are right ({percent(right)})"
        said.append(said_of(panel, table, f"{count}, {than} if all were “{frequent.index[0]}” ({percent(always)})."))
        said.append(said_of(panel, table, _commonest(rows)))
    for panel in rated(table):
        off = number(furthest(panel.table)["distance"].mean(), 2)
        said.append(said_of(panel, table, f"answers are {off} from the right number on average."))
    return said


def _commonest(rows: DataFrame) -> str:
    """Say what is mistaken for what most often, or that all answers are the same one."""
    answers = rows["predicted"].astype(str).unique()
    if len(answers) == 1 and len(rows) > 1:
        return f"every answer is “{answers[0]}”."
    wrong = mistakes(rows)
    if wrong.empty:
        return "there is no mistake."
    pairs = wrong.groupby([wrong["gold"].astype(str), wrong["predicted"].astype(str)]).size()
    gold, answer = pairs.idxmax()
    return f"the commonest mistake is “{answer}” for “{gold}” ({int(pairs.max())} of {len(wrong)} mistakes)."


CHAPTER = Chapter(
    analysis="predictions",
    title="Answers",
    source="",
    question="What does the model answer, and where is it wrong?",
    text=(
        "Every example that was tested, its label and the model's answer with its probability. A mistake that the "
        "model is sure of says more than one it wavers over, so those come first."
    ),
    found=found_answers,
    needs_head=True,
    tables=(confusion, distances, most_confident_mistakes, furthest_answers),
)
