"""The few numbers of the tables that a dashboard follows, by name.

``cosine/<attention>/layer_<number>``: similarity to the pretrained start, mean over heads (1: unchanged).
``token_attention/<attention>/<type>``: what [CLS] gives at most to a token of the type in the last layer, mean over heads.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd


def named_scalars(tables: Mapping[str, pd.DataFrame]) -> dict[str, float]:
    """From whichever of ``finetuning_shift`` and ``token_types`` there are."""
    scalars: dict[str, float] = {}
    if "finetuning_shift" in tables:
        means = tables["finetuning_shift"].groupby(["attention", "layer"], sort=False)["value"].mean()
        scalars |= {f"cosine/{attention}/layer_{layer:02d}": float(value) for (attention, layer), value in means.items()}
    if "token_types" in tables:
        table = tables["token_types"]
        table = table[(table["statistic"] == "largest") & (table["layer"] == table["layer"].max())]
        means = table.groupby(["attention", "token_type"], sort=False)["value"].mean()
        scalars |= {f"token_attention/{attention}/{kind}": float(value) for (attention, kind), value in means.items()}
    return scalars
