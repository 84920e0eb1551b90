"""Explorer pages of made-up sides, opened in a browser that is watched: any error and any request fails the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from effective_attention.explorer.page import build_page
from effective_attention.explorer.sides import KeyTokens, Side
from effective_attention.explorer.words import Words

LAYERS = 2
HEADS = 3
WIDTH = 4
TOKENS = ["[CLS]", "the", "fox", "jumps", "over", ".", "[SEP]"]
PIECES = ["[CLS]", "the", "fo", "##x", "jump", "##ed", "[SEP]", "it", "ran", "[SEP]"]
SEGMENTS = [0] * 7 + [1] * 3
STARTS = [0, 1, 2, 4, 6, 7, 8, 9]
WORDS = ["[CLS]", "the", "fox", "jumped", "[SEP]", "it", "ran", "[SEP]"]
WRITTEN = ["[BOS]", "le", "renard", "saute"]
HOSTILE = [
    "[CLS]",
    "<img src=x onerror=hit()>",
    '=1+"1",',
    "</script>",
    "&lt;",
    "]]>",
    "\u0001",
    "-2",
    "",
    "🦊",
    "[SEP]",
]
PARTS = ("standard", "effective", "null", "affine", "difference")
# texts that cannot be read well on their ground: tag, text, contrast
CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const part = (c) => (c <= 10 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.disabled || element.closest("script, noscript, option")) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([element.tagName, element.textContent.slice(0, 30), ratio]);
  }
  return poor;
}"""


def made_up(
    tokens: list[str] = TOKENS,
    *,
    seed: int = 0,
    layers: int = LAYERS,
    heads: int = HEADS,
    keys: list[str] | None = None,
    **facts: Any,
) -> Side:
    """Make up a side: weights as a softmax makes them, an effective part of both signs; layer 0 loses nothing."""
    random = np.random.default_rng(seed)
    size = len(tokens)
    others = size if keys is None else len(keys)
    standard = [random.dirichlet([0.3] * others, size=(heads, size)) for _ in range(layers)]
    effective = [part - (0.02 * random.normal(size=part.shape) if layer else 0) for layer, part in enumerate(standard)]
    vectors = [[random.normal(size=(heads, count, WIDTH)) for _ in range(layers)] for count in (size, others)]
    given: dict[str, Any] = {
        "texts": ("the fox jumps over.",),
        "prediction": {"kind": "class", "probabilities": [["no", 0.125], ["yes", 0.875]]},
        "model": "tiny",
        "scaling": [0.5] * layers,
        **facts,
    }
    return Side(
        tokens=tokens,
        special=[token.startswith("[") for token in tokens],
        segments=[0] * size,
        standard=standard,
        effective=effective,
        ranks=[[others - (layer > 0)] * heads for layer in range(layers)],
        keys=None if keys is None else KeyTokens(keys, [token.startswith("[") for token in keys]),
        query=vectors[0],
        key=vectors[1],
        maps={"affine": [0.5 * (one + other) for one, other in zip(standard, effective, strict=True)]},
        **given,
    )


def whole(side: Side, part: str, layer: int, decimals: int = 5) -> Any:
    """Return what a page must show of a part, as whole numbers (head, query, key)."""
    standard, effective = (
        np.rint(np.asarray(of[layer]) * 10**decimals).astype(int) for of in (side.standard, side.effective)
    )
    if part in side.maps:
        return np.rint(side.maps[part][layer] * 10**decimals).astype(int)
    return {
        "standard": standard,
        "effective": effective,
        "null": standard - effective,
        "difference": effective - standard,
    }[part]


def text_of(number: int, decimals: int = 5) -> str:
    """Write a whole number of 10**-decimals as the page does; by decimal arithmetic, which does not round."""
    from decimal import Decimal

    return f"{Decimal(int(number)).scaleb(-decimals):.{decimals}f}"


@cache
def one() -> Side:
    return made_up()


@cache
def causal() -> Side:
    """Make up a side of a model in which no token sees a later one."""
    side = made_up()
    parts = {"standard": side.standard, "effective": side.effective, "affine": side.maps["affine"]}
    cut = {name: [np.tril(part) for part in of] for name, of in parts.items()}
    return replace(side, standard=cut["standard"], effective=cut["effective"], maps={"affine": cut["affine"]})


@cache
def all_maps() -> Side:
    """Make up a side with two distributions beside: one weight a row, and weights drawn to the middle."""
    side = made_up()
    sparse = [np.eye(len(TOKENS))[part.argmax(axis=-1)] for part in side.standard]
    smallest = [0.5 * part + 0.5 / len(TOKENS) for part in side.standard]
    return replace(side, maps={**side.maps, "sparse": sparse, "smallest": smallest})


@cache
def following() -> Side:
    """Make up a side whose heads all look at the next word, of a text with more words than a thumbnail has pixels."""
    side = made_up([f"word{i}" for i in range(60)], heads=12)
    ahead = [np.broadcast_to(np.eye(60, k=1), (12, 60, 60))] * LAYERS
    return replace(side, standard=ahead, effective=ahead)


@cache
def sentences(**facts: Any) -> Side:
    """Make up a side of two sentences, some of whose words have several pieces."""
    texts = ("the fox jumped", "it ran")
    side = made_up(PIECES, texts=texts, gold="no", **facts)
    return replace(side, segments=SEGMENTS, words=Words(WORDS, STARTS))


@cache
def pair() -> tuple[Side, Side]:
    return made_up(name="after"), made_up(seed=1, name="before")


@cache
def three() -> tuple[Side, Side, Side]:
    """Make up the three attentions of a model that reads one text and writes another, its decoder a smaller one."""
    facts: dict[str, Any] = {"texts": ("the fox jumps over.", "le renard saute"), "prediction": None}
    smaller: dict[str, Any] = {"heads": HEADS - 1, **facts}
    return (
        made_up(layers=LAYERS + 1, stack="encoder", **facts),
        made_up(WRITTEN, seed=1, stack="decoder", **smaller),
        made_up(WRITTEN, seed=2, keys=TOKENS, stack="cross", **smaller),
    )


@cache
def page_of(kind: str) -> str:
    """Build the HTML of one of a few pages."""
    made = {
        "one": lambda: [one()],
        "maps": lambda: [all_maps()],
        "causal": lambda: [causal()],
        "causal and not": lambda: [replace(causal(), name="left to right"), replace(one(), name="both ways")],
        "pair": lambda: list(pair()),
        "sentences": lambda: [sentences()],
        "two of sentences": lambda: [sentences(name="finetuned"), sentences(seed=1, name="pretrained")],
        "texts": lambda: [made_up(name="first"), made_up(["[CLS]", "a", "[SEP]"], seed=2, name="second")],
        "hostile": lambda: [
            made_up(
                HOSTILE, texts=("<img src=x onerror=hit()>", "</script><script>hit()</script>"), model="<b>bold</b>"
            )
        ],
        "three": lambda: list(three()),
        "bare": lambda: [replace(made_up(["a", "b"], keys=TOKENS, texts=()), effective=None, ranks=None, maps={})],
        "next": lambda: [following()],
        "long": lambda: [made_up([f"word{i}" for i in range(300)], layers=1, heads=2)],
    }[kind]()
    return build_page(made, title="<script>hit()</script>" if kind == "hostile" else "A fox")


@contextmanager
def opened(
    chromium: Any,
    folder: Path,
    kind: str = "one",
    hash_: str = "",
    *,
    width: int = 1200,
    scheme: str = "light",
    touch: bool = False,
) -> Iterator[Any]:
    """Open and draw a page; afterwards check: no console message, no error, no request but for the file itself."""
    path = folder / f"{kind}.html"
    path.write_text(page_of(kind), encoding="utf-8")
    context = chromium.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, accept_downloads=True, has_touch=touch
    )
    page = context.new_page()
    seen: list[str] = []
    page.on("console", lambda message: seen.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: seen.append(f"error: {error}"))
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url.split("#")[0]))
    page.goto(f"{path.as_uri()}#{hash_}")
    page.evaluate("explorer.ready.then(() => null)")
    yield page
    assert seen == [], seen
    assert {url for url in asked if not url.startswith(("data:", "blob:"))} == {path.as_uri()}, asked
    context.close()


def settle(page: Any) -> Any:
    """Wait until everything is drawn."""
    page.evaluate("explorer.settled().then(() => null)")
    return page


def change(page: Any, **changes: Any) -> Any:
    page.evaluate("(changes) => { explorer.set(changes); }", changes)
    return settle(page)


def state(page: Any) -> dict[str, Any]:
    return page.evaluate("explorer.state")


def readout(page: Any) -> dict[str, str]:
    """Return what is said of the place in focus: text, value, query, key, layer, head, part."""
    return page.evaluate(
        "({ text: document.getElementById('readout').textContent, ...document.getElementById('readout').dataset })"
    )


def pointed(page: Any, columns: int, rows: int, share: float = 1) -> list[dict[str, str]]:
    """Move the pointer over the picture, or its left part, in so many steps; return what is said at each.

    Places of which nothing is said are left out.
    """
    return page.evaluate(
        """async ([columns, rows, share]) => {
          const canvas = document.querySelector(".pane canvas");
          const box = canvas.getBoundingClientRect();
          const said = [];
          for (let i = 0; i < columns * rows; i++) {
            const clientX = box.left + (share * box.width * ((i % columns) + 0.5)) / columns;
            const clientY = box.top + (box.height * (Math.floor(i / columns) + 0.5)) / rows;
            canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
            await explorer.settled();
            const readout = document.getElementById("readout");
            if (!document.getElementById("tip").hidden) said.push({ text: readout.textContent, ...readout.dataset });
          }
          return said;
        }""",
        [columns, rows, share],
    )


def walked(page: Any, keys: list[str]) -> list[dict[str, str]]:
    """Press these keys in the focused picture; return what is said after each."""
    page.focus(".scroll")
    return page.evaluate(
        """async (keys) => {
          const said = [];
          for (const key of keys) {
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            await explorer.settled();
            const readout = document.getElementById("readout");
            said.push({ text: readout.textContent, ...readout.dataset });
          }
          return said;
        }""",
        keys,
    )


def colours(page: Any, pane: int = 0) -> int:
    """Count the colours of the picture; a blank one has one."""
    return page.evaluate(
        """(pane) => {
          const canvas = document.querySelectorAll(".pane canvas")[pane];
          const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
          copy.drawImage(canvas, 0, 0);
          const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
          return new Set(new Uint32Array(data.buffer)).size;
        }""",
        pane,
    )


def downloaded(page: Any, kind: str, folder: Path) -> Path:
    """Save by the menu; return where the file went."""
    page.click("#export")
    with page.expect_download() as waiting:
        page.click(f"[data-export={kind}]")
    place = folder / waiting.value.suggested_filename
    waiting.value.save_as(place)
    return place
