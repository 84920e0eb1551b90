"""The few numbers of the tables that a dashboard follows, by name.

``cosine/<attention>/layer_<number>``: similarity to the pretrained start, mean over heads (1: unchanged).
``distance/<attention>/layer_<number>``: how far attention reaches, in tokens, mean over heads.
``alignment/<attention>/layer_<number>``: share of attention between words in a dependency relation, mean over heads.
``token_attention/<attention>/<type>``: what [CLS] gives at most to a token of the type in the last layer, mean over
heads.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd


def named_scalars(tables: Mapping[str, pd.DataFrame]) -> dict[str, float]:
    """From whichever of ``finetuning_shift``, ``distance``, ``dependency_alignment`` and ``token_types`` there are."""
    scalars: dict[str, float] = {}
    for name, analysis in (
        ("cosine", "finetuning_shift"),
        ("distance", "distance"),
        ("alignment", "dependency_alignment"),
    ):
        if analysis in tables:
            scalars |= _by_layer(name, tables[analysis])
    if "token_types" in tables:
        table = tables["token_types"]
        table = table[(table["statistic"] == "largest") & (table["layer"] == table["layer"].max())]
        means = table.groupby(["attention", "token_type"], sort=False)["value"].mean()
        scalars |= {f"token_attention/{attention}/{kind}": float(value) for (attention, kind), value in means.items()}
    return scalars


def _by_layer(name: str, table: pd.DataFrame) -> dict[str, float]:
    """Means over heads; of dependencies all together, either way, without the baselines."""
    if "relation" in table:
        table = table[
            (table["relation"] == "all") & (table["direction"] == "either") & (table["attention"] != "baseline")
        ]
    means = table.groupby(["attention", "layer"], sort=False)["value"].mean()
    return {f"{name}/{attention}/layer_{layer:02d}": float(value) for (attention, layer), value in means.items()}
