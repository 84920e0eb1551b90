"""The explorer's heatmap in headless Chromium: the weight under the pointer is Python's; clicks and keys work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers import browser as explorer_browser
from helpers.browser import (
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
    whole,
)


def cells(page: Any) -> dict[tuple[int, int], dict[str, str]]:
    """Return what is said of the cells of a heatmap, by query and key."""
    return {(int(said["query"]), int(said["key"])): said for said in pointed(page, 9, 6, 0.5) if "value" in said}


@pytest.mark.parametrize("part", ["standard", "effective", "null"])
def test_heatmap_says_the_weight_under_the_pointer(part: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", f"view=heatmap&part={part}&layer=1&head=2") as page:
        assert colours(page) > 20
        found = cells(page)
        assert len(found) > 15
        weights = whole(one(), part, 1)[2]
        assert {pair: said["value"] for pair, said in found.items()} == {pair: text_of(weights[pair]) for pair in found}
        (query, key), said = next(iter(found.items()))
        shown = text_of(weights[query, key]).replace("-", "\u2212")
        assert said["text"] == f"{TOKENS[query]} → {TOKENS[key]}  layer 1, head 2  {part} {shown}"
        assert (said["layer"], said["head"], said["part"]) == ("1", "2", part)


def test_heatmap_holds_what_is_clicked_and_lets_it_go(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heatmap") as page:
        before = page.locator(".pane canvas").screenshot()
        page.click(".pane canvas", position={"x": 200, "y": 200})
        held = state(page)
        assert held["query"] is not None
        assert held["key"] is not None
        assert f"query={held['query']}&key={held['key']}" in page.evaluate("location.hash")
        page.mouse.move(2, 2)
        assert readout(settle(page))["value"] == text_of(whole(one(), "standard", 0)[0, held["query"], held["key"]])
        assert page.locator(".pane canvas").screenshot() != before
        page.click(".pane canvas", position={"x": 200, "y": 200})
        assert (state(page)["query"], state(page)["key"]) == (None, None)


def test_heatmap_by_keyboard(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heatmap&layer=1") as page:
        page.focus(".scroll")
        for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
            settle(page)
        said = readout(page)
        assert (said["query"], said["key"]) == ("1", "2")
        assert said["value"] == text_of(whole(one(), "standard", 1)[0, 1, 2])
        assert (state(page)["layer"], state(page)["head"]) == (1, 0)  # not the arrow keys of the whole page
        page.keyboard.press("Enter")
        assert (state(page)["query"], state(page)["key"]) == (1, 2)


def test_long_texts_scroll_inside_their_pane_and_keys_bring_cells_into_sight(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "long", "view=heatmap&zoom=2") as page:
        assert page.evaluate(
            "document.querySelector('.scroll').scrollHeight > 2 * document.querySelector('.scroll').clientHeight"
        )
        page.evaluate("document.querySelector('.scroll').scrollTo(900, 1500)")
        settle(page)
        page.hover(".pane canvas", position={"x": 400, "y": 300})
        said = readout(settle(page))
        assert int(said["query"]) > 100
        side = explorer_browser.made_up([f"word{i}" for i in range(300)], layers=1, heads=2)
        assert said["value"] == text_of(whole(side, "standard", 0, 4)[0, int(said["query"]), int(said["key"])], 4)
        page.focus(".scroll")
        page.mouse.move(2, 2)
        page.keyboard.press("ArrowDown")  # from the first cell
        settle(page)
        assert page.evaluate("document.querySelector('.scroll').scrollTop") < 100


def test_threshold_and_special_tokens(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heatmap&layer=1") as page:
        everything = colours(page)
        assert colours(change(page, threshold=0.9)) < everything
        change(page, threshold=0, special=False)
        found = cells(page)
        assert len(found) > 5
        assert {place for pair in found for place in pair} <= set(range(1, len(TOKENS) - 1))
        weights = whole(one(), "standard", 1)[0]
        assert all(said["value"] == text_of(weights[pair]) for pair, said in found.items())
        inner = int(weights[1:-1, 1:-1].max()) / 1e5
        assert page.get_attribute("#legend-bar", "aria-label").endswith(f"to {inner:.2f}")


def test_the_scale_has_two_sides_for_signed_weights(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heatmap&layer=1&part=null") as page:
        most = abs(whole(one(), "null", 1)[0]).max() / 1e5
        digits = 2 if most >= 0.1 else 3
        assert (
            page.get_attribute("#legend-bar", "aria-label")
            == f"colour scale from \u2212{most:.{digits}f} to {most:.{digits}f}"
        )
