"""The explorer in headless Chromium: how it is steered, and that everybody can read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.browser import (
    CONTRAST,
    LAYERS,
    PARTS,
    change,
    colours,
    opened,
    settle,
    state,
)

VIEWS = ("heads", "model", "heatmap", "neuron", "rollout")


def test_keys(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path) as page:

        def press(key: str) -> dict[str, Any]:
            page.keyboard.press(key)
            return state(page)

        assert [press(str(number))["view"] for number in (5, 4, 3, 2, 1)] == list(reversed(VIEWS))
        assert [press(key)["part"] for key in "ndfe"] == ["null", "difference", "affine", "effective"]
        assert [press(key)["part"] for key in "pm"] == ["effective"] * 2  # not in this page
        assert press("s")["part"] == "standard"
        press("3")
        assert (press("ArrowDown")["layer"], press("ArrowDown")["layer"], press("ArrowUp")["layer"]) == (1, 1, 0)
        assert (press("ArrowLeft")["head"], press("ArrowRight")["head"]) == (0, 1)
        assert not press("t")["special"]
        assert (press("]")["threshold"], press("]")["threshold"], press("[")["threshold"]) == (0.001, 0.002, 0.001)
        assert press("+")["zoom"] == 1.5
        change(page, query=1, key=2)
        assert press("Escape")["query"] is None
        press("?")
        assert page.is_visible("#help-box")
        assert press("e")["part"] == "standard"  # the help is in front
        page.keyboard.press("Escape")
        assert not page.is_visible("#help-box")


def test_arrow_keys_stay_with_a_list_that_has_the_focus(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heatmap") as page:
        page.focus("#head")
        page.keyboard.press("ArrowDown")
        assert (state(page)["head"], state(page)["layer"]) == (1, 0)
        page.focus("#threshold")
        page.keyboard.press("ArrowRight")
        assert (state(page)["threshold"], state(page)["head"]) == (0.001, 1)


def test_everything_can_be_reached_by_tab_and_is_seen_to_be(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path) as page:
        page.click("#title")
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate(
                    "document.activeElement.id || document.activeElement.className || "
                    "document.activeElement.textContent"
                )
            )
        assert {
            "export",
            "link",
            "theme",
            "help",
            "layer",
            "head",
            "threshold",
            "special",
            "scroll",
            *VIEWS,
            *PARTS,
            "all",
        } <= reached
        page.focus("#export")
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_controls_change_the_state_and_follow_it(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path) as page:
        page.click("[data-view=heatmap]")
        page.click("[data-part=effective]")
        page.select_option("#layer", "1")
        page.click("[data-step='head,1']")
        page.uncheck("#special")
        page.uncheck("#root")
        assert page.evaluate("location.hash") == "#view=heatmap&part=effective&layer=1&head=1&special=0&root=0"
        change(page, part="null", layer=0)
        assert page.get_attribute("[data-part=null]", "aria-pressed") == "true"
        assert page.get_attribute("[data-part=effective]", "aria-pressed") == "false"
        assert page.input_value("#layer") == "0"


def test_a_link_restores_everything(chromium: Any, tmp_path: Path) -> None:
    hash_ = (
        "view=heads&part=effective&layer=1&head=2&heads=0,2&query=3&key=1&threshold=0.05&special=0&root=0&zoom=2"
        "&theme=dark"
    )
    with opened(chromium, tmp_path, "one", hash_) as page:
        first = state(page)
        assert first["heads"] == [0, 2]
        assert (first["query"], first["key"], first["threshold"], first["theme"]) == (3, 1, 0.05, "dark")
        change(page, zoom=3)
        again = page.evaluate("location.hash")
        page.evaluate("location.hash = '#view=model'")  # the reader edits the address
        settle(page)
        assert (state(page)["view"], state(page)["theme"]) == ("model", "auto")
    with opened(chromium, tmp_path, "one", again[1:]) as page:
        assert state(page) == {**first, "zoom": 3}


@pytest.mark.parametrize(
    "hash_", ["view=nothing&layer=-1&head=x", "layer=999999&zoom=7&heads=9,x,-1", "%&=&==&__proto__=1", "threshold=NaN"]
)
def test_a_senseless_link_does_no_harm(hash_: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", hash_) as page:
        found = state(page)
        assert found["view"] == "heads"
        assert (found["layer"], found["head"]) in {(0, 0), (LAYERS - 1, 0)}
        assert colours(change(page, heads=None)) > 10


def test_the_link_is_copied_or_shown(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=model") as page:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as in a notebook
        page.click("#link")
        assert page.inner_text("#toast").endswith("one.html#view=model")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(scheme: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "pair", scheme=scheme) as page:
        for view in ("heads", "rollout"):
            change(page, view=view, query=1)
            page.hover(".pane canvas", position={"x": 60, "y": 120})
            page.wait_for_timeout(200)  # buttons fade
            assert page.evaluate(CONTRAST) == []
        page.keyboard.press("?")
        assert page.evaluate(CONTRAST) == []


def test_colours_follow_the_system_and_the_button(chromium: Any, tmp_path: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(chromium, tmp_path, scheme="dark") as page:
        dark = page.evaluate(ground)
        page.click("#theme")
        assert state(page)["theme"] == "light"
        light = page.evaluate(ground)
        assert light != dark
        page.click("#theme")
        assert page.evaluate(ground) == dark
        assert "theme=dark" in page.evaluate("location.hash")


@pytest.mark.parametrize("kind", ["one", "pair", "maps"])
def test_nothing_scrolls_sideways_on_a_telephone(kind: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, kind, width=390) as page:
        for view in VIEWS:
            change(page, view=view)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
            assert colours(page) > 10, view
        boxes = page.evaluate("[...document.querySelectorAll('.pane')].map((pane) => pane.getBoundingClientRect().x)")
        assert len(set(boxes)) == 1  # one above the other
