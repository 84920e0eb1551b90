"""By which protocol are explanations compared? What the papers leave open, as options with two presets.

Abnar & Zuidema (2020) describe their comparison in a few sentences, and their published code does not do what we took
these for. Numbers change sign with it, so that a table says by which protocol it was made:

| | ``ours`` | ``abnar2020``, their code |
|---|---|---|
| ``gradient``, a token's worth | ``norm``: L2, of the log-odds' gradient | ``sum``: absolute sum of the logit's |
| ``query``, whose attention | ``answer``: the answering token's row | ``max``: the largest of all rows |
| ``ties``, equal scores | ``mean``: averaged ranks | ``dense``: no gap, in 1 - 6 Σ d² / (n (n² - 1)) |
| ``delimiters``, are ranked | false | true |
| ``target``, what is explained | ``predicted``: the model's answer | ``first``: class 0, whatever was answered |

``correct`` explains the right answer, as their Tables 1 and 2 do. ``query`` is for raw attention, rollout and flow; all
other methods that read attention read the row of the answer. Their code divides no rollout by what even attention would
bring, causal model or not; ours does in a causal model (``graphs.receptive_field``).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from effective_attention.analyses.common.base import Context
from effective_attention.analyses.common.options import check_one_of
from effective_attention.analyses.common.schema import Column
from effective_attention.attention.trace import Trace
from effective_attention.attributions.ranking import Ties
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import Query
from effective_attention.attributions.summed_gradient import summed_gradient
from effective_attention.errors import UserError, first_line

Gradient = Literal["norm", "sum"]
Target = Literal["predicted", "correct", "first"]
GRADIENTS, QUERIES, TIES, TARGETS = (get_args(kind) for kind in (Gradient, Query, Ties, Target))


@dataclass(frozen=True)
class Protocol:
    """How explanations are compared; what the words mean stands in the module's docstring."""

    gradient: Gradient
    query: Query
    ties: Ties
    delimiters: bool
    target: Target


PRESETS = {
    "ours": Protocol("norm", "answer", "mean", False, "predicted"),
    "abnar2020": Protocol("sum", "max", "dense", True, "first"),
}
GRADIENT = Column(
    "gradient", "a token's worth by gradients: norm of the log-odds' gradient, or sum of the logit's", "name", GRADIENTS
)
QUERY = Column("query", "attention of the token that is answered from, or the largest of all queries", "name", QUERIES)
TIES_COLUMN = Column("ties", "equal scores: mean rank, or dense ranks in the formula without ties", "name", TIES)
DELIMITERS = Column("delimiters", "whether [CLS] and [SEP] are ranked", "flag")
TARGET = Column("target", "what was explained: the predicted class, the correct one, or the first", "name", TARGETS)
PROTOCOL_COLUMNS = (
    Column("protocol", "which preset; the columns after it say what held", "name", tuple(PRESETS)),
    GRADIENT,
    QUERY,
    TIES_COLUMN,
    DELIMITERS,
    TARGET,
)


def choose_protocol(analysis: str, name: str, **options: Any) -> Protocol:
    """Take the preset of a name, and put in its place the options that are not None.

    Raises:
        UserError: The name, or an option, is none of those there are.
    """
    check_one_of(f"analysis.{analysis}.protocol", name, tuple(PRESETS))
    known = {"gradient": GRADIENTS, "query": QUERIES, "ties": TIES, "target": TARGETS, "delimiters": (True, False)}
    given = {option: value for option, value in options.items() if value is not None}
    for option, value in given.items():
        if not any(value is one or (isinstance(value, str) and value == one) for one in known[option]):
            words = " or ".join("true" if one is True else "false" if one is False else one for one in known[option])
            raise UserError(
                f"analysis.{analysis}.{option} must be {words}, or null (as protocol={name} says), got {value!r}"
            )
    return replace(PRESETS[name], **given)


def protocol_facts(name: str, protocol: Protocol) -> dict[str, Any]:
    """Return the values of ``PROTOCOL_COLUMNS``, the same in all rows of a table."""
    return {"protocol": name, **asdict(protocol)}


def targets(trace: Trace, target: Target) -> Int[Tensor, " batch"]:
    """Find the class of each example that is explained; 0 where there is one output, a score."""
    logits = trace.logits
    if logits.shape[-1] == 1 or target == "first":
        return torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    return logits.argmax(dim=-1) if target == "predicted" else trace.inputs["labels"].long()


def no_sum(context: Context) -> str | None:
    """Say why a model's gradients cannot be summed where its embedding ends; None: they can."""
    probe = context.probe
    if probe is None or probe.logits is None or probe.logits.ndim != 2:
        return None
    try:
        summed_gradient(AttributionRequest(probe, targets(probe, "first")))
    except ValueError as error:
        return f"gradient=sum: {first_line(error)}"
    return None
