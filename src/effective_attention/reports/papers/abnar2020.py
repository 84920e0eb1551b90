"""Abnar & Zuidema (2020): an encoder from scratch (6 layers, 8 heads, width 128) on verb number; DistilBERT, SST-2."""

from __future__ import annotations

from types import MappingProxyType

Layers = MappingProxyType[int, tuple[float, float]]


def _by_layer(*pairs: tuple[float, float], layers: tuple[int, ...] = (1, 2, 3, 4, 5, 6)) -> Layers:
    return MappingProxyType(dict(zip(layers, pairs, strict=True)))


_SST2_LAYERS = (1, 3, 5, 6)  # those Table 3 has
ABNAR: MappingProxyType[tuple[str, str, str], Layers] = MappingProxyType(
    {
        # Table 1: blank-out, 2 000 test sentences
        ("agreement", "spearman_blank_out", "raw"): _by_layer(
            (0.69, 0.27), (0.10, 0.43), (-0.11, 0.49), (-0.09, 0.52), (0.20, 0.45), (0.29, 0.39)
        ),
        ("agreement", "spearman_blank_out", "rollout"): _by_layer(
            (0.32, 0.26), (0.38, 0.27), (0.51, 0.26), (0.62, 0.26), (0.70, 0.25), (0.71, 0.24)
        ),
        ("agreement", "spearman_blank_out", "flow"): _by_layer(
            (0.32, 0.26), (0.44, 0.29), (0.70, 0.25), (0.70, 0.22), (0.71, 0.22), (0.70, 0.22)
        ),
        # Table 2: input gradients, the same sentences
        ("agreement", "spearman_gradients", "raw"): _by_layer(
            (0.53, 0.33), (0.16, 0.38), (-0.06, 0.42), (0.00, 0.47), (0.24, 0.40), (0.46, 0.35)
        ),
        ("agreement", "spearman_gradients", "rollout"): _by_layer(
            (0.22, 0.31), (0.27, 0.32), (0.39, 0.32), (0.47, 0.32), (0.53, 0.32), (0.54, 0.31)
        ),
        ("agreement", "spearman_gradients", "flow"): _by_layer(
            (0.22, 0.31), (0.31, 0.34), (0.54, 0.32), (0.61, 0.28), (0.60, 0.28), (0.61, 0.28)
        ),
        # Table 3: input gradients as the published code takes them, DistilBERT on SST-2, 100 test sentences
        ("sst2", "spearman_gradients", "raw"): _by_layer(
            (0.12, 0.21), (0.09, 0.21), (0.08, 0.20), (0.09, 0.21), layers=_SST2_LAYERS
        ),
        ("sst2", "spearman_gradients", "rollout"): _by_layer(
            (0.11, 0.19), (0.12, 0.21), (0.13, 0.21), (0.13, 0.20), layers=_SST2_LAYERS
        ),
        ("sst2", "spearman_gradients", "flow"): _by_layer(
            (0.11, 0.19), (0.11, 0.21), (0.12, 0.22), (0.14, 0.21), layers=_SST2_LAYERS
        ),
    }
)
"""Spearman's correlation, mean and standard deviation over sentences, by (task, measure, method) and layer, from 1."""


_BY_CODE = ("sst2",)
"""The tasks whose numbers were made by the published code; for the others none is published."""


def abnar_line(task: str, measure: str, method: str, protocol: str = "ours") -> Layers | None:
    """Return mean and standard deviation by layer (counted from 1, as printed); None where the paper has no such row.

    Table 3 was made by the published code, so that it is to be held against ``protocol="abnar2020"``; Tables 1 and 2
    against ``ours``, which follows the text.

    >>> abnar_line("agreement", "spearman_blank_out", "flow")[6]
    (0.7, 0.22)
    >>> abnar_line("sst2", "spearman_gradients", "flow") is None
    True
    >>> abnar_line("sst2", "spearman_gradients", "flow", "abnar2020")[6]
    (0.14, 0.21)
    """
    if (task in _BY_CODE) != (protocol == "abnar2020"):
        return None
    return ABNAR.get((task, measure, method))
