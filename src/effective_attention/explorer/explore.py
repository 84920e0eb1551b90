"""Build a page to explore what attention does with a text, from Python: in a notebook, or as a file.

    >>> explore(model, tokenizer, "A cat sat on the mat.").save("cat.html")  # doctest: +SKIP
    >>> explore(writer, tokenizer, "A cat sat.", target="Eine Katze sass.").save("both.html")  # doctest: +SKIP
    >>> explore(attention=weights, value=values, tokens=patches).save("image.html")  # doctest: +SKIP

The page of a model that reads one text is written by ``python evaluate.py analysis=explorer text="..."``, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from effective_attention.attention.extra_maps import chosen_maps
from effective_attention.attention.model_facts import class_names, config_of
from effective_attention.attention.stacks import has_stacks
from effective_attention.attention.trace import Trace
from effective_attention.data.own_text import as_texts, trace_texts
from effective_attention.explorer.bare import bare_side
from effective_attention.explorer.maps import DEFAULT_MAPS
from effective_attention.explorer.notebook import Explorer
from effective_attention.explorer.page import build_page
from effective_attention.explorer.sides import Prediction, Side, prediction_of, side_of
from effective_attention.explorer.written import written_sides


def explore(
    model: nn.Module | None = None,
    tokenizer: Any = None,
    text: str | None = None,
    text_pair: str | None = None,
    *,
    target: str | None = None,
    beside: nn.Module | str | Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    name: str | Sequence[str] | None = None,
    neurons: bool = True,
    maps: Sequence[str] = DEFAULT_MAPS,
    attention: Any = None,
    value: Any = None,
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
) -> Explorer:
    """Build the page that shows attention, standard, effective and null: of a model on a text, or of bare tensors.

    A model is run once; neither it nor its mode is changed. Of one that reads a text and writes another the page has a
    switch between the attention of its encoder, its decoder, and from the one to the other.

    Args:
        model: Any model whose attention can be met; see ``docs/models.md``.
        tokenizer: The model's.
        text: What to look at; cut, with a warning, where the model can take no more.
        text_pair: Its second half.
        target: What is written, by a model that reads one text and writes another (T5, BART).
        beside: To compare: another model with the same tokenizer (a second checkpoint, say), another text, or a pair of
            texts; of models that write, a text and its target.
        labels: Names of what the model predicts; None: those of its config.
        name: Name of the model, or names of the two models; None: from their configs.
        neurons: Whether queries and keys go into the file, for the neuron view.
        maps: Which other maps with the same output go into the file: ``affine`` (rows sum to 1), and, inside the
            simplex, ``sparse`` and ``smallest``, which take a program for every row: see ``docs/explorer.md``.
        attention: In place of a model: weights (layer, head, query, key), or a list of (head, query, key) for each
            layer; of PyTorch or NumPy. A key of weight 0 in all heads of a layer counts as hidden from the query.
        value: The values they are applied to, (layer, head, key, d_head), or a list likewise; None: not known, and the
            page shows standard attention alone.
        tokens: A name for each query.
        key_tokens: A name for each key; None: those of the queries.

    Raises:
        ValueError: A text is empty, a tensor does not fit, or the model cannot be shown; says why.
    """
    maps = chosen_maps("maps", maps)
    if not (attention is value is tokens is key_tokens is None):
        _check_bare(name, model, tokenizer, text, text_pair, target, beside, labels)
        called = name if isinstance(name, str) else ""
        side = bare_side(attention, value, tokens, key_tokens, model=called, maps=maps)
        return Explorer(build_page([side]))
    if model is None or tokenizer is None:
        raise ValueError("explore needs a model, its tokenizer and a text, or attention=... and tokens=[...]")
    compared = _beside(model, _read_and_written(model, text, text_pair, target), beside)
    names = _names([one for one, _ in compared], name)
    headings = _headings(names, same_model=not isinstance(beside, nn.Module)) if beside is not None else [""]
    sides: list[Side] = []
    for (one, texts), called, heading in zip(compared, names, headings, strict=True):
        facts = {"neurons": neurons, "maps": maps, "model": called, "name": heading}
        sides += _sides(one, tokenizer, texts, labels, facts)
    return Explorer(build_page(sides))


def _beside(model: nn.Module, texts: tuple[str, ...], beside: Any) -> list[tuple[nn.Module, tuple[str, ...]]]:
    """Return the models to show, each with its texts: one, or two to compare."""
    if beside is None:
        return [(model, texts)]
    if not isinstance(beside, nn.Module):
        given = [beside] if isinstance(beside, str) else list(beside)
        if has_stacks(model) and len(given) != 2:
            raise ValueError(f"beside must be another model, or a text and its target, got {beside!r}")
        others = _read_and_written(model, given[0], None, given[1]) if has_stacks(model) else as_texts(*given)
        return [(model, texts), (model, others)]
    if has_stacks(model) != has_stacks(beside):
        names = f"{type(model).__name__} and {type(beside).__name__}"
        raise ValueError(f"beside: only one of {names} reads one text and writes another, so they cannot be compared")
    return [(model, texts), (beside, texts)]


def _sides(
    model: nn.Module, tokenizer: Any, texts: tuple[str, ...], labels: Sequence[str] | None, facts: dict[str, Any]
) -> list[Side]:
    if has_stacks(model):
        return written_sides(model, tokenizer, (texts[0], texts[1]), **facts)
    seen, segments = trace_texts(model, tokenizer, texts)
    return [side_of(seen, tokenizer, texts, segments=segments, prediction=_prediction(seen, labels), **facts)]


def _check_bare(name: Any, *others: Any) -> None:
    """Refuse what belongs to a model, beside bare tensors."""
    if any(other is not None for other in others):
        raise ValueError("explore shows a model on a text, or bare tensors; leave out the one or the other")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name of bare tensors must be one string, got {name!r}")


def _read_and_written(model: nn.Module, text: Any, text_pair: Any, target: Any) -> tuple[str, ...]:
    """Return the texts a model is shown with: a text or a pair, or what is read and what is written."""
    name = type(model).__name__
    if not has_stacks(model):
        if target is not None:
            raise ValueError(f"target is what a model writes that reads another text; leave it out for {name}")
        return as_texts(text, text_pair)
    if target is None or text_pair is not None:
        raise ValueError(f"{name} reads one text and writes another; give the two as text and target=...")
    texts = as_texts(text, target)
    if not texts[1].strip():
        raise ValueError("target is empty; give one with words in it")
    return texts


def _prediction(seen: Trace, labels: Sequence[str] | None) -> Prediction | None:
    """Return the prediction of a model that classifies or scores whole texts; None for any other."""
    if seen.logits is None or seen.logits.ndim != 2:
        return None
    config = config_of(seen.model)
    outputs = seen.logits.shape[1]
    named = class_names(seen.model, outputs) if labels is None else list(labels)
    if len(named) != outputs and outputs > 1:
        raise ValueError(f"labels must be as many as the model's outputs, {outputs}, got {len(named)}")
    several = config is not None and config.problem_type == "multi_label_classification"
    return prediction_of(seen.logits[0], named, several=several)


def _names(models: Sequence[nn.Module], name: str | Sequence[str] | None) -> list[str]:
    if name is None:
        places = [getattr(config_of(model), "name_or_path", "") for model in models]
        return [Path(place).name or type(model).__name__ for place, model in zip(places, models, strict=True)]
    names = [name] * len(models) if isinstance(name, str) else list(name)
    if len(names) != len(models):
        raise ValueError(f"name must be one, or one of each model, got {len(names)} for {len(models)}")
    return names


def _headings(names: Sequence[str], *, same_model: bool) -> list[str]:
    if same_model:
        return ["first text", "second text"]
    return list(names) if len(set(names)) == len(names) else ["first model", "second model"]
