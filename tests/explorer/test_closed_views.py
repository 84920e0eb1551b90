"""Views that have nothing to show, in headless Chromium: struck out, with the reason, for pointer and keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from effective_attention.explorer.page import build_page
from helpers.browser import change, one, opened, settle, state

NO_NEURONS = "Queries and keys are not in this file."


@pytest.fixture
def page(chromium: Any, tmp_path: Path) -> Iterator[Any]:
    """Open the page of a model whose queries and keys are not known."""
    path = tmp_path / "page.html"
    side = dataclasses.replace(one(), query=None, key=None)
    path.write_text(build_page([side], title="no neurons"), encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.evaluate("explorer.ready.then(() => null)")
    yield page
    page.close()


def test_the_neuron_view_is_struck_out_and_says_why(page: Any) -> None:
    assert page.is_disabled("[data-view=neuron]")
    assert page.get_attribute("[data-view=neuron]", "title") == NO_NEURONS
    assert page.evaluate("getComputedStyle(document.querySelector('[data-view=neuron]')).textDecorationLine") == (
        "line-through"
    )
    for view in ("heads", "model", "heatmap", "rollout"):
        assert page.is_enabled(f"[data-view={view}]")


def test_its_key_says_why_and_stays_where_it_is(page: Any) -> None:
    page.keyboard.press("3")
    assert not page.is_visible("#toast")
    page.keyboard.press("4")
    assert state(page)["view"] == "heatmap"
    assert page.inner_text("#toast") == NO_NEURONS


def test_a_link_to_it_shows_the_reason(page: Any) -> None:
    change(page, view="neuron")
    assert page.inner_text(".message") == NO_NEURONS
    assert page.get_attribute("[data-view=neuron]", "aria-pressed") == "true"
    page.keyboard.press("1")
    assert settle(page).is_disabled("[data-view=neuron]")


def test_one_side_with_queries_opens_the_view(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "two.html"
    sides = [dataclasses.replace(one(), query=None, key=None, name="without"), dataclasses.replace(one(), name="with")]
    path.write_text(build_page(sides, title="two"), encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.evaluate("explorer.ready.then(() => null)")
    page.click("[data-view=neuron]")
    settle(page)
    assert page.locator(".message").all_inner_texts() == [NO_NEURONS, ""]
    page.close()


def test_rollout_is_struck_out_where_tokens_look_at_others(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "three", "stack=cross") as page:
        assert page.is_disabled("[data-view=rollout]")
        assert "these look at others, too" in page.get_attribute("[data-view=rollout]", "title")
        page.keyboard.press("5")
        assert state(page)["view"] == "heads"
        change(page, stack="encoder")
        assert page.get_attribute("[data-view=rollout]", "title") == "what reaches a token through all layers (5)"
        page.click("[data-view=rollout]")
        assert state(page)["view"] == "rollout"


def test_null_attention_is_struck_out_in_rollout_and_says_why(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=rollout") as page:
        assert page.is_disabled("[data-part=null]")
        assert "not available for null attention" in page.get_attribute("[data-part=null]", "title")
        change(page, view="heads")
        assert page.is_enabled("[data-part=null]")
        assert page.get_attribute("[data-part=null]", "title").startswith("standard minus effective")
