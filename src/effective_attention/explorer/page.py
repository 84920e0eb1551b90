"""Build the explorer as one HTML file: a header, the packed numbers, and the script that draws them.

Nothing is fetched, and the page's own policy forbids it; the policy names the one script by its hash, so that nothing
that a text might bring along can run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effective_attention import __version__
from effective_attention.attention.extra_maps import EXTRA_MAPS
from effective_attention.attention.variants import VARIANTS
from effective_attention.explorer.modules import link
from effective_attention.explorer.packing import ALPHABET, pack, whole_numbers
from effective_attention.explorer.sides import Array, KeyTokens, Side
from effective_attention.explorer.words import Words
from effective_attention.graphs.conventions import RESIDUAL
from effective_attention.policy import content_policy
from effective_attention.reports.paths import model_name, without_folders

TEMPLATES = Path(__file__).parent / "static"
MADE_BY = f"effective-attention {__version__}"
NEURON_DECIMALS = 2
_LONG = 256  # tokens: above, one decimal less


def build_page(sides: Sequence[Side], *, title: str | None = None, index: str | None = None) -> str:
    """Build the page. No folder of this machine is named in it: of a path its last part is shown.

    Args:
        sides: One, or two to be shown side by side; of models with three attentions (``Side.stack``), that for each.
        title: Title of the window and of the page; None: ``title_of(sides)``.
        index: Where the list of all pages is, seen from this one; None: there is none.
    """
    title = title_of(sides) if title is None else title
    blocks: dict[str, str] = {}
    decimals = decimals_for(max(side.longest for side in sides))
    stacks = list(dict.fromkeys(side.stack for side in sides if side.stack is not None))
    groups = [[side for side in sides if side.stack == stack] for stack in stacks] or [list(sides)]
    header = {
        "version": 1,
        "title": title,
        "made_by": MADE_BY,
        "alphabet": ALPHABET,
        "decimals": decimals,
        "neuron_decimals": NEURON_DECIMALS,
        "attentions": _attentions(sides),
        "signed": [*(name for name, variant in VARIANTS.items() if variant.signed), "difference"],
        "stacks": stacks,
        "same_tokens": all(len(pair) == 2 and _comparable(*pair) for pair in groups),
        "sides": [_described(side, _packed(side, decimals, blocks)) for side in sides],
    }
    return fill("explorer", "start.js", title=title, header=_safe_json(header), blocks=blocks, index=index)


def _attentions(sides: Sequence[Side]) -> list[str]:
    """List the attentions that the page can show: what every side holds, and what follows from that."""
    if any(side.effective is None for side in sides):
        return ["standard"]
    maps = [name for name in EXTRA_MAPS if all(name in side.maps for side in sides)]
    return ["standard", "effective", "null", *maps, "difference"]


def fill(name: str, entry: str, /, **contents: Any) -> str:
    """Fill a template: with the styles that all pages share, its own, and the script that begins at ``entry``."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    script = _script(entry)
    style = "".join((TEMPLATES / file).read_text(encoding="utf-8") for file in ("shared.css", f"{name}.css"))
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    return environment.get_template(f"{name}.html.j2").render(
        made_by=MADE_BY, policy=content_policy(script, images="data: blob:"), style=style, script=script, **contents
    )


@cache
def _script(entry: str) -> str:
    return link(TEMPLATES, entry)


def title_of(sides: Sequence[Side]) -> str:
    """Write whose attention the page shows."""
    models = dict.fromkeys(model_name(side.model) for side in sides if side.model)
    return f"Attention of {' and '.join(models)}" if models else "Attention"


def decimals_for(size: int) -> int:
    """Return how many decimals attention weights get, so that the file does not become too large."""
    return 5 if size <= _LONG else 4


def _comparable(one: Side, other: Side) -> bool:
    """Tell whether the difference of two sides means anything: same tokens, same layers, same heads."""
    shapes = {(len(side.standard), side.standard[0].shape) for side in (one, other)}
    keys = [None if side.keys is None else side.keys.tokens for side in (one, other)]
    return one.tokens == other.tokens and keys[0] == keys[1] and len(shapes) == 1


def _described(side: Side, blocks: dict[str, list[str | None]]) -> dict[str, Any]:
    heads = len(side.standard[0])
    return {
        "name": without_folders(side.name),
        "model": model_name(side.model),
        "checkpoint": None if side.checkpoint is None else without_folders(side.checkpoint),
        "texts": list(side.texts),
        "tokens": side.tokens,
        "special": side.special,
        "segments": side.segments,
        "words": _words(side.words),
        "keys": None if side.keys is None else _described_keys(side.keys),
        "stack": side.stack,
        "layers": len(side.standard),
        "heads": heads,
        "size": side.size,
        "d_key": 0 if side.query is None else side.query[0].shape[-1],
        "scaling": side.scaling,
        "causal": side.causal,
        "prediction": side.prediction,
        "gold": side.gold,
        "right": side.right,
        "ranks": side.ranks,
        "convention": "absolute",
        "residual": RESIDUAL,
        "blocks": blocks,
    }


def _described_keys(keys: KeyTokens) -> dict[str, Any]:
    return {"size": len(keys.tokens), "tokens": keys.tokens, "special": keys.special, "words": _words(keys.words)}


def _words(words: Words | None) -> dict[str, Any] | None:
    return None if words is None else asdict(words)


def _packed(side: Side, decimals: int, blocks: dict[str, str]) -> dict[str, list[str | None]]:
    """Add the numbers of a side to ``blocks``; return the names of its blocks, layer by layer."""

    def add(numbers: Any) -> str:
        name = f"b{len(blocks)}"
        blocks[name] = pack(numbers)
        return name

    def neurons(parts: list[Array] | None) -> list[str | None]:
        return (
            [None] * len(side.standard)
            if parts is None
            else [add(whole_numbers(part, NEURON_DECIMALS)) for part in parts]
        )

    parts = {"standard": side.standard, "effective": side.effective or side.standard, **side.maps}
    layers = [
        _stored([whole_numbers(of, decimals) for of in layer], add) for layer in zip(*parts.values(), strict=True)
    ]
    weights = dict(zip(parts, map(list, zip(*layers, strict=True)), strict=True))
    return {**weights, "query": neurons(side.query), "key": neurons(side.key)}


def _stored(parts: Sequence[NDArray[np.int64]], add: Callable[[Any], str]) -> list[str | None]:
    """Store a layer's attentions, each numbers once; return the names of their blocks, standard attention's first.

    None: it is standard attention, too.
    """
    names: list[str] = []
    for place, numbers in enumerate(parts):
        same = next((names[before] for before in range(place) if np.array_equal(parts[before], numbers)), None)
        names.append(add(numbers) if same is None else same)
    return [names[0], *(None if name == names[0] else name for name in names[1:])]


def _safe_json(values: dict[str, Any]) -> str:
    """Write JSON in ASCII, without the letters that could end a script element."""
    text = json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
