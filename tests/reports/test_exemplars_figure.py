"""The figure of exemplars: which texts, which words, and how they are set."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from effective_attention.reports.figures.exemplars import passages, readable, strongest
from helpers.figures import FIGURES, Make, can_draw, plots
from helpers.structure_tables import TEXT, exemplars, signed

FRONT = {"task": "mrpc", "model": "m", "data": "local", "split": "validation", "checkpoint": "", "examples": 408}


def test_pieces_are_glued_whatever_the_vocabulary() -> None:
    assert readable(["##ed", "anti", "##bio", "##"]) == [("##ed", False), ("anti", False), ("bio", True), ("##", False)]
    g = "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}"
    assert readable(["Aus", "SAR", f"{g}is", g]) == [("Aus", False), ("SAR", True), ("is", False), (g, False)]


def test_each_layer_has_its_strongest_exemplar(make_tables: Make) -> None:
    table = make_tables(layers=4, heads=5)["exemplars"]
    mine = table[table["attention"] == "standard"]
    found = strongest(passages(mine))
    assert [passage.layer for passage in found] == [0, 1, 2, 3]
    np.testing.assert_allclose([passage.score for passage in found], mine.groupby("layer")["score"].max())
    said = [text.get_text() for text in plots(FIGURES["exemplars"](table))[0].texts]
    assert said[0] == "MRPC, standard attention"
    for passage in found:
        assert f"layer {passage.layer}, head {passage.head}: {passage.score:.2f}" in said


def boxes(figure: Figure) -> list[Rectangle]:
    return [patch for patch in plots(figure)[0].patches if isinstance(patch, Rectangle)]


def test_the_query_is_boxed_and_the_key_is_darkest() -> None:
    body = pd.DataFrame(exemplars(np.random.default_rng(0), 1, 1, top=1))
    figure = FIGURES["exemplars"](signed(body, FRONT))
    (passage,) = passages(body[body["attention"] == "standard"])
    words = [text for text in plots(figure)[0].texts if text.get_text() in {word.text for word in passage.words}]
    framed = [box for box in boxes(figure) if to_hex(box.get_edgecolor(), keep_alpha=True) == "#000000ff"]
    (query,) = framed
    first = body.iloc[0]
    near = min(
        words, key=lambda text: np.hypot(text.get_position()[0] - query.get_x(), text.get_position()[1] - query.get_y())
    )
    assert near.get_text() == first["query_token"].removeprefix("##")
    assert [word.text for word in passage.words if word.query] == [first["query_token"].removeprefix("##")]
    strongest_word = max(passage.words, key=lambda word: word.strength)
    assert strongest_word.text == first["key_token"].removeprefix("##")
    assert strongest_word.strength == 1.0
    assert strongest_word.value == first["score"]


def test_weights_below_zero_are_orange_and_special_tokens_do_not_set_the_scale() -> None:
    rows = [
        {"attention": "effective", "layer": 0, "head": 0, "rank": 0, "example": 3, "query": 1, "key": 2, "query_token": "a",
         "key_token": "b", "score": 0.4, "position": place, "token": token, "value": value, "special": token == "[CLS]"}
        for place, (token, value) in enumerate([("[CLS]", 0.9), ("a", 0.0), ("b", 0.4), ("c", -0.2)])
    ]  # fmt: skip
    table = signed(pd.DataFrame(rows), FRONT)
    (passage,) = passages(table)
    assert [word.strength for word in passage.words] == [1.0, 0.0, 1.0, -0.5]
    red, _, blue, _ = boxes(FIGURES["exemplars_effective"](table))[-1].get_facecolor()
    assert red > blue
    assert can_draw("exemplars_effective", table)
    assert not can_draw("exemplars", table)


def test_long_texts_keep_the_lines_that_matter_and_stay_within_the_figure() -> None:
    tokens = [f"w{place}" + "x" * (place % 40) for place in range(200)]
    body = pd.DataFrame(exemplars(np.random.default_rng(1), 2, 1, tokens=tokens, top=1))
    figure = FIGURES["exemplars"](signed(body, FRONT))
    axes = plots(figure)[0]
    said = [text.get_text() for text in axes.texts]
    assert "…" in said
    assert (
        len({text.get_position()[1] for text in axes.texts}) <= 2 * 5 + 1
    )  # a title, and of each text a label and four lines
    rights = [box.get_x() + box.get_width() for box in boxes(figure)]
    assert max(rights) < axes.get_xlim()[1]
    for passage in strongest(passages(body[body["attention"] == "standard"])):
        shown = [word.text[:20] for word in passage.words if word.query or word.strength == 1.0]
        assert all(any(text.startswith(word) for text in said) for word in shown)


def test_of_several_seeds_the_first_is_shown() -> None:
    random = np.random.default_rng(0)
    bodies = [pd.DataFrame(exemplars(random, 1, 1, top=1)).assign(run=run) for run in (0, 1)]
    both = pd.concat(bodies, ignore_index=True)
    (passage,) = passages(both[both["attention"] == "standard"])
    assert len(passage.words) == len(TEXT)
    assert passage.score == bodies[0]["score"].iloc[0]
