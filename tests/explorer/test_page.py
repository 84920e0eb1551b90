"""The explorer in headless Chromium: what it reads, that it is safe, and how it shows two sides."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from helpers.browser import (
    HEADS,
    HOSTILE,
    LAYERS,
    PARTS,
    TOKENS,
    change,
    colours,
    made_up,
    one,
    opened,
    page_of,
    pair,
    readout,
    settle,
    text_of,
    whole,
)

VIEWS = ("heads", "model", "heatmap", "neuron", "rollout")


def test_every_weight_is_the_one_in_python(chromium: Any, tmp_path: Path) -> None:
    script = """async ([part, layers, heads, size]) => {
      const all = [];
      for (let layer = 0; layer < layers; layer++)
        for (let head = 0; head < heads; head++)
          for (let query = 0; query < size; query++)
            for (let key = 0; key < size; key++) all.push(await explorer.value(0, part, layer, head, query, key));
      return all;
    }"""
    with opened(chromium, tmp_path) as page:
        for part in PARTS:
            found = page.evaluate(script, [part, LAYERS, HEADS, len(TOKENS)])
            wanted = [text_of(number) for layer in range(LAYERS) for number in whole(one(), part, layer).reshape(-1)]
            assert found == wanted


def test_longer_texts_have_fewer_decimals(chromium: Any, tmp_path: Path) -> None:
    side = made_up([f"word{i}" for i in range(300)], layers=1, heads=2)
    with opened(chromium, tmp_path, "long", "view=heatmap&head=1") as page:
        found = page.evaluate("explorer.value(0, 'standard', 0, 1, 299, 7)")
        assert found == text_of(whole(side, "standard", 0, 4)[1, 299, 7], 4)
        for view in VIEWS:
            assert colours(change(page, view=view)) > 10, view


def test_blocks_leave_the_document_once_they_are_read(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heatmap&layer=1") as page:
        left = "[...document.querySelectorAll('script[type=\"text/plain\"]')].length"
        before = page.evaluate(left)
        change(page, part="effective")
        assert page.evaluate(left) == before - 1
        change(page, view="model", part="standard")
        change(page, part="effective")  # all of them; queries and keys, two layers each, were not needed
        assert page.evaluate(left) == 2 * LAYERS + 1
        change(page, part="affine")  # of one layer: the other's is standard attention
        assert page.evaluate(left) == 2 * LAYERS


def test_a_damaged_file_says_so(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "damaged.html"
    path.write_text(re.sub(r'(id="b0">)[^<]{20}', r"\g<1>" + "0" * 20, page_of("one")), encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.evaluate("explorer.ready.then(() => null)")
    assert "cannot be unpacked" in page.inner_text(".message")
    page.close()


def test_texts_model_and_prediction_are_shown(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path) as page:
        assert page.inner_text("#title") == "A fox"
        card = page.inner_text("#sides")
        assert "tiny · 7 tokens · 2 layers \u00d7 3 heads" in card
        assert "the fox jumps over." in card
        assert page.inner_text(".answer.best").split() == ["yes", "87.5", "%"]


def test_works_inside_a_notebook(chromium: Any, tmp_path: Path) -> None:
    seen: list[str] = []
    page = chromium.new_page()
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("console", lambda message: seen.append(message.text))
    page.set_content('<iframe id="cell" sandbox="allow-scripts allow-downloads" width="900" height="760"></iframe>')
    page.evaluate("(html) => { document.getElementById('cell').srcdoc = html; }", page_of("one"))
    frame = page.wait_for_selector("#cell").content_frame()
    frame.wait_for_function("window.explorer !== undefined")
    frame.evaluate("explorer.ready.then(() => explorer.set({ view: 'heatmap', part: 'effective', layer: 1 }))")
    frame.evaluate("explorer.settled().then(() => null)")
    assert frame.evaluate("explorer.state.view") == "heatmap"
    assert seen == []
    page.close()


def test_hostile_tokens_stay_text(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "hostile", "view=heatmap&query=1&key=3") as page:
        assert "<img src=x onerror=hit()> → </script>" in readout(page)["text"]
        for view in VIEWS:
            change(page, view=view, query=1, key=3)
            page.hover(".pane canvas", position={"x": 300, "y": 300})
            settle(page)
            assert page.evaluate("document.querySelectorAll('img, b b, #sides script').length") == 0
        assert page.inner_text("#title") == "<script>hit()</script>"
        assert "<b>bold</b>" in page.inner_text("#sides")
        names = page.evaluate("[...document.querySelectorAll('#query option')].map((option) => option.textContent)")
        assert len(names) == len(HOSTILE)
        assert names[1] == "1  <img src=x onerror=hit()>"


def test_markup_that_gets_in_cannot_run_or_fetch(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "one.html"
    path.write_text(
        page_of("one").replace("<main", "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'><main"),
        encoding="utf-8",
    )
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.evaluate("explorer.ready.then(() => null)")
    assert page.evaluate("window.hit") is None
    blocked = page.evaluate("fetch('https://example.org/').then(() => 'fetched', () => 'blocked')")
    assert blocked == "blocked"
    page.close()


def test_two_sides_share_scale_and_pointer(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "pair", "view=heatmap&layer=1&head=2") as page:
        assert page.evaluate("[...document.querySelectorAll('.pane h2')].map((title) => title.textContent)") == [
            "after",
            "before",
        ]
        limit = max(int(whole(side, "standard", 1)[2].max()) for side in pair()) / 1e5
        assert page.get_attribute("#legend-bar", "aria-label") == f"colour scale from 0 to {limit:.2f}"
        alone = page.locator(".pane canvas").nth(1).screenshot()
        page.hover(".pane canvas", position={"x": 150, "y": 150})
        assert page.locator(".pane canvas").nth(1).screenshot() != alone  # the same cell is marked on the other side


def test_the_difference_is_the_first_side_minus_the_one_beside_it(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "pair", "view=heatmap&layer=1&head=2&query=3&key=4") as page:
        assert page.inner_text("#compare") == "after \u2212 before"
        page.click("#compare")
        settle(page)
        assert page.locator(".pane").count() == 1
        assert page.inner_text(".pane h2") == "after \u2212 before"
        assert "standard after \u2212 before " in readout(page)["text"]
        for part in PARTS:
            first, second = (whole(side, part, 1)[2, 3, 4] for side in pair())
            assert readout(change(page, part=part))["value"] == text_of(first - second)
        page.keyboard.press("c")
        settle(page)
        assert page.locator(".pane").count() == 2


def test_texts_of_their_own_are_not_subtracted(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "texts", "view=heatmap&compare=1&query=6&key=6") as page:
        assert not page.is_visible("#compare")
        assert page.locator(".pane").count() == 2
        for view in VIEWS:
            change(page, view=view)
            assert colours(page, 1) > 5, view


def test_the_header_is_what_the_page_was_given() -> None:
    (text,) = re.findall(r'id="header">([^<]*)<', page_of("hostile"))
    assert json.loads(text)["sides"][0]["tokens"] == HOSTILE
