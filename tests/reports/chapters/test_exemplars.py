"""What induces a head: which texts, which words, how the figure sets them, and the highlighted texts of the page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from effective_attention.reports import report
from effective_attention.reports.chapter import Piece
from effective_attention.reports.chapters.exemplars import texts
from effective_attention.reports.chapters.exemplars.reductions import exemplar_texts, readable, strongest
from effective_attention.reports.chapters.exemplars.texts import highlights, pieces
from effective_attention.reports.report import write_report
from effective_attention.reports.runs import RunResults
from helpers.fake_c import TEXT, exemplars
from helpers.fakes import with_facts
from helpers.figures import FIGURES, Make, can_draw, plots
from helpers.schema_tables import FRONT, axes_of


def test_pieces_are_glued_whatever_the_vocabulary() -> None:
    assert readable(["##ed", "anti", "##bio", "##"]) == [("##ed", False), ("anti", False), ("bio", True), ("##", False)]
    g = "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}"
    assert readable(["Aus", "SAR", f"{g}is", g]) == [
        ("Aus", False),
        ("SAR", True),
        ("is", False),
        ("\N{LOWER ONE EIGHTH BLOCK}", False),
    ]


def test_letters_that_stand_for_bytes_are_spelt_out() -> None:
    """Byte-level vocabularies alone: elsewhere such letters are what was written."""
    g = "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}"
    dash, half = "\u00e2\u0122\u0135", "\u00e2\u0122"  # the three bytes of a dash, and two of them
    assert [text for text, _ in readable([f"{g}1934", f"{g}{dash}", f"{g}37"])] == ["1934", "\N{EN DASH}", "37"]
    assert [text for text, _ in readable([f"{g}a", half])] == ["a", half]
    assert [text for text, _ in readable(["\N{LOWER ONE EIGHTH BLOCK}a", dash])] == ["a", dash]
    assert [text for text, _ in readable(["a", dash])] == ["a", dash]


def test_each_layer_has_its_strongest_exemplar(make_tables: Make) -> None:
    table = make_tables(layers=4, heads=5)["exemplars"]
    mine = table[table["attention"] == "standard"]
    found = strongest(exemplar_texts(mine))
    assert [exemplar.layer for exemplar in found] == [0, 1, 2, 3]
    np.testing.assert_allclose([exemplar.score for exemplar in found], mine.groupby("layer")["score"].max())
    said = [text.get_text() for text in plots(FIGURES["exemplars"](table))[0].texts]
    assert said[0] == "MRPC, standard attention"
    for exemplar in found:
        assert f"layer {exemplar.layer}, head {exemplar.head}: {exemplar.score:.2f}" in said


def boxes(figure: Figure) -> list[Rectangle]:
    return [patch for patch in plots(figure)[0].patches if isinstance(patch, Rectangle)]


def test_the_query_is_boxed_and_the_key_is_darkest() -> None:
    body = exemplars(np.random.default_rng(0), axes_of(1, 1), top=1)
    figure = FIGURES["exemplars"](with_facts(body, FRONT))
    (exemplar,) = exemplar_texts(body[body["attention"] == "standard"])
    words = [text for text in plots(figure)[0].texts if text.get_text() in {word.text for word in exemplar.words}]
    framed = [box for box in boxes(figure) if to_hex(box.get_edgecolor(), keep_alpha=True) == "#000000ff"]
    (query,) = framed
    first = body.iloc[0]
    near = min(
        words, key=lambda text: np.hypot(text.get_position()[0] - query.get_x(), text.get_position()[1] - query.get_y())
    )
    assert near.get_text() == first["query_token"].removeprefix("##")
    assert [word.text for word in exemplar.words if word.query] == [first["query_token"].removeprefix("##")]
    strongest_word = max(exemplar.words, key=lambda word: word.strength)
    assert strongest_word.text == first["key_token"].removeprefix("##")
    assert strongest_word.strength == 1.0
    assert strongest_word.value == first["score"]


def test_weights_below_zero_are_orange_and_special_tokens_do_not_set_the_scale() -> None:
    rows = [
        {"attention": "effective", "layer": 0, "head": 0, "rank": 0, "example": 3, "query": 1, "key": 2,
         "query_token": "a", "key_token": "b", "score": 0.4, "position": place, "token": token, "value": value,
         "special": token == "[CLS]"}
        for place, (token, value) in enumerate([("[CLS]", 0.9), ("a", 0.0), ("b", 0.4), ("c", -0.2)])
    ]  # fmt: skip
    table = with_facts(pd.DataFrame(rows), FRONT)
    (exemplar,) = exemplar_texts(table)
    assert [word.strength for word in exemplar.words] == [1.0, 0.0, 1.0, -0.5]
    red, _, blue, _ = boxes(FIGURES["exemplars_effective"](table))[-1].get_facecolor()
    assert red > blue
    assert can_draw("exemplars_effective", table)
    assert not can_draw("exemplars", table)


def test_long_texts_keep_the_lines_that_matter_and_stay_within_the_figure() -> None:
    tokens = tuple(f"w{place}" + "x" * (place % 40) for place in range(200))
    body = exemplars(np.random.default_rng(1), axes_of(2, 1), tokens=tokens, top=1)
    figure = FIGURES["exemplars"](with_facts(body, FRONT))
    axes = plots(figure)[0]
    said = [text.get_text() for text in axes.texts]
    assert "…" in said
    assert (
        len({text.get_position()[1] for text in axes.texts}) <= 2 * 5 + 1
    )  # a title, and of each text a label and four lines
    rights = [box.get_x() + box.get_width() for box in boxes(figure)]
    assert max(rights) < axes.get_xlim()[1]
    for exemplar in strongest(exemplar_texts(body[body["attention"] == "standard"])):
        shown = [word.text[:20] for word in exemplar.words if word.query or word.strength == 1.0]
        assert all(any(text.startswith(word) for text in said) for word in shown)


def test_of_several_seeds_the_first_is_shown() -> None:
    random = np.random.default_rng(0)
    bodies = [exemplars(random, axes_of(1, 1), top=1).assign(run=run) for run in (0, 1)]
    both = pd.concat(bodies, ignore_index=True)
    (exemplar,) = exemplar_texts(both[both["attention"] == "standard"])
    assert len(exemplar.words) == len(TEXT)
    assert exemplar.score == bodies[0]["score"].iloc[0]


# --- highlighted text ---


def test_every_head_is_shown_by_layer_with_its_exemplars_in_order(make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)["exemplars"]
    standard, effective = highlights(table)
    assert (standard.title, effective.title) == ("MRPC, standard attention", "MRPC, effective attention")
    assert [title for title, _ in standard.layers] == ["Layer 0", "Layer 1"]
    _, shown = standard.layers[1]
    assert [exemplar.title[:6] for exemplar in shown] == ["head 0", "head 0", "head 1", "head 1", "head 2", "head 2"]
    rows = table[
        (table["attention"] == "standard") & (table["layer"] == 1) & (table["head"] == 0) & (table["rank"] == 1)
    ]
    assert shown[1].title == f"head 0, weight {rows['score'].iloc[0]:.3f}, example 8"
    text = "".join(piece.text for piece in shown[1].pieces)
    assert text.startswith("[CLS] the new antibiotics cost $5 in <script>alert(1)</script> , he said . [SEP] a second")
    (query,) = [piece for piece in shown[1].pieces if piece.query]
    assert query.text == rows["query_token"].iloc[0].removeprefix("##")
    key = next(piece for piece in shown[1].pieces if piece.level == 5)
    assert key.text == rows["key_token"].iloc[0].removeprefix("##")
    assert key.value == f"{rows['score'].iloc[0]:.3f}"


def test_plain_words_are_one_piece() -> None:
    rows = [("a", 0.0), ("##b", 0.01), ("c", 0.5), ("d", -0.5), ("e", 0.0)]
    table = pd.DataFrame(
        [
            {"layer": 0, "head": 0, "rank": 0, "example": 1, "score": 0.5, "query": 4, "position": place,
             "token": token, "value": value, "special": False}
            for place, (token, value) in enumerate(rows)
        ]
    )  # fmt: skip
    (exemplar,) = exemplar_texts(table)
    assert pieces(exemplar.words) == [
        Piece("ab "), Piece("c", 5, "0.500"), Piece(" "), Piece("d", -5, "-0.500"), Piece(" "),
        Piece("e", 0, "0.000", query=True),
    ]  # fmt: skip


def test_too_many_for_a_page_leave_the_strongest(make_tables: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_MOST_TEXTS", 8)  # four layers of two attentions: two each
    table = make_tables(layers=2, heads=3)["exemplars"]
    for part, kind in zip(highlights(table), ("standard", "effective"), strict=True):
        for layer, (_, shown) in enumerate(part.layers):
            rows = table[(table["attention"] == kind) & (table["layer"] == layer) & (table["rank"] == 0)]
            scores = rows.drop_duplicates("head")["score"].nlargest(2)
            assert {exemplar.title.split()[3].rstrip(",") for exemplar in shown} == {f"{score:.3f}" for score in scores}


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
    css = (Path(report.__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
    schemes = re.findall(r"--ink: (#\w+);[^}]*?--greens: ([\d ]+); --blues: ([\d ]+); --oranges: ([\d ]+);", css)
    assert len(schemes) == 3  # light, the system's dark, the button's dark
    for ink, *heats in schemes:
        text = np.array([int(ink[place : place + 2], 16) for place in (1, 3, 5)], dtype=float)
        for heat in heats:
            assert contrast(text, np.array(heat.split(), dtype=float)) >= 4.5
