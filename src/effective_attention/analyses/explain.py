"""Which words decided the prediction of one text, and how far is that to be trusted?

The text is an example of the split, or the user's own. What is computed is ``attributions.explain``; the table has a
row for each word, and what is the same for all of them (the prediction, the checks) in every row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd

from effective_attention.analyses.common.base import Analysis, Context, TextAnalysis
from effective_attention.analyses.common.schema import Column, Schema
from effective_attention.attention.trace import Trace, one_text, trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions.explain import (
    ATTENTION,
    METHOD,
    UNIT,
    Question,
    check_question,
    explain_trace,
    plan_for,
)
from effective_attention.attributions.explanation import Explanation
from effective_attention.errors import UserError

_OPTION = "analysis.explain"
SCHEMA = Schema(
    (
        Column("examples", "always 1: one example of the split, or the user's text", "whole", low=1, high=1),
        Column("attention", "which attention the method read; empty: it reads none", "name", ATTENTIONS, missing=True),
        Column("method", "the attribution method", "name"),
        Column(
            "layer", "whose scores these are, counted from 0; empty: the method has none", "whole", low=0, missing=True
        ),
        Column("predicted", "the class that the model predicts; score: of a regression", "name"),
        Column("probability", "of the predicted class; of a regression the score itself"),
        Column("target", "the class that is explained", "name"),
        Column("target_probability", "of that class; of a regression the score itself"),
        Column("gold", "the right class or score; empty: not known", "name", missing=True),
        Column("comprehensiveness", "probability (score) lost without the words ranked highest; more is better"),
        Column("comprehensiveness_random", "the same for random rankings, their mean"),
        Column("comprehensiveness_beaten", "how many random rankings do worse", "whole", low=0),
        Column("sufficiency", "probability (score) lost with these words alone; less is better"),
        Column("sufficiency_random", "the same for random rankings, their mean"),
        Column("sufficiency_beaten", "how many random rankings do worse", "whole", low=0),
        Column("rankings", "how many random rankings there are", "whole", low=0),
        Column("position", "place of the word, counted from 0", "whole", low=0, key=True),
        Column("segment", "0, or 1 for the second text of a pair", "whole", low=0, high=1),
        Column("before", "what stands between the word before and this one, mostly a blank", "name", missing=True),
        Column("word", "as it stands in the text; with unit token, a token", "name"),
        Column("special", "whether it is a special token, only with unit token", "flag"),
        Column("score", "positive: speaks for the target"),
    )
)


class Explain(TextAnalysis):
    """The words of one text with their scores; the table is described by ``SCHEMA``.

    Args:
        example: Which example of the split, counted from 0; not read where the user wrote a text.
        method: Name of an attribution method, or ``module:name`` of your own.
        attention: ``effective`` or ``standard``, for methods that read attention.
        layer: Of methods with a score a layer, counted from 0; None: the last.
        target: The class to explain, by number or name; None: the predicted one.
        unit: ``word``, or ``token``, special tokens too.
    """

    schema = SCHEMA
    needs_answer = True
    needs_embeddings = True

    def __init__(
        self,
        *,
        example: int = 0,
        method: str = METHOD,
        attention: str = ATTENTION,
        layer: int | None = None,
        target: int | str | None = None,
        unit: str = UNIT,
    ) -> None:
        super().__init__(example=example)
        self.question = Question(method, attention, layer, target, unit=unit)  # type: ignore[arg-type]
        _with_option(check_question, self.question)

    def setup(self, context: Context) -> Analysis:
        """Check that the model has the class and the layer."""
        super().setup(context)
        labels = context.task.labels if context.task is not None else ()
        self.asked = replace(self.question, labels=tuple(labels) or None, seed=context.seed)
        if context.probe is not None:
            _with_option(plan_for, context.probe, self.asked)
        return self

    def look(self, trace: Trace) -> pd.DataFrame:
        """Explain the text, and write a row for each of its words."""
        context = self.context
        texts = self._texts()
        encoded = context.tokenizer(
            *texts, truncation=True, max_length=context.max_length, return_tensors="pt", verbose=False
        )
        found = explain_trace(_alone(trace), context.tokenizer, texts, encoded, self.asked)
        return _table(found, _gold(trace, self.asked.labels))

    def _texts(self) -> tuple[str, ...]:
        context = self.context
        if context.text is not None:
            return context.text.texts
        if context.split.texts is None:
            raise ValueError("analysis explain needs to know the split's texts (SplitFacts.texts)")
        return context.split.texts(self.example)


def _with_option(check: Callable[..., object], *given: Any) -> None:
    """Check, and name the option in full where it is wrong."""
    try:
        check(*given)
    except (ValueError, UserError) as error:
        raise UserError(f"{_OPTION}.{error}") from error


def _alone(cut: Trace) -> Trace:
    """Trace the text without the others of its batch; as published it was padded, and must be read as it is."""
    reading = cut.layers[0].reading
    return cut if reading.pads else trace(cut.model, one_text(cut, 0), reading=reading)


def _gold(cut: Trace, labels: Any) -> str | None:
    known = cut.inputs.get("labels")
    if known is None:
        return None
    return f"{float(known[0]):g}" if labels is None else str(labels[int(known[0])])


def _table(found: Explanation, gold: str | None) -> pd.DataFrame:
    table = found.to_frame()
    trust = found.trust
    same = {
        "examples": 1,
        "attention": found.attention,
        "method": found.method,
        "layer": found.layer,
        "predicted": found.predicted,
        "probability": found.probability,
        "target": found.target,
        "target_probability": found.target_probability,
        "gold": gold,
        "rankings": trust.rankings,
    }
    for name, measured in (("comprehensiveness", trust.comprehensiveness), ("sufficiency", trust.sufficiency)):
        same |= {name: measured.value, f"{name}_random": measured.random, f"{name}_beaten": measured.beaten}
    table["before"] = _before(found)
    return table.assign(**same).astype({"layer": "Int64"})[SCHEMA.names]


def _before(found: Explanation) -> list[str]:
    """Return what stands in front of each word, so that the text can be put together again."""
    gaps = []
    ends: dict[int, int] = {}
    for word in found.words:
        start = ends.get(word.segment, 0)
        gaps.append("" if word.start is None else found.texts[word.segment][start : word.start])
        ends[word.segment] = start if word.end is None else max(start, word.end)
    return gaps
