"""Run analyses of any model on any texts from Python, without configs or a trainer."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from torch import nn

from effective_attention.analyses.common.base import Analysis, Context, OtherModels
from effective_attention.analyses.common.registry import find_analysis
from effective_attention.analyses.common.resampling import Resampling
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.common.subject import Subject
from effective_attention.analyses.common.written import written_subject
from effective_attention.attention.model_facts import class_names, config_of, device_of
from effective_attention.attention.readings import Protocol, Reading, Space
from effective_attention.attention.stacks import Stack, check_stack
from effective_attention.data.annotation.tagging import Tagger, annotate, sets_delimiters
from effective_attention.data.batches import EncodedSplit, TextBatches
from effective_attention.data.encoding import encode
from effective_attention.data.examples import Examples, is_unicode
from effective_attention.data.own_text import longest_input
from effective_attention.data.padding import padding_agreed, padding_changes_answer
from effective_attention.data.tasks import Task
from effective_attention.errors import quoted

Texts = Sequence[str | tuple[str, str]]
_LONGEST = 512  # tokens, where the model does not say how many it can take


def analyse(
    model: nn.Module,
    tokenizer: Any,
    texts: Texts,
    analyses: Sequence[str | Analysis],
    *,
    labels: Sequence[int | float] | None = None,
    reference: nn.Module | None = None,
    tagger: Tagger | None = None,
    stack: Stack | None = None,
    targets: Sequence[str] | None = None,
    reading: Protocol = "exact",
    space: Space = "value",
    epsilon: float = 0.0,
    resamples: int = 0,
    batch_size: int = 8,
    max_length: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> dict[str, pd.DataFrame]:
    """Run some analyses on a model and texts, in one pass, and return a table for each.

    Args:
        model: Any model whose attention can be met (``docs/models.md``); it is left as it was.
        tokenizer: The model's, a fast one.
        texts: Strings, or pairs of strings.
        analyses: By name (``"distance"``), or as objects with options (``Distance(special_tokens=True)``).
        labels: What the right answer to each text is, for analyses that ask: numbers of classes, or scores.
        reference: The pretrained model that ``model`` started from, for analyses that compare the two.
        tagger: Finds words, parts of speech and trees, for analyses that ask; None: the embedded English one.
        stack: Which attention of a model that reads one text and writes another (T5, BART): ``encoder``, which is
            analysed as any encoder is, ``decoder`` or ``cross``; None: any other model.
        targets: What is written for each text, for ``decoder`` and ``cross``.
        reading: ``exact``, or ``padded``: effective attention as published.
        space: Of effective attention: ``value``, or ``affine``, where its rows sum to 1 (``docs/readings.md``).
        epsilon: How much of a head's output effective attention may change, as a share of it; 0: nothing.
        resamples: Draws of the texts with replacement; tables that allow it then have a 95 % interval over texts beside
            each value, ``value_low`` and ``value_high``. 1000 are usual; 0: no intervals.
        batch_size: Texts that run together.
        max_length: Longer texts are cut there; None: as many tokens as the model can take, and at most 512 where it
            does not say.
        seed: For analyses that draw a sample.
        progress: Whether to show how far it has got, on stderr.

    Returns:
        The tables by the analyses' names; ``Analysis.schema`` says what their columns mean.

    Raises:
        ValueError: A text is empty, an analysis is unknown, not possible with this model, cannot read the stack, or
            lacks the labels, reference or delimiters it needs.
        UserError: An option of an analysis is wrong, or the model's layers do not attend from tokens to tokens.

    Example:
        >>> texts = ["A cat sat.", "It purred."]
        >>> tables = analyse(model, tokenizer, texts, ["distance", "null_space"])  # doctest: +SKIP
    """
    read = Reading(reading, space, epsilon)
    pairs = _as_tuples(texts)
    chosen = _instances(analyses)
    _check_needs(chosen, tokenizer, labels=labels, reference=reference)
    check_stack(model, stack)
    written = _written(stack, targets, len(pairs), chosen, read)
    whole = model
    model, reference = _readers(model, reference, stack)
    if labels is not None and len(labels) != len(pairs):
        raise ValueError(f"labels must be one for each of {len(pairs)} texts, got {len(labels)}")
    task = _task(model, labels, pair=len(pairs[0]) == 2)
    every = [*pairs, *((text,) for text in written or ())]
    longest = max_length or longest_input(model, tokenizer) or _longest_of(every, tokenizer)
    with padding_agreed(model, tokenizer) as pad_id, padding_agreed(reference or model, tokenizer):
        equal = _without_padding(model, tokenizer, pad_id, read)
        data = TextBatches(tokenizer, batch_size, longest, pad_id, scores=task.is_regression, equal_lengths=equal)
        subject = _subject(model, reference, data, pairs, labels, _tagger_for(chosen, tagger), read)
        if stack is not None and written is not None:
            subject = written_subject(whole, subject, written, data, stack)
        pretrained = None if reference is None else (lambda: reference)
        context = subject.context(seed=seed, task=task, models=OtherModels(pretrained=pretrained))
        _check_possible(chosen, context)
        ready = {name: analysis.setup(context) for name, analysis in chosen.items()}
        resampling = Resampling(resamples, seed=seed) if resamples > 0 else None
        return run_analyses(subject, ready, title="analyses" if progress else None, resampling=resampling)


def _longest_of(texts: Sequence[tuple[str, ...]], tokenizer: Any) -> int:
    """Return how many tokens the longest text has, but not more than 512: for a model that does not say its limit."""
    return min(_LONGEST, max(len(tokenizer(*parts, verbose=False)["input_ids"]) for parts in texts))


def _as_tuples(texts: Texts, name: str = "text") -> list[tuple[str, ...]]:
    """Check that texts are strings, or pairs, all alike and none empty."""
    if isinstance(texts, str):
        raise ValueError(f"{name}s must be a list of texts, got one string; put it in brackets")
    pairs: list[tuple[str, ...]] = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    if not pairs:
        raise ValueError(f"{name}s must be at least one text, got none")
    for number, parts in enumerate(pairs):
        if len(parts) != len(pairs[0]) or len(parts) > 2 or not all(isinstance(part, str) for part in parts):
            raise ValueError(
                f"{name}s must all be strings, or all pairs of strings, got {quoted(parts)} as number {number}"
            )
        if not parts[0].strip():
            raise ValueError(f"{name} number {number} is empty; leave it out")
        if not all(map(is_unicode, parts)):
            raise ValueError(f"{name} number {number} holds half a surrogate pair, which is no character; leave it out")
    return pairs


def _instances(analyses: Sequence[str | Analysis]) -> dict[str, Analysis]:
    """Create the analyses given by name, and copy those given as objects, so that the caller's stay as they were."""
    if isinstance(analyses, str):
        raise ValueError(f"analyses must be a list, got {analyses!r}; put it in brackets")
    made = [find_analysis(one)() if isinstance(one, str) else copy.deepcopy(one) for one in analyses]
    names = [analysis.analysis_name() for analysis in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not made:
        raise ValueError(f"analyses must be at least one, each once, got {names}")
    return dict(zip(names, made, strict=True))


def _check_needs(analyses: Mapping[str, Analysis], tokenizer: Any, *, labels: object, reference: object) -> None:
    for name, analysis in analyses.items():
        if analysis.needs_labels and labels is None:
            raise ValueError(f"analysis {name} asks whether the model is right; add labels=[...]")
        if analysis.needs_reference and reference is None:
            raise ValueError(f"analysis {name} compares with the pretrained model; add reference=<model>")
        if analysis.needs_delimiters and not sets_delimiters(tokenizer):
            raise ValueError(f"analysis {name} is about [CLS] and [SEP], which the tokenizer lacks; leave it out")


def _check_possible(analyses: Mapping[str, Analysis], context: Context) -> None:
    for name, analysis in analyses.items():
        obstacle = analysis.obstacle(context)
        if obstacle is not None:
            raise ValueError(f"analysis {name} is not possible: {obstacle}; leave it out")


def _without_padding(model: Any, tokenizer: Any, pad_id: int, reading: Reading) -> bool:
    """Tell whether no text may be padded, as that changes the model's answer; refuse a reading that pads."""
    changes = padding_changes_answer(model, tokenizer, pad_id)
    if changes and reading.pads:
        raise ValueError(
            f"reading must be exact for {type(model).__name__}, whose answer changes when texts are filled up"
        )
    return changes


def _readers(model: Any, reference: Any, stack: Stack | None) -> tuple[nn.Module, nn.Module | None]:
    """Return what reads the texts, in the model and in its reference: of models that also write, the encoders."""
    if stack is None:
        return model, reference
    if reference is None:
        return model.get_encoder(), None
    check_stack(reference, stack)
    return model.get_encoder(), reference.get_encoder()


def _written(
    stack: Stack | None, targets: Sequence[str] | None, count: int, analyses: Mapping[str, Analysis], reading: Reading
) -> list[str] | None:
    """Return the texts that are written, where the stack is of a model that writes; refuse what cannot be read so."""
    if stack is None or stack == "encoder":
        if targets is not None:
            raise ValueError('targets are what a decoder writes; choose stack="decoder" or "cross", or leave them out')
        return None
    written = [] if targets is None else _as_tuples(targets, "target")
    if len(written) != count or len(written[0]) != 1:
        raise ValueError(f"stack={stack!r} needs targets=[...], what is written for each of {count} texts, a string")
    for name, analysis in analyses.items():
        if stack not in analysis.stacks:
            can = ", ".join(repr(one) for one in ("encoder", *analysis.stacks))
            raise ValueError(f"analysis {name} cannot read stack={stack!r}, only {can}; leave it out")
    if reading.pads:
        raise ValueError(f"reading must be exact with stack={stack!r}, got {reading.protocol!r}")
    return [text for (text,) in written]


def _task(model: nn.Module, labels: Sequence[int | float] | None, *, pair: bool) -> Task:
    """Describe what the model answers, as far as its config and the labels tell."""
    columns = ("text", "text_pair") if pair else ("text",)
    if labels is None:
        return Task("texts", columns, metrics={}, main_metric=None, tsv_folder="")
    config = config_of(model)
    outputs = _count_of(labels) if config is None else int(config.num_labels)
    metric: dict[str, Any]
    if outputs == 1:
        low, high = float(min(labels)), float(max(labels))
        metric = {"pearson": {"_target_": "torchmetrics.regression.PearsonCorrCoef"}}
        return Task("texts", columns, metric, "pearson", "", label_range=(low, high if high > low else low + 1))
    names = class_names(model, outputs)
    accuracy = "torchmetrics.classification.MulticlassAccuracy"
    metric = {"accuracy": {"_target_": accuracy, "num_classes": outputs, "average": "micro"}}
    return Task("texts", columns, metric, "accuracy", "", labels=names)


def _count_of(labels: Sequence[int | float]) -> int:
    """Return how many classes there are, as far as the labels tell; 1: they are scores."""
    return 1 if any(isinstance(label, float) for label in labels) else max(2, int(max(labels)) + 1)


def _tagger_for(analyses: Mapping[str, Analysis], tagger: Tagger | None) -> Tagger | None:
    """Load the embedded tagger if an analysis asks for tags and the caller gave none."""
    if tagger is not None or not any(analysis.needs_tags for analysis in analyses.values()):
        return tagger
    from effective_attention.data.annotation.tagging import EmbeddedTagger

    return EmbeddedTagger()


def _subject(
    model: nn.Module,
    reference: nn.Module | None,
    data: TextBatches,
    texts: list[tuple[str, ...]],
    labels: Sequence[int | float] | None,
    tagger: Tagger | None,
    reading: Reading,
) -> Subject:
    examples = Examples(texts=texts, labels=None if labels is None else list(labels), source="texts")
    encoded = encode(texts, data.tokenizer, data.max_length, None)
    annotated = annotate(texts, data.tokenizer, data.max_length, tagger, None)
    return Subject(
        model, reference, data, EncodedSplit("texts", examples, encoded), annotated, device_of(model), reading
    )
