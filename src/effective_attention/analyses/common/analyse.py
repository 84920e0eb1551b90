"""Run analyses of any model on any texts from Python, without configs or a trainer."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from transformers import PreTrainedModel

from effective_attention.analyses.common.base import Analysis, OtherModels
from effective_attention.analyses.common.registry import find_analysis
from effective_attention.analyses.common.run import run_analyses
from effective_attention.analyses.common.subject import Subject
from effective_attention.attention.decomposition import Reading
from effective_attention.data.annotation.tagging import Tagger, annotate
from effective_attention.data.batches import EncodedSplit, TextBatches
from effective_attention.data.encoding import encode
from effective_attention.data.examples import Examples, is_unicode
from effective_attention.data.tasks import Task
from effective_attention.errors import quoted

Texts = Sequence[str | tuple[str, str]]
_LONGEST = 512  # tokens, where neither model nor tokenizer says how many it can take


def analyse(
    model: PreTrainedModel,
    tokenizer: Any,
    texts: Texts,
    analyses: Sequence[str | Analysis],
    *,
    labels: Sequence[int | float] | None = None,
    reference: PreTrainedModel | None = None,
    tagger: Tagger | None = None,
    reading: Reading = "exact",
    batch_size: int = 8,
    max_length: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> dict[str, pd.DataFrame]:
    """Run some analyses on a model and texts, in one pass, and return a table for each.

    Args:
        model: Any transformers model whose attention goes through the ``AttentionInterface``; it is left as it was.
        tokenizer: The model's, a fast one.
        texts: Strings, or pairs of strings.
        analyses: By name (``"distance"``), or as objects with options (``Distance(special_tokens=True)``).
        labels: What the right answer to each text is, for analyses that ask: numbers of classes, or scores.
        reference: The pretrained model that ``model`` started from, for analyses that compare the two.
        tagger: Finds words, parts of speech and trees, for analyses that ask; None: the embedded English one.
        reading: ``exact``, or ``padded``: effective attention as published.
        batch_size: Texts that run together.
        max_length: Longer texts are cut there; None: as many tokens as the model can take.
        seed: For analyses that draw a sample.
        progress: Whether to show how far it has got, on stderr.

    Returns:
        The tables by the analyses' names; ``Analysis.schema`` says what their columns mean.

    Raises:
        ValueError: A text is empty, an analysis is unknown, or lacks labels or the reference it needs.

    Example:
        >>> texts = ["A cat sat.", "It purred."]
        >>> tables = analyse(model, tokenizer, texts, ["distance", "null_space"])  # doctest: +SKIP
    """
    pairs = _as_tuples(texts)
    chosen = _instances(analyses)
    _check_needs(chosen, labels=labels, reference=reference)
    if labels is not None and len(labels) != len(pairs):
        raise ValueError(f"labels must be one for each of {len(pairs)} texts, got {len(labels)}")
    task = _task(model, labels, pair=len(pairs[0]) == 2)
    data = TextBatches(
        tokenizer,
        batch_size if tokenizer.pad_token_id is not None else 1,  # without a padding token texts run alone
        max_length or longest_input(model, tokenizer) or _LONGEST,
        scores=task.is_regression,
    )
    subject = _subject(model, reference, data, pairs, labels, _tagger_for(chosen, tagger), reading)
    pretrained = None if reference is None else (lambda: reference)
    context = subject.context(seed=seed, task=task, models=OtherModels(pretrained=pretrained))
    ready = {name: analysis.setup(context) for name, analysis in chosen.items()}
    return run_analyses(subject, ready, title="analyses" if progress else None)


def longest_input(model: PreTrainedModel, tokenizer: Any) -> int | None:
    """Return how many tokens the model can take; None if it does not say."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None:
        return None
    embeddings = getattr(model.base_model, "embeddings", None)
    unused = getattr(embeddings, "padding_idx", None)  # RoBERTa counts positions from after that of padding
    return min(int(positions) - (0 if unused is None else unused + 1), int(tokenizer.model_max_length))


def _as_tuples(texts: Texts) -> list[tuple[str, ...]]:
    """Check that texts are strings, or pairs, all alike and none empty."""
    if isinstance(texts, str):
        raise ValueError("texts must be a list of texts, got one string; put it in brackets")
    pairs: list[tuple[str, ...]] = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    if not pairs:
        raise ValueError("texts must be at least one text, got none")
    for number, parts in enumerate(pairs):
        if len(parts) != len(pairs[0]) or len(parts) > 2 or not all(isinstance(part, str) for part in parts):
            raise ValueError(
                f"texts must all be strings, or all pairs of strings, got {quoted(parts)} as number {number}"
            )
        if not parts[0].strip():
            raise ValueError(f"text number {number} is empty; leave it out")
        if not all(map(is_unicode, parts)):
            raise ValueError(f"text number {number} holds half a surrogate pair, which is no character; leave it out")
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


def _check_needs(analyses: Mapping[str, Analysis], *, labels: object, reference: object) -> None:
    for name, analysis in analyses.items():
        if analysis.needs_labels and labels is None:
            raise ValueError(f"analysis {name} asks whether the model is right; add labels=[...]")
        if analysis.needs_reference and reference is None:
            raise ValueError(f"analysis {name} compares with the pretrained model; add reference=<model>")


def _task(model: PreTrainedModel, labels: Sequence[int | float] | None, *, pair: bool) -> Task:
    """Describe what the model answers, as far as its config and the labels tell."""
    columns = ("text", "text_pair") if pair else ("text",)
    if labels is None:
        return Task("texts", columns, metrics={}, main_metric=None, tsv_folder="")
    outputs = int(getattr(model.config, "num_labels", 1))
    metric: dict[str, Any]
    if outputs == 1:
        low, high = float(min(labels)), float(max(labels))
        metric = {"pearson": {"_target_": "torchmetrics.regression.PearsonCorrCoef"}}
        return Task("texts", columns, metric, "pearson", "", label_range=(low, high if high > low else low + 1))
    names = tuple(str(model.config.id2label.get(number, number)) for number in range(outputs))
    accuracy = "torchmetrics.classification.MulticlassAccuracy"
    metric = {"accuracy": {"_target_": accuracy, "num_classes": outputs, "average": "micro"}}
    return Task("texts", columns, metric, "accuracy", "", labels=names)


def _tagger_for(analyses: Mapping[str, Analysis], tagger: Tagger | None) -> Tagger | None:
    """Load the embedded tagger if an analysis asks for tags and the caller gave none."""
    if tagger is not None or not any(analysis.needs_tags for analysis in analyses.values()):
        return tagger
    from effective_attention.data.annotation.tagging import EmbeddedTagger

    return EmbeddedTagger()


def _subject(
    model: PreTrainedModel,
    reference: PreTrainedModel | None,
    data: TextBatches,
    texts: list[tuple[str, ...]],
    labels: Sequence[int | float] | None,
    tagger: Tagger | None,
    reading: Reading,
) -> Subject:
    examples = Examples(texts=texts, labels=None if labels is None else list(labels), source="texts")
    encoded = encode(texts, data.tokenizer, data.max_length, None)
    annotated = annotate(texts, data.tokenizer, data.max_length, tagger, None)
    return Subject(model, reference, data, EncodedSplit("texts", examples, encoded), annotated, model.device, reading)
