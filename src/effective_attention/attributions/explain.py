"""Which words decided this prediction? One call, from a classifier and a text to highlighted words.

    >>> why = explain(model, tokenizer, "A joy from beginning to end.")  # doctest: +SKIP
    >>> why.save("why.html")  # doctest: +SKIP

Every method of the registry can be chosen by name. The score of a word of several tokens is the sum of theirs where a
text's scores are parts of one whole (integrated gradients, gradient x input, attention, its rollouts), and the largest
in absolute value where each token is measured by itself (blank-out, flow, norms, input gradients): ``Method.pieces``.
Beside the scores stands how far to trust them on this very text (``trust``). Rollout and flow in causal models are
divided by what even attention would bring, as the analysis ``faithfulness`` does (``graphs.receptive_field``).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from torch import nn

from effective_attention.attention.model_facts import class_names, config_of
from effective_attention.attention.stacks import has_stacks
from effective_attention.attention.trace import Part, Trace, trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions.attribute import attribute
from effective_attention.attributions.explanation import Explanation
from effective_attention.attributions.perturbations import blank_id
from effective_attention.attributions.registry import Method, choose_one, impossible
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import Settings
from effective_attention.attributions.trust import Trust, trust_in
from effective_attention.attributions.words import Unit, Word, join_scores, tokens_of, words_of
from effective_attention.data.own_text import as_texts, encode_texts, inputs_for, longest_input
from effective_attention.data.padding import padding_agreed

log = logging.getLogger(__name__)
METHOD = "blank_out"
"""The first, or among the first, of the methods that every model has: docs/findings/league.md."""
ATTENTION: Part = "effective"
UNIT: Unit = "word"
SCORE = "score"
"""What the one output of a regression is called."""


@dataclass(frozen=True)
class Question:
    """How a text is to be explained; see ``explain`` for the fields."""

    method: str = METHOD
    attention: Part = ATTENTION
    layer: int | None = None
    target: int | str | None = None
    labels: Sequence[str] | None = None
    unit: Unit = UNIT
    seed: int = 0


def explain(
    model: nn.Module,
    tokenizer: Any,
    text: str,
    text_pair: str | None = None,
    *,
    method: str = METHOD,
    attention: Part = ATTENTION,
    layer: int | None = None,
    target: int | str | None = None,
    labels: Sequence[str] | None = None,
    unit: Unit = UNIT,
    seed: int = 0,
) -> Explanation:
    """Explain what a classifier makes of a text, word by word; the model is left as it was.

    Args:
        model: Any classifier whose attention can be met (``docs/models.md``), or a regression with one output.
        tokenizer: The model's; of a slow one words cannot be joined, and tokens are shown.
        text: What to explain; cut, with a warning, where the model can take no more.
        text_pair: Its second half.
        method: Name of an attribution method: ``blank_out``, ``integrated_gradients``, ``gradient_x_input``,
            ``rollout`` and so on; ``module:name`` imports a method of your own.
        attention: Which attention is read by methods that read it (others do not ask): ``effective``, what reaches the
            output, or ``standard``.
        layer: Of methods with a score a layer, counted from 0; None: the last.
        target: The class to explain, by number or name; None: the one that the model predicts.
        labels: Names of the classes; None: those of the model's config.
        unit: ``word``, or ``token``, special tokens too.
        seed: Of the random rankings that the explanation is compared with.

    Raises:
        ValueError: The model is no classifier, the text is empty, or an option is wrong; says which are right.
        UserError: There is no such method; says which there are.
    """
    texts = as_texts(text, text_pair)
    question = Question(method, attention, layer, target, labels, unit, seed)
    check_question(question)
    if has_stacks(model):
        raise ValueError(f"explain needs a classifier that reads one text; {type(model).__name__} also writes one")
    encoded = encode_texts(tokenizer, texts, longest_input(model, tokenizer))
    with padding_agreed(model, tokenizer):
        return explain_trace(trace(model, inputs_for(model, encoded)), tokenizer, texts, encoded, question)


def check_question(question: Question) -> Method:
    """Check what does not depend on the model, and find the method.

    Raises:
        ValueError: An option is wrong.
        UserError: There is no such method.
    """
    method = choose_one(question.method, "method")
    if question.attention not in ATTENTIONS:
        raise ValueError(f"attention must be {' or '.join(ATTENTIONS)}, got {question.attention!r}")
    if question.unit not in get_args(Unit):
        raise ValueError(f"unit must be {' or '.join(get_args(Unit))}, got {question.unit!r}")
    if question.layer is not None and not method.reads_attention:
        raise ValueError(f"layer: {method.name} has one score a token, not one a layer; leave it out")
    return method


@dataclass(frozen=True)
class Plan:
    """A question, made out for one model: method, names of the classes, layer, and target (None: the predicted one)."""

    method: Method
    names: tuple[str, ...]
    layer: int | None
    target: int | None


def plan_for(seen: Trace, question: Question) -> Plan:
    """Check a question against a model, known by the trace of any text.

    Raises:
        ValueError: The model is no classifier, lacks the class or the layer, or the method cannot explain it.
        UserError: There is no such method.
    """
    method = check_question(question)
    names = outputs_of(seen, question.labels)
    layer = _layer(question.layer, len(seen.layers)) if method.reads_attention else None
    for name, reason in impossible([method], seen).items():
        raise ValueError(f"method: {name} cannot explain this model: {reason}")
    return Plan(method, names, layer, None if question.target is None else _class(question.target, names))


def explain_trace(seen: Trace, tokenizer: Any, texts: tuple[str, ...], encoded: Any, question: Question) -> Explanation:
    """Explain one traced text without padding; see ``explain``.

    Args:
        seen: The text in the model, which must know what its texts are padded with (``data.padding``).
        tokenizer: The model's.
        texts: What was tokenised.
        encoded: What the tokenizer made of it, as a batch of one.
        question: How to explain it.
    """
    plan = plan_for(seen, question)
    chances = _chances(seen)
    predicted = max(range(len(chances)), key=chances.__getitem__)
    target = predicted if plan.target is None else plan.target
    request = _request(seen, target)
    tokens = tokens_of(encoded, texts, tokenizer)
    words = _words(tokens, texts, encoded, question.unit)
    scores = join_scores(_scores(request, plan, tokens, tokenizer, question), words, plan.method.pieces)
    return Explanation(
        texts=texts,
        words=tuple(words),
        scores=tuple(scores),
        predicted=plan.names[predicted],
        probability=chances[predicted],
        target=plan.names[target],
        target_probability=chances[target],
        method=plan.method.name,
        title=plan.method.title,
        attention=question.attention if plan.method.reads_attention else None,
        layer=plan.layer,
        unit=question.unit,
        trust=_trust(request, words, scores, question.seed),
        is_regression=len(plan.names) == 1,
        is_cut=bool(encoded.is_fast and encoded.encodings[0].overflowing),
    )


def outputs_of(seen: Trace, labels: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of what a classifier chooses from; of a regression there is one, ``score``.

    Raises:
        ValueError: The model is no classifier, may choose several classes at once, or has another number of them.
    """
    name = type(seen.model).__name__
    if seen.logits is None or seen.logits.ndim != 2:
        raise ValueError(
            f"explain needs a classifier, {name} answers with no class of the text; load the model with "
            "AutoModelForSequenceClassification"
        )
    outputs = seen.logits.shape[1]
    if outputs == 1:
        return (SCORE,)
    if getattr(config_of(seen.model), "problem_type", None) == "multi_label_classification":
        raise ValueError(f"explain needs a model that chooses one class; {name} may choose several at once")
    names = class_names(seen.model, outputs) if labels is None else tuple(map(str, labels))
    if len(names) != outputs:
        raise ValueError(f"labels must be as many as the model's outputs, {outputs}, got {len(names)}")
    return names


def _class(target: int | str, names: Sequence[str]) -> int:
    """Find a class by its name, which may be a number, or else by its place."""
    if str(target) in names and not isinstance(target, bool):
        return names.index(str(target))
    if isinstance(target, int) and not isinstance(target, bool) and 0 <= target < len(names):
        return target
    if len(names) == 1:
        raise ValueError(f"target: the model has one output, a score; leave it out, got {target!r}")
    raise ValueError(f"target must be from 0 to {len(names) - 1}, or one of {', '.join(names)}, got {target!r}")


def _layer(layer: int | None, layers: int) -> int:
    if layer is None:
        return layers - 1
    if not isinstance(layer, int) or isinstance(layer, bool) or not 0 <= layer < layers:
        raise ValueError(f"layer must be from 0 to {layers - 1}, got {layer!r}")
    return layer


def _request(seen: Trace, target: int) -> AttributionRequest:
    """Ask for one class of the text, which is number 0 of a split of its own, as random scores want to know."""
    alone = replace(seen, inputs={**seen.inputs, "index": torch.zeros(1, dtype=torch.long)})
    return AttributionRequest(alone, torch.tensor([target], device=seen.logits.device))


def _words(tokens: list[Word], texts: Sequence[str], encoded: Any, unit: Unit) -> list[Word]:
    if unit == "token":
        return tokens
    if not encoded.is_fast:
        log.warning("the tokenizer does not say where its tokens stand in the text: tokens are shown, not words")
    return words_of(tokens, texts)


def _scores(
    request: AttributionRequest, plan: Plan, tokens: Sequence[Word], tokenizer: Any, question: Question
) -> list[float]:
    """Run the method; return a score for each token."""
    words = torch.tensor([[not token.special for token in tokens]], device=request.trace.mask.device)
    settings = Settings(
        blank_id(tokenizer), seed=question.seed, receptive_field=request.trace.causal, title=plan.method.title
    )
    (found,) = attribute(request, words, settings, [plan.method], [question.attention])
    scores: list[float] = found.scores[0, plan.layer or 0].double().tolist()
    return scores


def _trust(request: AttributionRequest, words: Sequence[Word], scores: Sequence[float], seed: int) -> Trust:
    ranked = [(word, score) for word, score in zip(words, scores, strict=True) if not word.special]
    return trust_in(request, [score for _, score in ranked], [word for word, _ in ranked], seed=seed)


def _chances(seen: Trace) -> list[float]:
    logits = seen.logits[0].double()
    chances: list[float] = (logits if len(logits) == 1 else logits.softmax(dim=0)).tolist()
    return chances
