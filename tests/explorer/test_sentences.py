"""The sentences of a pair in headless Chromium: which of them looks at which, and what is gold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.browser import (
    PIECES,
    SEGMENTS,
    change,
    colours,
    opened,
    pointed,
    readout,
    sentences,
    settle,
    state,
    text_of,
    whole,
)

CHOICES = ["all", "a-b", "b-a", "a-a", "b-b"]
A, B = ([place for place, segment in enumerate(SEGMENTS) if segment == text] for text in (0, 1))
SHOWN = {"all": (A + B, A + B), "a-b": (A, B), "b-a": (B, A), "a-a": (A, A), "b-b": (B, B)}


@pytest.mark.parametrize("between", ["a-b", "b-b"])
def test_only_the_attention_between_the_chosen_sentences(between: str, chromium: Any, tmp_path: Path) -> None:
    queries, keys = SHOWN[between]
    weights = whole(sentences(), "effective", 1)[1]
    with opened(
        chromium, tmp_path, "sentences", f"view=heatmap&part=effective&layer=1&head=1&between={between}"
    ) as page:
        told = [said for said in pointed(page, 18, 20, 0.6) if said.get("value")]
        seen = {(int(said["query"]), int(said["key"])): said["value"] for said in told}
        assert {query for query, _ in seen} == set(queries)
        assert {key for _, key in seen} == set(keys)
        assert all(value == text_of(weights[place]) for place, value in seen.items())
        largest = max(abs(int(weights[query, key])) for query in queries for key in keys) / 1e5
        assert page.get_attribute("#legend-bar", "aria-label").endswith(
            f"to {largest:.2f}"
        )  # colours are of what is shown


def test_the_choice_is_in_the_address_and_on_a_key(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "sentences") as page:
        assert page.evaluate("[...document.querySelectorAll('#between option')].map((one) => one.textContent)") == [
            "all",
            "A → B",
            "B → A",
            "within A",
            "within B",
        ]
        page.select_option("#between", "b-a")
        assert page.evaluate("location.hash") == "#view=heads&between=b-a"
        assert "B → A" in settle(page).get_attribute(".scroll", "aria-label")
        page.focus(".scroll")
        seen = []
        for _ in CHOICES:
            page.keyboard.press("b")
            seen.append(state(page)["between"])
        assert seen == ["a-a", "b-b", "all", "a-b", "b-a"]
        page.click("#help")
        assert "A → B" in page.inner_text("#help-box")


@pytest.mark.parametrize("view", ["heads", "model", "heatmap", "neuron", "rollout"])
def test_every_view_follows(view: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "sentences", f"view={view}") as page:
        everything = page.locator(".pane canvas").screenshot()
        change(page, between="a-b")
        assert page.locator(".pane canvas").screenshot() != everything
        assert colours(page) > 5
        change(page, between="all")
        assert page.locator(".pane canvas").screenshot() == everything


def test_marks_of_the_texts_and_special_tokens(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "sentences", "view=neuron&between=b-a&special=0") as page:
        assert page.eval_on_selector_all(".mark", "(all) => all.map((one) => one.textContent)") == ["A", "B"]
        listed = "(all) => all.map((one) => one.textContent.split('  ')[1])"
        assert page.eval_on_selector_all("#query option", listed) == ["it", "ran"]
        assert page.eval_on_selector_all("#key option", listed)[1:] == PIECES[1:6]


def test_one_text_has_no_such_choice(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heatmap&between=a-b") as page:
        assert not page.is_visible("#between")
        assert colours(page) > 20
        page.keyboard.press("b")
        assert state(page)["between"] == "all"


@pytest.mark.parametrize("view", ["neuron", "rollout"])
@pytest.mark.parametrize("special", [0, 1])
def test_a_view_of_one_token_starts_at_one_in_its_list(special: int, view: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "sentences", f"view={view}&special={special}&query=0") as page:
        first = 1 - special
        assert page.input_value("#query") == str(first)  # [CLS] is not in the list where special tokens are left out
        page.hover(".pane canvas", position={"x": 120, "y": 60} if view == "rollout" else {"x": 300, "y": 320})
        assert readout(settle(page))["query"] == str(first)


def test_gold_is_shown_beside_the_prediction(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "sentences") as page:  # predicts yes
        assert page.inner_text(".gold").split("\n") == ["gold: no", "✗ wrong"]
        assert page.locator(".gold .wrong").count() == 1
    with opened(chromium, tmp_path) as page:
        assert page.locator(".gold").count() == 0
