"""Sun & Marasović (2021): BERT-base (12 layers, 12 heads, d_v 64) finetuned on GLUE; test sets, one GPU, padding."""

from __future__ import annotations

from types import MappingProxyType

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
"""Percent of 1 000 maps by (task, attention), in ``PATTERN_ORDER``.

As printed: QNLI and RTE, standard, differ in one number.
"""

TABLE_3: MappingProxyType[str, tuple[int, int]] = MappingProxyType(
    {"rte": (29, 58), "mrpc": (45, 87), "qnli": (659, 1265), "sst2": (101, 200), "stsb": (174, 353)}
)
"""Evaluation time in seconds: standard, effective (the paper prints minutes:seconds, and calls STS-B "SST-B")."""


def paper_ratio(task: str) -> float | None:
    """Return effective time over standard time in the paper's Table 3; None for a task it does not have.

    >>> [round(paper_ratio(task), 2) for task in TABLE_3]
    [2.0, 1.93, 1.92, 1.98, 2.03]
    >>> paper_ratio("cola") is None
    True
    """
    times = TABLE_3.get(task)
    return None if times is None else times[1] / times[0]
