"""What the explorer saves: SVG that any program reads, PNG of the right size, CSV with the numbers of the matrix."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from helpers.browser import (
    HOSTILE,
    LAYERS,
    TOKENS,
    change,
    downloaded,
    made_up,
    one,
    opened,
    pair,
    state,
    text_of,
    whole,
)

SVG = "{http://www.w3.org/2000/svg}"
NAMES = {
    "heads": "attention-effective-layer1-heads",
    "model": "attention-effective-model",
    "heatmap": "attention-effective-layer1-head2",
    "neuron": "attention-effective-neuron-layer1-head2",
    "rollout": "attention-effective-rollout",
}


def texts(path: Path) -> list[str]:
    return [element.text or "" for element in ElementTree.parse(path).iter(f"{SVG}text")]


@pytest.mark.parametrize("view", NAMES)
def test_svg_is_a_vector_picture_with_real_text(view: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", f"view={view}&part=effective&layer=1&head=2&theme=dark") as page:
        path = downloaded(page, "svg", tmp_path)
        assert path.name == f"{NAMES[view]}.svg"
        root = ElementTree.parse(path).getroot()
        assert root.find(f"{SVG}rect").get("fill") == "#ffffff"  # light, whatever the page is
        said = texts(path)
        if view == "model":
            assert {f"head {head}" for head in range(3)} <= set(said)
            assert len(list(root.iter(f"{SVG}image"))) == 6
        else:
            assert set(TOKENS) <= set(said)
            assert list(root.iter(f"{SVG}image")) == []
        if view == "heads":
            assert len(list(root.iter(f"{SVG}path"))) > 20


def test_svg_leaves_out_what_is_not_shown(chromium: Any, tmp_path: Path) -> None:
    weights = abs(whole(one(), "standard", 1)[2])
    counts = {}
    with opened(chromium, tmp_path, "one", "view=heatmap&layer=1&head=2", width=700) as page:
        for threshold in (0, 0.1):
            root = ElementTree.parse(downloaded(change(page, threshold=threshold), "svg", tmp_path)).getroot()
            counts[threshold] = len(list(root.iter(f"{SVG}rect")))
    assert counts[0] - counts[0.1] == (weights > 0).sum() - (weights >= 10000).sum()


def test_very_large_svg_embeds_the_cells_and_says_so(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "long", "view=heatmap") as page:
        root = ElementTree.parse(downloaded(page, "svg", tmp_path)).getroot()
        assert len(list(root.iter(f"{SVG}image"))) == 1
        assert "embedded bitmap" in root.find(f"{SVG}title").text


def test_hostile_tokens_in_svg_and_csv(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "hostile", "view=heads&heads=0") as page:
        path = downloaded(page, "svg", tmp_path)
        said = texts(path)
        names = {element.tag.removeprefix(SVG) for element in ElementTree.parse(path).iter()}
        assert names <= {"svg", "title", "g", "rect", "path", "text"}
        assert {"</script>", "&lt;", "]]>", "-2", "🦊", "\ufffd", "\u2205"} <= set(said)
        assert any(text.startswith("<img src=x") for text in said)
        rows = list(csv.reader(downloaded(page, "csv", tmp_path).open(encoding="utf-8", newline="")))
        safe = [f"'{token}" if token[:1] in tuple("=+-@\t\r\n") else token for token in HOSTILE]
        assert safe != HOSTILE
        assert rows[0] == ["", *safe]
        assert [row[0] for row in rows[1:]] == safe


@pytest.mark.parametrize("kind", ["one", "pair"])
def test_png_is_twice_the_size_and_not_blank(kind: str, chromium: Any, tmp_path: Path) -> None:
    from PIL import Image

    with opened(chromium, tmp_path, kind, "view=heatmap&part=effective&layer=1&head=2") as page:
        path = downloaded(page, "png", tmp_path)
        svg = ElementTree.parse(downloaded(page, "svg", tmp_path)).getroot()
        with Image.open(path) as picture:
            assert picture.size == pytest.approx((2 * int(svg.get("width")), 2 * int(svg.get("height"))), abs=2)
            assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)
            assert len(picture.convert("RGB").getcolors(1_000_000)) > 50
        if kind == "pair":
            assert {"before", "after"} <= {element.text for element in svg.iter(f"{SVG}text")}


@pytest.mark.parametrize("view", ["heads", "model", "heatmap", "neuron"])
def test_csv_is_the_matrix(view: str, chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", f"view={view}&part=null&layer=1&head=2&threshold=0.3") as page:
        path = downloaded(page, "csv", tmp_path)
        assert path.name.endswith("layer1-head2.csv")
        assert path.read_bytes().count(b"\r\n") == len(TOKENS) + 1
        rows = list(csv.reader(path.open(encoding="utf-8", newline="")))
        assert rows[0] == ["", *TOKENS]
        wanted = [[token, *map(text_of, row)] for token, row in zip(TOKENS, whole(one(), "null", 1)[2], strict=True)]
        assert rows[1:] == wanted


def test_csv_without_special_tokens_and_of_the_rollout(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=heatmap&special=0") as page:
        rows = list(csv.reader(downloaded(page, "csv", tmp_path).open(encoding="utf-8", newline="")))
        inner = whole(one(), "standard", 0)[0, 1:-1, 1:-1]
        assert [row[1:] for row in rows[1:]] == [list(map(text_of, row)) for row in inner]
        change(page, view="rollout", special=True, query=3)
        rows = list(csv.reader(downloaded(page, "csv", tmp_path).open(encoding="utf-8", newline="")))
        assert [row[0] for row in rows] == ["", *(f"layer {layer}" for layer in range(LAYERS))]
        sums = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]]).sum(axis=1)
        np.testing.assert_allclose(sums, 1, atol=1e-4)


def test_csv_of_two_sides_is_two_files_and_of_their_difference_one(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "pair", "view=heatmap&layer=1&head=1") as page:
        names: list[str] = []
        page.on("download", lambda each: names.append(each.suggested_filename))
        page.click("#export")
        with page.expect_event("download", lambda each: "before" in each.suggested_filename):
            page.click("[data-export=csv]")
        assert names == [f"attention-standard-layer1-head1-{name}.csv" for name in ("after", "before")]
        change(page, compare=True)
        path = downloaded(page, "csv", tmp_path)
        assert path.name == "attention-standard-after-minus-before-layer1-head1.csv"
        rows = list(csv.reader(path.open(encoding="utf-8", newline="")))
        first, second = (whole(side, "standard", 1)[1] for side in pair())
        assert [row[1:] for row in rows[1:]] == [list(map(text_of, row)) for row in first - second]


def test_nothing_to_save_is_said(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "view=rollout&part=null") as page:
        page.click("#export")
        page.click("[data-export=svg]")
        page.wait_for_selector("#toast:visible")
        assert page.inner_text("#toast") == "There is nothing to save in this view."
        assert state(page)["view"] == "rollout"


def test_the_menu_by_keyboard(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path) as page:
        page.focus("#export")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.dataset.export") == "svg"
        page.keyboard.press("Escape")
        assert not page.is_visible("#export-menu")
        assert page.evaluate("document.activeElement.id") == "export"


def test_made_up_weights_have_both_signs() -> None:
    """Check what the tests above rely on."""
    assert (made_up().effective[1] < 0).any()
    assert (made_up().standard[1] > 0.5).any()
