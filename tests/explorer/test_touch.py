"""The explorer under a finger, in headless Chromium: a tap points, a second one chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.browser import opened, readout, settle, state


def tapped(page: Any, x: float, y: float) -> Any:
    page.locator(".pane canvas").scroll_into_view_if_needed()
    box = page.locator(".pane canvas").bounding_box()
    page.touchscreen.tap(box["x"] + x, box["y"] + y)
    return settle(page)


def test_a_tap_reads_a_cell_and_a_second_one_holds_it(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heatmap", width=390, touch=True) as page:
        tapped(page, 200, 200)
        said = readout(page)
        assert {"value", "query", "key"} <= set(said)
        assert page.is_visible("#tip")
        assert (state(page)["query"], state(page)["key"]) == (None, None)
        tapped(page, 200, 200)
        assert (str(state(page)["query"]), str(state(page)["key"])) == (said["query"], said["key"])


def test_a_tap_on_a_head_shows_it_larger_and_a_second_one_opens_it(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=model", width=390, touch=True) as page:
        tapped(page, 150, 80)
        assert state(page)["view"] == "model"
        assert page.locator("#tip canvas").count() == 1
        head = int(readout(page)["head"])
        tapped(page, 150, 80)
        assert (state(page)["view"], state(page)["head"]) == ("heatmap", head)


def test_the_tip_goes_when_the_page_is_scrolled(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heatmap", width=390, touch=True) as page:
        tapped(page, 200, 200)
        page.evaluate("scrollBy(0, -60)")
        page.wait_for_selector("#tip", state="hidden")
        assert "value" in readout(page)


@pytest.mark.parametrize("kind", ["one", "sentences", "two of sentences", "three"])
def test_every_control_can_be_hit_and_is_in_sight_on_a_telephone(kind: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, kind, "view=heatmap", width=390, touch=True) as page:
        page.click("#more")
        boxes = page.evaluate(
            """[...document.querySelectorAll("button, select, a.button")].filter((one) => one.checkVisibility())
              .map((one) => [one.id || one.textContent, one.getBoundingClientRect()])
              .map(([name, box]) => [name, box.left, box.right, box.height])"""
        )
        assert len(boxes) > 15
        assert [name for name, left, right, high in boxes if left < 0 or right > 390 or high < 34] == []


EXTRA = ["levels", "between-field", "threshold-field", "zoom-field", "root-field"]


def in_sight(page: Any) -> list[str]:
    return [name for name in EXTRA if page.is_visible(f"#{name}")]


def test_what_is_seldom_needed_waits_behind_a_button_on_a_telephone(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "sentences", "view=heatmap", width=390, touch=True) as page:
        assert in_sight(page) == []
        assert page.get_attribute("#more", "aria-expanded") == "false"
        page.click("#more")
        assert in_sight(page) == EXTRA
        assert page.get_attribute("#more", "aria-expanded") == "true"
        page.click("#more")
        assert in_sight(page) == []


def test_where_there_is_room_everything_is_in_sight_and_no_such_button(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "sentences", "view=heatmap") as page:
        assert in_sight(page) == EXTRA
        assert not page.is_visible("#more")


@pytest.mark.parametrize("kind", ["sentences", "maps"])
@pytest.mark.parametrize("view", ["heads", "model", "heatmap", "neuron", "rollout"])
def test_the_picture_begins_in_the_upper_half_of_a_telephone(
    view: str, kind: str, chromium: Any, tmp_path: Path
) -> None:
    with opened(chromium, tmp_path, kind, f"view={view}", width=390, touch=True) as page:
        assert page.locator("#stage").bounding_box()["y"] < 844 / 2


def test_the_facts_of_a_second_side_do_not_push_the_picture_down(chromium: Any, tmp_path: Path) -> None:
    begins = {}
    for kind in ("sentences", "two of sentences"):
        with opened(chromium, tmp_path, kind, "view=heatmap", width=390, touch=True) as page:
            begins[kind] = page.locator("#stage").bounding_box()["y"]
            first, *second = page.evaluate("[...document.querySelectorAll('.card')].map(card => card.offsetLeft)")
            assert all(first < left < 390 for left in second), "it looks in, to be swiped"
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert begins["two of sentences"] < begins["sentences"] + 100 < 0.55 * 844  # names, and the button of both sides
