"""What each chapter says was found: the sentence must turn when the numbers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from effective_attention.reports.chapters import CHAPTERS
from helpers.figures import Make, stacked

Table = pd.DataFrame
Case = tuple[Callable[[Table], Table], str]


def both(standard: float, effective: float, **where: str) -> Callable[[Table], Table]:
    """Set the value of standard and of effective attention, in rows that are so."""

    def change(table: Table) -> Table:
        chosen = pd.Series(True, index=table.index)
        for name, value in where.items():
            chosen &= table[name] == value
        value = table["value"].astype(float)
        for kind, number in (("standard", standard), ("effective", effective)):
            value = value.mask(chosen & (table["attention"] == kind), number)
        return table.assign(value=value)

    return change


def everything_identified(table: Table) -> Table:
    return table.assign(identified=table["identified"].where(table["quantity"] != "weight", 1.0))


def nothing_necessary(table: Table) -> Table:
    return table.assign(low=table["low"].where(table["quantity"] != "row", 0.0))


def timed(ratio: float, low: float, high: float) -> Callable[[Table], Table]:
    def change(table: Table) -> Table:
        mine = table["attention"] == "effective"
        numbers = {"ratio": ratio, "ratio_low": low, "ratio_high": high}
        return table.assign(**{name: table[name].mask(mine, number) for name, number in numbers.items()})

    return change


def by_layer(start: float, step: float) -> Callable[[Table], Table]:
    return lambda table: table.assign(value=start + step * table["layer"].astype(float))


def where(condition: Callable[[Table], Any], value: float, column: str = "value") -> Callable[[Table], Table]:
    return lambda table: table.assign(**{column: table[column].astype(float).mask(condition(table), value)})


def swapped_candidates(table: Table) -> Table:
    other = table["name"].map({"his": "her", "her": "his"})
    return table.assign(name=table["name"].mask(table["quantity"] != "attention", other))


def always(table: Table) -> pd.Series:
    return pd.Series(True, index=table.index)


def as_it_is(table: Table) -> Table:
    return table


def of_method(name: str, value: float) -> Callable[[Table], Table]:
    return where(lambda table: (table["method"] == name) & table["measure"].str.startswith("spearman"), value)


def of_their_code(table: Table) -> pd.Series:
    way = (table["gradient"] == "sum") & (table["query"] == "max") & (table["ties"] == "dense") & table["delimiters"]
    return way & (table["method"] == "rollout - raw")


def flips(value: float) -> Callable[[Table], Table]:
    return where(lambda table: table["quantity"] == "flips", value)


FLIPS: dict[str, list[Case]] = {
    "timing": [
        (timed(1.3, 1.2, 1.4), "Effective attention takes longer than standard: 1.30 times (quartiles 1.20 to 1.40)."),
        (timed(0.8, 0.7, 0.9), "takes less time than standard: 0.80 times"),
        (timed(1.1, 0.9, 1.2), "takes about as long as standard"),
        (where(lambda table: table["ratio"] > 0, np.nan, "ratio"), "No times: fewer than five batches were timed."),
    ],
    "patterns": [
        (both(0.5, 0.1, pattern="vertical"), "vertical maps are fewer: 50.0 → 10.0 %."),
        (both(0.1, 0.5, pattern="vertical"), "vertical maps are more: 10.0 → 50.0 %."),
    ],
    "token_types": [
        (both(0.12, 0.03, token_type="sep"), "Under effective attention [SEP] gets less weight: 0.120 → 0.030."),
        (both(0.03, 0.12, token_type="sep"), "[SEP] gets more weight: 0.030 → 0.120."),
        (both(0.12, 0.1203, token_type="sep"), "[SEP] gets as much weight: 0.120 → 0.120."),
    ],
    "delimiters": [
        (both(0.3, 0.01, delimiter="cls"), "[CLS] gets less weight: 0.300 → 0.010."),
        (both(0.01, 0.3, delimiter="cls"), "[CLS] gets more weight: 0.010 → 0.300."),
    ],
    "finetuning_shift": [
        (by_layer(1, -0.1), "Layers 1 (cosine 0.900) and 2 (cosine 0.800), the last two, change most under standard"),
        (
            by_layer(0.5, 0.1),
            "Layers 0 (cosine 0.500) and 1 (cosine 0.600), not the last two, change most under standard",
        ),
    ],
    "null_space": [
        (as_it_is, "90 % of the examples have a null space"),
        (where(lambda table: table["quantity"] == "nontrivial", 0.0), "No example has a null space"),
    ],
    "head_ablation": [
        (where(lambda table: table["head"] == 0, -0.2, "change"), "the largest loss is 0.200 (layer 0, head 0)."),
        (where(lambda table: table["change"] < 9, 0.0, "change"), "no single head is needed."),
    ],
    "explain": [
        (as_it_is, "predicted yes, probability 0.875 (the right answer is yes). Both checks beat chance"),
        (where(always, 3, "sufficiency_beaten"), "One check beats chance: without these words more is lost"),
        (where(always, 3, "comprehensiveness_beaten"), "One check beats chance: with these words alone less is lost"),
    ],
    "heatmap": [
        (as_it_is, "of the attention (‖null part‖ / ‖attention‖) does not reach the output"),
        (as_it_is, "The sparse map, with the same output, has at most 2 of 9 weights a row ("),
        (
            lambda table: where(lambda rows: rows["attention"] == "sparse", 0.25)(
                where(lambda rows: rows["attention"] == "standard", 0.5)(table)
            ),
            "“[CLS]” gets on average: standard 0.500, effective ",
        ),
        (
            lambda table: where(lambda rows: rows["attention"] == "sparse", 0.25)(table),
            "has at most 9 of 9 weights a row (9.0 on average)",
        ),
        (
            where(lambda table: table["attention"] == "null", 0.0),
            "Layer 1, head 2, 9 tokens: no null part, every weight reaches the output.",
        ),
    ],
    "faithfulness": [
        (lambda table: of_method("rollout", 0.9)(of_method("raw", 0.1)(table)), "raw 0.10; rollout is closer (0.90)"),
        (
            lambda table: of_method("rollout", 0.1)(of_method("raw", 0.9)(table)),
            "raw 0.90; rollout is no closer (0.10)",
        ),
    ],
    "protocols": [
        (as_it_is, "Standard attention, last layer: rollout > raw surely by all 24 protocols"),
        (as_it_is, "flow > raw surely by 0 of 24 protocols, surely not by 0; flow > rollout surely not by any of 24"),
        (
            where(lambda table: table["delimiters"] & (table["method"] == "rollout - raw"), -0.2, "low"),
            "rollout > raw surely by 12 of 24 protocols, surely not by 0",
        ),
        (
            lambda table: where(of_their_code, -0.5, "low")(where(of_their_code, -0.2, "high")(table)),
            "with gradients the presets disagree: rollout > raw surely by ours, surely not by the paper's code.",
        ),
    ],
    "attention_graph": [
        (where(lambda table: table["method"] == "flow", 0.0), "standard attention rollout is more focused than flow"),
        (where(lambda table: table["method"] == "rollout", 0.0), "attention rollout is no more focused than flow"),
    ],
    "number_flip": [
        (flips(0.75), "the subject exchanged the answer flips in 75 % of those answered rightly (as it should)"),
        (flips(0.5), "in 50 % of those answered rightly (though it should not) and in 50 % of those"),
        (where(lambda table: table["quantity"] == "spearman", 0.5, "low"), ", more than even attention (0.10)"),
        (where(lambda table: table["quantity"] == "spearman", -0.5, "low"), "not told apart from even attention"),
    ],
    "pronouns": [
        (as_it_is, "The model prefers “her” (75 % of the candidates' probability)."),
        (swapped_candidates, "The model prefers “his” (75 % of the candidates' probability)."),
    ],
    "identified": [
        (as_it_is, "60 % of a head's attention is identified by its output"),
        (everything_identified, "All attention is identified: no text"),
        (as_it_is, "Best identified by type of token: [CLS] 90 %"),
        (as_it_is, "2 of 9 tokens are necessary"),
        (nothing_necessary, "0 of 9 tokens are necessary: no"),
    ],
    "sinks": [
        (
            as_it_is,
            "In 75 % of cases (a head on a text) a token is a sink; the token that receives most is mostly [CLS] (90",
        ),
        (as_it_is, "The strongest token receives 0.500 of a head's attention, 0.040 of effective attention"),
        (as_it_is, "could be anything from 0.450 to 0.550: effective attention's 0.040 lies outside that."),
        (both(0.5, 0.5), "effective attention's 0.500 lies inside that."),
        (as_it_is, "No effective weight exceeds its bound"),
        (where(lambda table: table["quantity"] == "excess", 0.2), "exceeds its bound by 0.200: that should not be."),
        (as_it_is, "agrees with that by norms: rank correlation standard 0.90, effective 0.60 and affine 0.40"),
    ],
    "alternative_attention": [
        (
            where(lambda table: table["quantity"] == "distance", 0.25),
            "25 % of a token's attention in layer 0, head 1 can",
        ),
        (where(lambda table: table["quantity"] == "distance", 0.0), "None of the attention of layer 0, head 1 can be"),
    ],
    "token_type_profile": [
        (both(0.6, 0.1, source="all", target="sep"), "[SEP] gets less weight: 0.600 → 0.100."),
        (both(0.1, 0.6, source="all", target="sep"), "[SEP] gets more weight: 0.100 → 0.600."),
    ],
    "token_identity": [
        (where(lambda table: table["map"] == "linear", 0.93), "linear by cosine 93 % in layer 0, 93 % in layer 2"),
        (where(lambda table: table["map"] == "linear", 0.1), "linear by cosine 10 % in layer 0, 10 % in layer 2"),
    ],
    "token_mixing": [
        (by_layer(0.5, -0.1), "A token's own contribution falls: median 50.0 % after layer 0, 30.0 % after layer 2."),
        (by_layer(0.1, 0.1), "A token's own contribution does not fall: median 10.0 % after layer 0, 30.0 %"),
    ],
    "distance": [
        (by_layer(1, 1), "Attention reaches furthest in layer 2, the last under standard attention (3.0)"),
        (by_layer(9, -1), "Attention reaches furthest in layer 0, the first under standard attention (9.0)"),
        (both(2, 5), "Under effective attention a token reaches further: 2.0 → 5.0 tokens on average."),
        (both(5, 2), "Under effective attention a token reaches less far: 5.0 → 2.0 tokens on average."),
    ],
    "entropy": [
        (by_layer(0.1, 0.1), "Attention is most focused in layer 0, the first under standard attention (0.100)"),
        (by_layer(0.9, -0.1), "Attention is most focused in layer 2, the last under standard attention (0.700)"),
        (both(0.4, 0.8), "a token's attention is spread more broadly: 0.400 → 0.800"),
        (both(0.8, 0.4), "a token's attention is more focused: 0.800 → 0.400"),
    ],
    "variability": [
        (by_layer(0.1, 0.1), "Attention varies most with the text in layer 2, the last"),
        (both(0.4, 0.2), "a head depends less on content: 0.400 → 0.200"),
        (both(0.2, 0.4), "a head depends more on content: 0.200 → 0.400"),
    ],
    "pos_attention": [
        (lambda table: table.assign(value=table["even"] + 0.2), "Standard attention: layer 0, head 0 prefers"),
        (lambda table: table.assign(value=table["even"] - 0.001), "No head gives a part of speech more than even"),
    ],
    "dependency_alignment": [
        (lambda table: table.assign(value=0.999), "the best layer's mean (100 %) is more than"),
        (lambda table: table.assign(value=0.0), "the best layer's mean (0 %) is no more than"),
        (lambda table: table.assign(value=0.0), "a head beats the fixed rules for 0 of"),
    ],
    "exemplars": [
        (where(lambda table: table["layer"] == 0, 2.0, "score"), "the largest weight is 2.000, of layer 0, head"),
        (where(lambda table: table["layer"] == 2, 2.0, "score"), "the largest weight is 2.000, of layer 2, head"),
    ],
    "explorer": [
        (lambda table: table.assign(label="yes"), "The text shown: the answer is “yes” (0.750)."),
        (lambda table: table.assign(label="no"), "The text shown: the answer is “no” (0.750)."),
    ],
}
CASES = [(name, *case) for name, cases in FLIPS.items() for case in cases]


def made_up(analysis: str, make: Make) -> Table:
    tables = make(layers=3, heads=2)
    if analysis == "explorer":
        return tables["timing"].head(1).assign(side=0, name="", tokens=9, label="", value=0.75)
    return tables[analysis]


def found(analysis: str, table: Table) -> str:
    return " ".join(next(chapter for chapter in CHAPTERS if chapter.analysis == analysis).found(table))


@pytest.mark.parametrize(("analysis", "change", "expected"), CASES, ids=[f"{one[0]}-{one[2][:40]}" for one in CASES])
def test_the_sentence_turns_with_the_numbers(
    analysis: str, change: Callable[[Table], Table], expected: str, make_tables: Make
) -> None:
    table = made_up(analysis, make_tables)
    before = table.copy()
    assert expected in found(analysis, change(table))
    pd.testing.assert_frame_equal(table, before)


def test_every_chapter_asks_a_question_and_has_such_a_test() -> None:
    for chapter in CHAPTERS:
        assert chapter.question.endswith("?"), chapter.analysis
        assert chapter.source, chapter.analysis
        assert len(FLIPS[chapter.analysis]) > 1, chapter.analysis


@pytest.mark.parametrize("analysis", [name for name in FLIPS if name not in ("explorer", "pronouns")])
def test_of_several_tasks_each_is_named(analysis: str, make_tables: Make) -> None:
    said = found(analysis, stacked(make_tables, analysis, "rte", "mrpc", layers=3, heads=2))
    assert "RTE" in said
    assert "MRPC" in said


def test_methods_are_told_apart_only_by_their_intervals(make_tables: Make) -> None:
    table = made_up("faithfulness", make_tables)
    asked = table["measure"] == "comprehensiveness"
    best = asked & (table["method"] == "blank_out")
    wide = table.assign(value=table["value"].mask(best, 2.0), low=-9.0, high=9.0)
    assert "most comprehensive is blank-out: 2.000 [-9.000, 9.000]" in found("faithfulness", wide).lower()
    assert "not told apart by their intervals" in found("faithfulness", wide)
    narrow = wide.assign(low=wide["value"] - 1e-3, high=wide["value"] + 1e-3)
    assert "not told apart" not in found("faithfulness", narrow)
