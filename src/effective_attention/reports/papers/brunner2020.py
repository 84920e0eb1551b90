"""Brunner et al. (2020): BERT-base as pretrained, development sets of MRPC (408 examples), CoLA and MNLI."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from effective_attention.reports.grid import NONE

BRUNNER_LAYERS = 12
"""Of BERT-base, which Brunner et al. (2020) read; they count layers from 1."""

BRUNNER_RATES: MappingProxyType[tuple[str, str, str], MappingProxyType[int, float]] = MappingProxyType(
    {
        ("mrpc", "linear", "cosine"): MappingProxyType({12: 0.93}),
        ("mrpc", "mlp", "l2"): MappingProxyType({11: 0.82}),
    }
)
"""Share of tokens identified by (task, map, distance) and layer, counted from 1 (§4.2, B.2); the rest is only drawn."""

BRUNNER_SIZES: MappingProxyType[float, float] = MappingProxyType({0.5: 0.74, 0.8: 0.80, 0.9: 0.81, 1.0: 0.82})
"""MRPC: share of tokens an MLP on layer 11 identifies by L2, by share of the training texts (B.2)."""

BRUNNER_RANDOM: MappingProxyType[str, float] = MappingProxyType({"mrpc": 0.017, "cola": 0.09, "mnli": 0.026})
"""Random guessing, 1 / mean length (Appendix D.1)."""

BRUNNER_OWN: MappingProxyType[int, float] = MappingProxyType({1: 0.306, 6: 0.144, 12: 0.107})
"""MRPC: median contribution of a token's own input, by layer, counted from 1 (§5.2)."""

BRUNNER_NOT_LARGEST: MappingProxyType[int, float] = MappingProxyType(
    {1: 0.0, 2: 0.0, 3: 0.0, 6: 0.18, 11: 0.30, 12: 0.30}
)
"""MRPC: share of tokens whose own input is not the largest contributor, by layer, counted from 1 (§5.2)."""


def printed(line: Mapping[int, float], *, percent: bool = False) -> str:
    """Set the numbers the paper prints, by layer, as text; a dash where the paper only draws.

    >>> printed({12: 0.93}), printed({1: 0.306, 6: 0.144}, percent=True)
    ('0.93 (layer 12); of 12', '30.6 (layer 1), 14.4 (layer 6); of 12')
    """
    words = [f"{100 * value:.3g}" if percent else f"{value:.2f}" for value in line.values()]
    places = [f"{word} (layer {layer})" for word, layer in zip(words, line, strict=True)]
    return f"{', '.join(places)}; of {BRUNNER_LAYERS}" if places else NONE
