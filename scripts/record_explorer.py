"""Make a still and a moving picture of an explorer page, for the README: its views in headless Chromium.

    python evaluate.py task=mrpc checkpoint=<run> analysis=explorer text="..." text_pair="..." run_dir=/tmp/shown
    python scripts/record_explorer.py /tmp/shown/explorer.html      # writes docs/explorer.png and docs/explorer.gif

Needs Chromium and Playwright (``pip install -e ".[dev]"``).
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

DOCS = Path(__file__).resolve().parents[1] / "docs"
SEEN = (1000, 800)  # the window, in pixels
SHOWN = 900  # the picture's width, in pixels
COLOURS = 224  # colours a frame of the moving picture
EXACT = 64  # how many of them are exact
LARGEST = 2_000_000  # bytes of the moving picture
ARROW = ((0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (13, 12))

Frame = tuple[Image.Image, int]


class Walk:
    """A page, and the place of the mouse on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.mouse = (SEEN[0] // 2, SEEN[1] // 2)

    def see(self, milliseconds: int) -> Frame:
        """Take a picture of the screen, to be shown for so long."""
        self.page.evaluate("window.explorer.settled()")
        self.page.wait_for_timeout(250)  # until colours have faded to what they are to be
        image = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        arrow = [(x + self.mouse[0], y + self.mouse[1]) for x, y in ARROW]
        ImageDraw.Draw(image).polygon(arrow, fill="black", outline="white")
        height = round(image.height * SHOWN / image.width)
        return image.resize((SHOWN, height), Image.Resampling.LANCZOS), milliseconds

    def press(self, place: str, text: str) -> None:
        """Click the button of that name."""
        box = self.page.locator(f"{place} button", has_text=text).first.bounding_box()
        self.go(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.page.mouse.click(*self.mouse)

    def point(self, across: float, down: float) -> None:
        """Move the mouse to a place of the picture, in shares of its width and height."""
        box = self.page.locator("#stage canvas").first.bounding_box()
        self.go(box["x"] + across * box["width"], box["y"] + down * box["height"])

    def go(self, x: float, y: float) -> None:
        self.mouse = (round(x), round(y))
        self.page.mouse.move(*self.mouse)

    def set(self, **state: Any) -> None:
        self.page.evaluate("(state) => window.explorer.set(state)", state)


def scenes(walk: Walk) -> Iterator[Frame]:
    """Go through the views, one after the other."""
    walk.set(view="heads", layer=2, threshold=0.1)
    yield walk.see(1000)
    for down in (0.3, 0.47):
        walk.point(0.2, down)
        yield walk.see(1000)
    walk.press("#views", "model")
    walk.set(threshold=0)
    yield walk.see(900)
    walk.point(0.55, 0.45)
    yield walk.see(900)
    walk.page.mouse.click(*walk.mouse)
    yield walk.see(700)
    for part in ("effective", "null"):
        walk.press("#parts", part)
        yield walk.see(900)
        walk.point(0.5, 0.55)
        yield walk.see(700)
    walk.set(query=3, key=4, part="effective")
    walk.press("#views", "neuron")
    yield walk.see(1300)
    walk.press("#views", "rollout")
    yield walk.see(1300)
    walk.set(theme="dark")
    yield walk.see(900)
    walk.set(query=None, key=None, threshold=0.1)
    walk.press("#views", "heads")
    yield walk.see(1200)


def palette_of(image: Image.Image) -> Image.Image:
    """Return a palette of the commonest colours as they are, so that no ground flickers.

    Then come those that cover the rest, a scale's ends included.
    """
    counted = sorted(image.getcolors(maxcolors=image.width * image.height), reverse=True)
    common = [part for _, colour in counted[:EXACT] for part in colour]
    rest = image.quantize(COLOURS - EXACT, Image.Quantize.MAXCOVERAGE).getpalette()
    palette = Image.new("P", (1, 1))
    palette.putpalette((common + rest)[: 3 * 256])
    return palette


def write_gif(path: Path, frames: list[Frame]) -> None:
    """Write the moving picture without dither, which would make every frame differ everywhere."""
    images = [image.quantize(palette=palette_of(image), dither=Image.Dither.NONE) for image, _ in frames]
    images[0].save(
        path,
        save_all=True,
        append_images=images[1:],
        duration=[time for _, time in frames],
        loop=0,
        optimize=True,
        disposal=1,
    )
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has {path.stat().st_size} bytes, more than {LARGEST}; leave scenes or colours out")


def still(page: Any, path: Path) -> None:
    """Write one view at twice the resolution."""
    page.evaluate(
        "() => window.explorer.set({ view: 'heatmap', part: 'effective', layer: 3, head: 6, theme: 'light' })"
    )
    page.evaluate("window.explorer.settled()")
    page.wait_for_timeout(300)
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").save(path, optimize=True)


def main(source: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        size = {"width": SEEN[0], "height": SEEN[1]}
        page = browser.new_page(viewport=size)
        page.goto(source.resolve().as_uri())
        page.evaluate("window.explorer.ready")
        write_gif(DOCS / "explorer.gif", list(scenes(Walk(page))))
        sharp = browser.new_page(viewport=size, device_scale_factor=2)
        sharp.goto(source.resolve().as_uri())
        sharp.evaluate("window.explorer.ready")
        still(sharp, DOCS / "explorer.png")
        browser.close()
    for name in ("explorer.gif", "explorer.png"):
        print(f"{DOCS / name}: {(DOCS / name).stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        raise SystemExit("name one explorer page: python scripts/record_explorer.py <run>/explorer.html")
    main(Path(sys.argv[1]))
