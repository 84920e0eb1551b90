"""What three papers print in numbers, to stand beside ours, and the order and titles of the tasks.

Sun & Marasović (2021): BERT-base (12 layers, 12 heads, d_v 64) finetuned on GLUE, test sets, one GPU, every input
padded. Abnar & Zuidema (2020): an encoder trained from scratch (6 layers, 8 heads, width 128) on verb number, and
DistilBERT on SST-2. Brunner et al. (2020): BERT-base as pretrained, development sets of MRPC (408 examples), CoLA and
MNLI.
"""

from __future__ import annotations

from types import MappingProxyType

TASK_TITLES = MappingProxyType(
    {
        "rte": "RTE", "mrpc": "MRPC", "qnli": "QNLI", "sst2": "SST-2", "stsb": "STS-B",
        "cola": "CoLA", "mnli": "MNLI", "qqp": "QQP", "wnli": "WNLI",
        "agreement": "Verb number", "treebank": "Treebank",
    }
)  # fmt: skip
"""The paper's five tasks in its order, then the rest of GLUE, then Abnar & Zuidema's, then annotated text without labels."""

PATTERN_ORDER = ("block", "diagonal", "vertical+diagonal", "heterogeneous", "vertical")

TABLE_2: MappingProxyType[tuple[str, str], tuple[float, ...]] = MappingProxyType(
    {
        ("rte", "standard"): (4.50, 7.40, 15.20, 45.10, 27.90),
        ("rte", "effective"): (32.60, 12.80, 2.80, 40.30, 11.50),
        ("mrpc", "standard"): (3.40, 10.20, 14.90, 39.80, 31.80),
        ("mrpc", "effective"): (25.50, 17.40, 3.60, 40.40, 13.00),
        ("qnli", "standard"): (4.70, 7.40, 15.20, 45.10, 27.90),
        ("qnli", "effective"): (29.30, 15.80, 3.40, 46.40, 5.10),
        ("sst2", "standard"): (38.50, 6.10, 0.00, 37.80, 17.60),
        ("sst2", "effective"): (33.80, 11.50, 0.80, 39.40, 14.60),
        ("stsb", "standard"): (4.00, 8.20, 1.80, 50.40, 35.50),
        ("stsb", "effective"): (36.00, 10.30, 0.60, 39.40, 13.60),
    }
)
"""Percent of 1 000 maps by (task, attention), in ``PATTERN_ORDER``. As printed: QNLI and RTE, standard, differ in one number."""

TABLE_3: MappingProxyType[str, tuple[int, int]] = MappingProxyType(
    {"rte": (29, 58), "mrpc": (45, 87), "qnli": (659, 1265), "sst2": (101, 200), "stsb": (174, 353)}
)
"""Evaluation time in seconds: standard, effective (the paper prints minutes:seconds, and calls STS-B "SST-B")."""


def paper_ratio(task: str) -> float | None:
    """Effective time over standard time in the paper's Table 3; None for a task it does not have.

    >>> [round(paper_ratio(task), 2) for task in TABLE_3]
    [2.0, 1.93, 1.92, 1.98, 2.03]
    >>> paper_ratio("cola") is None
    True
    """
    times = TABLE_3.get(task)
    return None if times is None else times[1] / times[0]


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
        # Table 3: input gradients, DistilBERT on SST-2, 100 test sentences
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
"""Spearman's correlation, mean and standard deviation over sentences, by (task, measure, method) and layer, counted from 1."""


def abnar_line(task: str, measure: str, method: str) -> Layers | None:
    """Mean and standard deviation by layer (counted from 1, as printed); None where the paper has no such row.

    >>> abnar_line("agreement", "spearman_blank_out", "flow")[6]
    (0.7, 0.22)
    >>> abnar_line("sst2", "spearman_blank_out", "flow") is None
    True
    """
    return ABNAR.get((task, measure, method))


BRUNNER_LAYERS = 12
"""Of BERT-base, which Brunner et al. (2020) read; they count layers from 1."""

BRUNNER_RATES: MappingProxyType[tuple[str, str, str], MappingProxyType[int, float]] = MappingProxyType(
    {
        ("mrpc", "linear", "cosine"): MappingProxyType({12: 0.93}),
        ("mrpc", "mlp", "l2"): MappingProxyType({11: 0.82}),
    }
)
"""Share of tokens identified, by (task, map, distance) and layer, counted from 1 (§4.2, B.2); the rest is only drawn."""

BRUNNER_RANDOM: MappingProxyType[str, float] = MappingProxyType({"mrpc": 0.017, "cola": 0.09, "mnli": 0.026})
"""Random guessing, 1 / mean length (Appendix D.1)."""

BRUNNER_OWN: MappingProxyType[int, float] = MappingProxyType({1: 0.306, 6: 0.144, 12: 0.107})
"""MRPC: median contribution of a token's own input, by layer, counted from 1 (§5.2)."""

BRUNNER_NOT_LARGEST: MappingProxyType[int, float] = MappingProxyType(
    {1: 0.0, 2: 0.0, 3: 0.0, 6: 0.18, 11: 0.30, 12: 0.30}
)
"""MRPC: share of tokens whose own input is not the largest contributor, by layer, counted from 1 (§5.2)."""
