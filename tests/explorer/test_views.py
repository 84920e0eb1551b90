"""The explorer's other views in headless Chromium: each draws, answers to pointer and keys, and agrees with Python."""

from __future__ import annotations

import dataclasses
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from effective_attention.explorer.page import build_page
from effective_attention.graphs.conventions import signed_to_weights
from effective_attention.graphs.rollout import attention_rollout
from helpers import browser as explorer_browser
from helpers.browser import (
    HEADS,
    LAYERS,
    TOKENS,
    change,
    colours,
    one,
    opened,
    pointed,
    readout,
    settle,
    state,
    text_of,
    walked,
    whole,
)


def tip(page: Any) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('#tip .row b')].map((number) => number.textContent)")


def test_heads_say_each_heads_weight(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heads&part=effective&layer=1") as page:
        assert colours(page) > 20
        box = page.locator(".pane canvas").bounding_box()
        weights = whole(one(), "effective", 1)
        page.mouse.click(box["x"] + 20, box["y"] + 130)  # a query, held
        query = state(page)["query"]
        strongest = sorted(
            (abs(int(weights[head, query, key])), head, key) for head in range(HEADS) for key in range(len(TOKENS))
        )[-1]
        said = readout(settle(page))
        assert (said["value"], int(said["head"]), int(said["key"])) == (
            text_of(weights[strongest[1], query, strongest[2]]),
            *strongest[1:],
        )
        page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 60)  # a key
        key = int(readout(settle(page))["key"])
        assert tip(page) == [text_of(weights[head, query, key]).replace("-", "\u2212") for head in range(HEADS)]
        assert readout(page)["value"] == text_of(weights[0, query, key])


def test_heads_are_turned_on_and_off(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path) as page:
        every = page.locator(".pane canvas").screenshot()
        page.click("[data-head='1']")
        assert state(page)["heads"] == [0, 2]
        assert page.get_attribute("[data-head='1']", "aria-pressed") == "false"
        assert page.locator(".pane canvas").screenshot() != every
        page.dblclick("[data-head='2']")
        assert state(page)["heads"] == [2]
        page.click("[data-head='0']", modifiers=["Alt"])
        assert state(page)["heads"] == [0]
        page.click("[data-head='0']")
        assert "No head is chosen" in settle(page).inner_text(".message")
        page.keyboard.press("ArrowRight")  # going to a head shows it alone
        assert state(page)["heads"] == [1]
        page.keyboard.press("a")
        page.mouse.move(2, 2)
        assert settle(page).locator(".pane canvas").screenshot() == every


def test_heads_by_keyboard(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heads&heads=1") as page:
        page.focus(".scroll")
        for _ in range(3):
            page.keyboard.press("ArrowDown")
            settle(page)
        assert readout(page)["text"].startswith("from fox")
        assert readout(page)["query"] == "2"
        page.keyboard.press("ArrowRight")
        assert readout(settle(page))["text"].startswith("to ")


def test_model_tells_the_head_and_opens_it(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=model") as page:
        assert colours(page) > 20
        page.hover(".pane canvas", position={"x": 600, "y": 420})
        said = readout(settle(page))
        assert f"layer {said['layer']}, head {said['head']}" in page.inner_text("#tip")
        assert page.locator("#tip canvas").count() == 1
        page.click(".pane canvas", position={"x": 600, "y": 420})
        settle(page)
        assert (state(page)["view"], state(page)["layer"], state(page)["head"]) == (
            "heatmap",
            int(said["layer"]),
            int(said["head"]),
        )
        change(page, view="model", layer=0, head=0)
        page.focus(".scroll")
        for key in ("ArrowRight", "ArrowDown", "Enter"):
            page.keyboard.press(key)
            settle(page)
        assert (state(page)["view"], state(page)["layer"], state(page)["head"]) == ("heatmap", 1, 1)


def test_model_has_a_thumbnail_of_every_head(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=model&part=null") as page:
        told = {(int(said["layer"]), int(said["head"])) for said in pointed(page, 14, 6)}
        assert told == set(product(range(LAYERS), range(HEADS)))


def rounded_score(query: int, key: int, *, layer: int, head: int) -> float:
    side = one()
    assert side.query is not None
    assert side.key is not None
    return float(np.rint(side.query[layer][head, query] * 100) @ np.rint(side.key[layer][head, key] * 100) / 1e4 * 0.5)


def test_a_thin_line_survives_in_a_thumbnail_smaller_than_its_matrix(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "next", "view=model", width=390) as page:
        blue = page.evaluate(
            """() => {
              const canvas = document.querySelector(".pane canvas");
              const { data } = canvas.getContext("2d").getImageData(30, 40, canvas.width - 30, canvas.height - 40);
              let count = 0;
              for (let at = 0; at < data.length; at += 4) count += data[at + 2] - data[at] > 40 ? 1 : 0;
              return count;
            }"""
        )
        assert blue > 12 * LAYERS * 15  # a diagonal in each of them


def test_neuron_scores_are_query_times_key(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=neuron&part=effective&layer=1&head=2") as page:
        assert colours(page) > 20
        page.select_option("#query", "3")
        page.select_option("#key", "4")
        said = readout(settle(page))
        assert said["value"] == text_of(whole(one(), "effective", 1)[2, 3, 4])
        (score,) = re.findall(r"score ≈ (\S+)", said["text"])
        assert float(score.replace("\u2212", "-")) == pytest.approx(rounded_score(3, 4, layer=1, head=2), abs=0.00501)
        page.select_option("#key", "")
        assert state(page)["key"] is None
        box = page.locator(".pane canvas").bounding_box()
        page.mouse.click(box["x"] + 10, box["y"] + 240)  # a token of the left column: its query
        chosen = state(page)["query"]
        assert page.input_value("#query") == str(chosen)
        page.mouse.click(box["x"] + 300, box["y"] + 240)  # the same row on the right: its key
        assert state(page)["key"] == chosen


def another(chromium: Any, tmp_path: Path, hash_: str, **changes: Any) -> Any:
    path = tmp_path / "another.html"
    path.write_text(build_page([dataclasses.replace(one(), **changes)], title="another"), encoding="utf-8")
    page = chromium.new_page()
    page.goto(f"{path.as_uri()}#{hash_}")
    page.evaluate("explorer.ready.then(() => null)")
    return page


def test_neuron_without_queries_says_so(chromium: Any, tmp_path: Path) -> None:
    page = another(chromium, tmp_path, "view=neuron", query=None, key=None)
    assert page.inner_text(".message") == "Queries and keys are not in this file."
    page.close()


@pytest.mark.parametrize("tokens", [1, 2])
def test_the_shortest_texts(tokens: int, chromium: Any, tmp_path: Path) -> None:
    side = explorer_browser.made_up(TOKENS[:tokens], prediction={"kind": "score", "score": -1.25}, scaling=None)
    page = another(
        chromium, tmp_path, "special=0", **{field.name: getattr(side, field.name) for field in dataclasses.fields(side)}
    )
    seen: list[str] = []
    page.on("pageerror", lambda error: seen.append(str(error)))
    assert page.inner_text(".prediction b") == "\u22121.250"
    for view in ("model", "heatmap", "neuron", "rollout", "heads"):
        change(page, view=view, query=0, key=0)
        assert not page.is_visible(".message")
    assert seen == []
    page.close()


def rollout_in_python(part: str) -> Any:
    """Compute rollout from the page's rounded weights.

    Heads are treated by convention and averaged, rows made shares unless standard.
    """
    heads = torch.stack([torch.tensor(whole(one(), part, layer)) for layer in range(LAYERS)]).double() / 1e5
    graph = heads.mean(dim=1) if part == "standard" else signed_to_weights(heads.abs().mean(dim=1))
    return attention_rollout(graph)


@pytest.mark.parametrize("part", ["standard", "effective", "affine", "difference"])
def test_rollout_is_that_of_python(part: str, chromium: Any, tmp_path: Path) -> None:
    expected = (
        rollout_in_python("effective") - rollout_in_python("standard")
        if part == "difference"
        else rollout_in_python(part)
    )
    with opened(chromium, tmp_path, "one", f"view=rollout&part={part}&query=2") as page:
        assert colours(page) > 8
        keys = [
            "ArrowUp",
            *["ArrowLeft"] * len(TOKENS),
            *["ArrowRight"] * len(TOKENS),
            "ArrowDown",
            *["ArrowLeft"] * len(TOKENS),
        ]
        seen = {(int(said["layer"]), int(said["key"])): float(said["value"]) for said in walked(page, keys)}
        assert seen == {place: pytest.approx(float(expected[place[0], 2, place[1]]), abs=0.51e-5) for place in seen}
        assert set(seen) == set(product(range(LAYERS), range(len(TOKENS))))


def test_rollout_of_null_attention_is_not_offered(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=rollout") as page:
        assert page.is_disabled("[data-part=null]")
        page.keyboard.press("n")
        assert "not available for null attention" in settle(page).inner_text(".message")
        change(page, part="effective")
        assert not page.is_visible(".message")


def test_rollout_of_the_token_that_is_clicked(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=rollout") as page:
        before = page.locator(".pane canvas").screenshot()
        page.select_option("#query", "4")
        assert settle(page).locator(".pane canvas").screenshot() != before
        page.click(".pane canvas", position={"x": 80, "y": 60})  # a name above the map
        assert state(page)["query"] == 0


@pytest.mark.parametrize("view", ["neuron", "rollout"])
@pytest.mark.parametrize(("kind", "token"), [("one", 0), ("causal", len(TOKENS) - 1)])
def test_a_view_of_one_token_starts_at_that_the_model_answers_from(
    kind: str, token: int, view: str, chromium: Any, tmp_path: Path
) -> None:
    """The first token of a causal model sees only itself: neither its rollout nor its query says anything."""
    with opened(chromium, tmp_path, kind, f"view={view}") as page:
        assert page.input_value("#query") == str(token)
        assert state(page)["query"] is None  # nothing was chosen yet, so the address stays short
        shown = page.locator(".pane canvas").screenshot()
        change(page, query=token)
        assert settle(page).locator(".pane canvas").screenshot() == shown
        change(page, query=2)
        assert settle(page).locator(".pane canvas").screenshot() != shown


@pytest.mark.parametrize(("kind", "token"), [("one", 1), ("causal", len(TOKENS) - 2)])
def test_neuron_starts_at_a_token_that_is_shown(kind: str, token: int, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, kind, "view=neuron&special=0") as page:
        assert page.input_value("#query") == str(token)


def test_each_side_has_its_own_start_of_rollout(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "causal and not", "view=rollout") as page:
        said = []
        for side in range(2):
            page.locator(".pane canvas").nth(side).hover(position={"x": 80, "y": 60})  # a name above the map
            said.append(int(readout(settle(page))["query"]))
        assert said == [len(TOKENS) - 1, 0]
