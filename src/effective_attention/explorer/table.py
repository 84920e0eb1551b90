"""The table beside the explorer's page: what it shows, and what the model predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from effective_attention.analyses.common.schema import Column, Schema
from effective_attention.explorer.sides import Prediction, Side

OWN_TEXT = -1
SCHEMA = Schema(
    (
        Column(
            "examples", "how many examples of the split have a page; 1: one page, maybe of the user's text", "whole"
        ),
        Column("example", "number of the example in the split; -1: the user's text", "whole", low=OWN_TEXT, key=True),
        Column("side", "0, or 1 for what it is compared with", "whole", low=0, high=1, key=True),
        Column("name", "what the side is called; empty where there is one", "name", missing=True),
        Column("model", "whose attention is shown", "name"),
        Column("checkpoint", "where its weights come from; empty: not from a checkpoint", "name"),
        Column("layers", "of the model", "whole", low=1),
        Column("heads", "of a layer", "whole", low=1),
        Column("tokens", "of the text", "whole", low=1),
        Column("gold", "what the data says is right: a label or a score; empty: not known", "name", missing=True),
        Column("label", "what may be predicted; empty where nothing is", "name", key=True, missing=True),
        Column("value", "probability of the label, or the score"),
    )
)


def rows_of(number: int, sides: Sequence[Side]) -> list[dict[str, Any]]:
    """Make the rows of a page: one for each side and label."""
    return [
        {
            "examples": 1,
            "example": number,
            "side": place,
            "name": side.name,
            "model": side.model,
            "checkpoint": side.checkpoint or "",
            "layers": len(side.standard),
            "heads": len(side.standard[0]),
            "tokens": side.size,
            "gold": written(side.gold),
            **answer,
        }
        for place, side in enumerate(sides)
        for answer in answers(side.prediction)
    ]


def written(gold: str | float | None) -> str:
    """Write what is right as the table has it."""
    return "" if gold is None else f"{gold:g}" if isinstance(gold, float) else gold


def answers(prediction: Prediction | None) -> list[dict[str, Any]]:
    """List what may be predicted, with its probability or score."""
    if prediction is None:
        return [{"label": "", "value": float("nan")}]
    if prediction["kind"] == "score":
        return [{"label": "score", "value": prediction["score"]}]
    return [{"label": label, "value": chance} for label, chance in prediction["probabilities"]]
