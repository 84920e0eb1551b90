"""The report's tables on the structure of attention, against the tables they sum up, and its highlighted texts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from effective_attention.reports import report_structure
from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.grid import NONE
from effective_attention.reports.report import write_report
from effective_attention.reports.report_structure import (
    Piece,
    alignment,
    alignment_and_distance,
    distance,
    entropy,
    highlights,
    parts_of_speech,
    relations,
    relative_entropy,
    variability,
)
from effective_attention.reports.runs import RunResults
from effective_attention.reports.scalars import named_scalars
from helpers.figures import Make, both_weights, stacked


def test_distance_by_layer_the_furthest_and_its_depth(make_tables: Make) -> None:
    table = both_weights(make_tables, "distance", layers=6, heads=4)
    grid = distance(table)
    assert grid.columns[2:8] == list("012345")
    assert grid.groups[1] == ("mean over heads of layer", 6)
    assert [row[:2] for row in grid.rows] == [
        ["MRPC, pretrained", "standard"], ["MRPC, pretrained", "effective"],
        ["MRPC, finetuned", "standard"], ["MRPC, finetuned", "effective"],
    ]  # fmt: skip
    mine = table[(table["checkpoint"] == "runs/x") & (table["attention"] == "effective")]
    means = mine.groupby("layer")["value"].mean()
    assert grid.rows[3][2:8] == [f"{value:.1f}" for value in means]
    assert grid.rows[3][8] == "13.7"
    assert grid.rows[3][9] == f"layer {means.idxmax()} ({means.idxmax() / 5:.2f})"
    spearman = mine["layer"].astype(float).rank().corr(mine["value"].rank())
    assert grid.rows[3][10] == f"{spearman:.2f}"
    assert sum(span for _, span in grid.groups) == len(grid.columns)


def test_entropy_in_nats_and_relative(make_tables: Make) -> None:
    table = make_tables(layers=3, heads=4)["entropy"]
    for grid, statistic, digits in ((entropy(table), "entropy", 2), (relative_entropy(table), "relative", 3)):
        rows = table[(table["statistic"] == statistic) & (table["attention"] == "standard")]
        means = rows.groupby("layer")["value"].mean()
        assert grid.rows[0][2:5] == [f"{value:.{digits}f}" for value in means]
        assert grid.rows[0][5].startswith(f"layer {means.idxmin()} ")
    assert relative_entropy(table[table["statistic"] == "entropy"]).rows == []
    assert variability(make_tables()["variability"]).rows[0][1] == "standard"


def test_alignment_with_what_fixed_rules_reach(make_tables: Make) -> None:
    table = stacked(make_tables, "dependency_alignment", "mrpc", "treebank", layers=6, heads=4)
    grid = alignment(table)
    assert grid.columns[8:11] == ["previous", "next", "random"]
    rows = table[(table["task"] == "treebank") & (table["direction"] == "either")]
    means = rows[rows["attention"] == "standard"].groupby("layer")["value"].mean()
    row = next(row for row in grid.rows if row[:2] == ["Treebank", "standard"])
    assert row[2:8] == [f"{value:.3f}" for value in means]
    assert row[8] == f"{rows.loc[rows['baseline'] == 'previous', 'value'].item():.3f}"
    assert row[11].startswith(f"layer {means.idxmax()} ")


def test_the_best_head_of_each_relation_beside_the_best_rule(make_tables: Make) -> None:
    table = make_tables(layers=3, heads=4)["dependency_alignment"]
    grid = relations(table)
    rows = table[(table["relation"] == "nsubj") & (table["statistic"] == "hits")]
    best = rows[rows["attention"] == "effective"].sort_values("value").iloc[-1]
    rule = (
        rows[(rows["attention"] == "baseline") & (rows["direction"] == best["direction"])].sort_values("value").iloc[-1]
    )
    row = next(row for row in grid.rows if row[1] == "nsubj")
    assert row[2] == "1800"
    looks = "to its head" if best["direction"] == "to_head" else "to its dependent"
    assert row[8:] == [
        f"{best['layer']}.{best['head']}", looks, f"{best['value']:.3f}", f"{rule['value']:.3f} ({rule['baseline']})",
        f"{best['value'] - rule['value']:.3f}",
    ]  # fmt: skip
    assert sum(span for _, span in grid.groups) == len(grid.columns)
    assert relations(table[table["relation"] == "all"]).rows == []


def test_alignment_against_distance_head_by_head(make_tables: Make) -> None:
    aligned = both_weights(make_tables, "dependency_alignment", layers=3, heads=4)
    shares = aligned[(aligned["direction"] == "either") & (aligned["attention"] != "baseline")]
    far = shares.drop(columns=["relation", "direction"]).assign(value=-shares["value"]).sample(frac=1, random_state=0)
    grid = alignment_and_distance({"dependency_alignment": aligned, "distance": far})
    assert [row[:2] for row in grid.rows][::2] == [["MRPC, pretrained", "standard"], ["MRPC, finetuned", "standard"]]
    assert {tuple(row[2:]) for row in grid.rows} == {("-1.00", "-1.00", "12")}
    only = alignment_and_distance({"dependency_alignment": aligned, "distance": far[far["checkpoint"] == ""]})
    assert [row[:2] for row in only.rows] == [["MRPC", "standard"], ["MRPC", "effective"]]
    assert alignment_and_distance({"dependency_alignment": aligned}).rows == []
    constant = alignment_and_distance({"dependency_alignment": aligned, "distance": far.assign(value=1.0)})
    assert {row[2] for row in constant.rows} == {NONE}


def test_parts_of_speech_with_the_head_that_prefers_each(make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)["pos_attention"]
    grid = parts_of_speech(table)
    assert [row[1] for row in grid.rows] == ["to"] * 9 + ["from"] * 9
    row = grid.rows[9]
    rows = table[(table["tag"] == row[2]) & (table["direction"] == "from") & (table["attention"] == "standard")]
    best = rows.loc[rows["value"].idxmax()]
    most = [f"{100 * rows['value'].mean():.1f}", f"{100 * best['value']:.1f}", f"{best['layer']}.{best['head']}"]
    assert row[3:7] == [f"{100 * best['even']:.1f}", *most]


# --- highlighted text ---


def test_every_head_is_shown_by_layer_with_its_exemplars_in_order(make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)["exemplars"]
    standard, effective = highlights(table)
    assert (standard.title, effective.title) == ("MRPC, standard attention", "MRPC, effective attention")
    assert [title for title, _ in standard.layers] == ["Layer 0", "Layer 1"]
    _, passages = standard.layers[1]
    assert [passage.title[:6] for passage in passages] == ["head 0", "head 0", "head 1", "head 1", "head 2", "head 2"]
    rows = table[
        (table["attention"] == "standard") & (table["layer"] == 1) & (table["head"] == 0) & (table["rank"] == 1)
    ]
    assert passages[1].title == f"head 0, weight {rows['score'].iloc[0]:.3f}, example 8"
    text = "".join(piece.text for piece in passages[1].pieces)
    assert text.startswith("[CLS] the new antibiotics cost $5 in <script>alert(1)</script> , he said . [SEP] a second")
    (query,) = [piece for piece in passages[1].pieces if piece.query]
    assert query.text == rows["query_token"].iloc[0].removeprefix("##")
    key = next(piece for piece in passages[1].pieces if piece.level == 5)
    assert key.text == rows["key_token"].iloc[0].removeprefix("##")
    assert key.value == f"{rows['score'].iloc[0]:.3f}"


def test_plain_words_are_one_piece() -> None:
    rows = [("a", 0.0), ("##b", 0.01), ("c", 0.5), ("d", -0.5), ("e", 0.0)]
    table = pd.DataFrame(
        [
            {"layer": 0, "head": 0, "rank": 0, "example": 1, "score": 0.5, "query": 4, "position": place, "token": token,
             "value": value, "special": False}
            for place, (token, value) in enumerate(rows)
        ]
    )  # fmt: skip
    (passage,) = report_structure.passages(table)
    assert report_structure._pieces(passage.words) == [
        Piece("ab "), Piece("c", 5, "0.500"), Piece(" "), Piece("d", -5, "-0.500"), Piece(" "),
        Piece("e", 0, "0.000", query=True),
    ]  # fmt: skip


def test_too_many_for_a_page_leave_the_strongest(make_tables: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_structure, "_MOST_PASSAGES", 8)  # four layers of two attentions: two each
    table = make_tables(layers=2, heads=3)["exemplars"]
    for part, kind in zip(highlights(table), ("standard", "effective"), strict=True):
        for layer, (_, passages) in enumerate(part.layers):
            rows = table[(table["attention"] == kind) & (table["layer"] == layer) & (table["rank"] == 0)]
            scores = rows.drop_duplicates("head")["score"].nlargest(2)
            assert {passage.title.split()[3].rstrip(",") for passage in passages} == {
                f"{score:.3f}" for score in scores
            }


def test_highlighted_text_stays_text(make_tables: Make, make_facts: Make, tmp_path: Path) -> None:
    table = make_tables()["exemplars"].replace({"token": {"new": "<img src=x onerror=alert(1)>"}})
    write_report(tmp_path / "report.html", [RunResults(make_facts(), {"exemplars": table})])
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<img src=x" not in html
    assert html.count("<script>") == 1
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert len(re.findall(r'<details class="texts (?:standard|effective)">', html)) == 2
    marks = re.findall(r'<mark class="w(-?\d)" title="([^"]+)">', html)
    assert {int(level) for level, _ in marks} <= set(range(-5, 6)) - {0}
    for level, _ in marks:
        assert f".passage .w{level} {{" in html  # every level has its colour


def contrast(first: np.ndarray, second: np.ndarray) -> float:
    def luminance(colour: np.ndarray) -> float:
        part = colour / 255
        linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_marked_words_can_be_read_in_both_schemes() -> None:
    """WCAG AA at full strength; weaker backgrounds lie between that and the page, where text is readable too."""
    css = (Path(report_structure.__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
    schemes = re.findall(r"--ink: (#\w+);[^}]*?--greens: ([\d ]+); --blues: ([\d ]+); --oranges: ([\d ]+);", css)
    assert len(schemes) == 3  # light, the system's dark, the button's dark
    for ink, *heats in schemes:
        text = np.array([int(ink[place : place + 2], 16) for place in (1, 3, 5)], dtype=float)
        for heat in heats:
            assert contrast(text, np.array(heat.split(), dtype=float)) >= 4.5


# --- numbers for a dashboard ---


def test_layer_means_of_distance_and_alignment_are_named(make_tables: Make) -> None:
    tables = make_tables(layers=2, heads=3)
    scalars = named_scalars({name: tables[name] for name in ("distance", "dependency_alignment")}, CHAPTERS)
    kinds = [f"{kind}/layer_0{layer}" for kind in ("standard", "effective") for layer in (0, 1)]
    assert list(scalars) == [f"{name}/{kind}" for name in ("distance", "alignment") for kind in kinds]
    rows = tables["dependency_alignment"]
    mine = rows[(rows["direction"] == "either") & (rows["attention"] == "effective") & (rows["layer"] == 1)]
    assert scalars["alignment/effective/layer_01"] == pytest.approx(mine["value"].mean())
