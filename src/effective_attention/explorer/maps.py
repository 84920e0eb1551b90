"""What a side shows beside standard and effective attention: other maps with the same output.

``affine`` is read off the split, next to nothing. Of ``sparse`` and ``smallest`` each row of each head is a program of
its own, so they are made where somebody asks for them, and show how far they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from effective_attention.analyses.common.alone import HeadRows, head_rows
from effective_attention.attention.extra_maps import SIMPLEX
from effective_attention.attention.trace import Trace
from effective_attention.progress import Progress

Maps = dict[str, list[NDArray[np.float64]]]
"""By name, and per layer (head, query, key)."""
DEFAULT_MAPS = ("affine",)


def maps_of(trace: Trace, row: int, names: Sequence[str]) -> Maps:
    """Find the maps of one example of a trace."""
    if not names:
        return {}
    layers = trace.example(row).layers
    read = [name for name in names if name not in SIMPLEX]
    found: Maps = {name: [layer.part(name)[0].double().cpu().numpy() for layer in layers] for name in read}
    rows = (head_rows(layer, range(layer.shape[2])) for layer in layers)
    return found | simplex_maps(rows, sum(layer.shape[1] for layer in layers), names)


def simplex_maps(layers: Iterable[HeadRows], heads: int, names: Sequence[str]) -> Maps:
    """Find those of the maps that are programs.

    Args:
        layers: Attention, values, and what each query sees.
        heads: How many they have together.
        names: Of maps; those that are no programs are left out.
    """
    wanted = [name for name in names if name in SIMPLEX]
    found: Maps = {name: [] for name in wanted}
    if not wanted:
        return found
    with Progress(f"{' and '.join(wanted)} maps", heads * len(wanted), "heads", after=1.0) as shown:
        for rows in layers:
            for name in wanted:
                maps = []
                for one in zip(*rows, strict=True):
                    maps.append(SIMPLEX[name](*one))
                    shown.advance()
                found[name].append(np.stack(maps))
    return found
