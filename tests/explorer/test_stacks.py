"""Pages whose keys are other tokens than their queries, and those of a model with three attentions, in Chromium."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from helpers.browser import (
    HEADS,
    TOKENS,
    WRITTEN,
    change,
    colours,
    downloaded,
    opened,
    pointed,
    readout,
    state,
    text_of,
    three,
    walked,
    whole,
)

VIEWS = ("heads", "model", "heatmap", "neuron")


def options(page: Any, field: str) -> list[str]:
    return page.evaluate(f"[...document.getElementById('{field}').options].map((option) => option.textContent)")


def message(page: Any) -> str:
    return page.evaluate("document.querySelector('.message').textContent")


def test_a_switch_between_three_attentions(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "three", "view=heatmap&layer=2&head=2") as page:
        assert state(page)["stack"] == "encoder"
        assert page.locator("#stacks button").all_text_contents() == ["encoder", "decoder", "cross"]
        assert page.locator(".card .mark").all_text_contents() == ["read", "written"]
        page.click("[data-stack=cross]")
        change(page)
        now = state(page)
        assert (now["stack"], now["layer"], now["head"]) == ("cross", 1, 1)  # the decoder has fewer of both
        assert len(options(page, "head")) == HEADS - 1
        assert "from 4 tokens to 7" in page.locator(".card .facts").text_content()
        page.keyboard.press("x")
        assert state(page)["stack"] == "encoder"
        assert len(options(page, "head")) == HEADS


@pytest.mark.parametrize("stack", ["encoder", "decoder", "cross"])
def test_every_weight_of_each_is_the_stored_one(stack: str, chromium: Any, tmp_path: Path) -> None:
    side = next(one for one in three() if one.stack == stack)
    with opened(chromium, tmp_path, "three", f"view=heatmap&stack={stack}&part=effective") as page:
        weights = whole(side, "effective", 0)
        for query in range(len(side.tokens)):
            for key in (0, weights.shape[2] - 1):
                said = page.evaluate(f"explorer.value(0, 'effective', 0, 1, {query}, {key})")
                assert said == text_of(weights[1, query, key])


def test_other_numbers_are_drawn_after_switching(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "three", "view=heatmap&stack=encoder&part=null&layer=1") as page:
        for stack in ("cross", "decoder", "encoder", "cross"):
            side = next(one for one in three() if one.stack == stack)
            keys = side.tokens if side.keys is None else side.keys.tokens
            change(page, stack=stack)
            said = walked(page, ["ArrowDown", "ArrowRight", "ArrowDown"])[-1]
            query, key = int(said["query"]), int(said["key"])
            assert said["value"] == text_of(whole(side, "null", 1)[0, query, key])
            assert said["text"].startswith(f"{side.tokens[query]} → {keys[key]} ")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["three", "bare"])
def test_every_view_draws_keys_that_are_other_tokens(kind: str, view: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, kind, f"view={view}&stack=cross", width=390, scheme="dark") as page:
        assert colours(page) > 20
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pointing_at_lines_names_both_texts(chromium: Any, tmp_path: Path) -> None:
    cross = three()[2]
    with opened(chromium, tmp_path, "three", "view=heads&stack=cross&heads=1") as page:
        said = {one["text"].split("  ")[0] for one in pointed(page, 8, 14)}
        assert {f"from {token}" for token in WRITTEN} <= said
        assert {f"to {token}" for token in TOKENS} <= said
        assert f"from {TOKENS[-1]}" not in said  # below the last query there is nothing to point at
        change(page, query=2, key=6)
        assert readout(page)["value"] == text_of(whole(cross, "standard", 0)[1, 2, 6])
        change(page, special=False)
        assert colours(page) > 20


def test_the_neuron_view_lists_queries_and_keys(chromium: Any, tmp_path: Path) -> None:
    cross = three()[2]
    with opened(chromium, tmp_path, "three", "view=neuron&stack=cross&head=1") as page:
        assert options(page, "query") == [f"{place}  {token}" for place, token in enumerate(WRITTEN)]
        assert options(page, "key")[1:] == [f"{place}  {token}" for place, token in enumerate(TOKENS)]
        change(page, query=3, key=5)
        vectors = (cross.query[0][1, 3].round(2), cross.key[0][1, 5].round(2))
        score = 0.5 * float((vectors[0] * vectors[1]).sum())
        said = readout(page)["text"]
        assert said.startswith("saute → . ")
        assert said.endswith(f"score ≈ {score:.2f}".replace("-", "\u2212"))


def test_rollout_is_refused_where_tokens_look_at_others(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "three", "view=rollout&stack=cross") as page:
        assert "these look at others, too" in message(page)
        assert page.evaluate("document.getElementById('legend-bar').hidden")
        change(page, stack="decoder")
        assert "these look at others, too" in message(page)
        change(page, stack="encoder")
        assert message(page) == ""


def test_saved_numbers_have_both_texts_and_the_name_of_the_stack(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "three", "view=heatmap&stack=cross&head=1&part=effective") as page:
        path = downloaded(page, "csv", tmp_path)
        assert path.name == "attention-effective-cross-layer0-head1.csv"
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["", *TOKENS]
    assert [row[0] for row in rows[1:]] == WRITTEN
    weights = whole(three()[2], "effective", 0)[1]
    assert [row[1:] for row in rows[1:]] == [[text_of(number) for number in row] for row in weights]


def test_without_values_there_is_standard_attention_alone_and_the_page_says_so(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "bare", "part=effective") as page:
        assert state(page)["part"] == "standard"
        assert page.locator("#parts button").all_text_contents() == ["standard"]
        assert page.locator("#stacks").is_hidden()
        assert "standard attention only: its values were not given" in page.locator(".card").text_content()
        page.keyboard.press("e")
        page.keyboard.press("x")
        assert state(page)["part"] == "standard"
