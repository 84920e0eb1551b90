"""Brunner et al. (2020) on plain text: attention, token identity and token mixing of MiniLM on WikiText-2.

- ``attention``: Fig. 1 and 5, text by text: the same texts cut at several lengths;
- ``identity`` and ``size``: Fig. 2a and appendix B.2, two runs of ``token_identity`` with ``task=text``;
- ``mixing``: Fig. 3 and 26-37, contributions from the embeddings before and after their LayerNorm, by Penn tag.

Intervals of ``attention`` and ``mixing`` are 95 % bootstrap intervals over texts; rates of ``identity`` and ``size``
come with their standard deviation over folds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from identifiability_tables import LENGTHS, tables
from numpy.typing import NDArray
from page import Numbers, Page, Place, run, with_ends
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from effective_attention.analyses.common.tokens import period_and_comma_ids, token_types
from effective_attention.analyses.null_space import compare_parts
from effective_attention.analyses.token_mixing.analysis import tag_names
from effective_attention.analyses.token_mixing.jacobian import Contributions, contributions
from effective_attention.analyses.token_type_profile import SOURCES, TARGETS, type_profile
from effective_attention.attention.trace import Trace, trace
from effective_attention.data.annotation.tagging import EmbeddedTagger, annotate
from effective_attention.data.plain_text import load
from effective_attention.data.tasks import Task
from effective_attention.models.encoders import embedded_folder
from effective_attention.progress import progress

TEXTS = 40  # of attention
MIXED = {"count": 10, "length": 32}  # the Jacobian's cost grows with the square of a text's length
DIRECTIONS = 4
LEAST = 10  # tokens of a tag that is shown
DRAWS = 1000
MAPS = {
    "identity": ("experiments=[input]", "maps=[naive,linear]", "folds=3"),
    "size": (
        "experiments=[size]",
        "maps=[linear,mlp]",
        "distances=[l2]",
        "sizes=[0.5,0.8,0.9,1.0]",
        "size_layers=[4]",  # the last but one, as in the paper
        "learning_rate=0.001",
        "max_epochs=30",
        "patience=3",
        "limit=60",
        "other_folds=2",
    ),
}


def measure(part: str, place: Place) -> Numbers:
    """Measure a part; those that train maps are runs of ``evaluate.py``, which go on where they were stopped."""
    file = place.folder("wiki") / "wikitext2_test.txt"
    if part == "attention":
        return attention(texts(file, TEXTS), AutoTokenizer.from_pretrained(embedded_folder()))
    if part == "mixing":
        return mixing(texts(file, MIXED["count"]), AutoTokenizer.from_pretrained(embedded_folder()))
    options = [f"analysis.token_identity.{one}" for one in (*MAPS[part], "solver=ridge")]
    data = ("task=text", "data=local", f"data.file={file}", "data.min_words=100", "data.max_length=128")
    same = (*data, "attention=standard", "analysis=token_identity", "limit=100")
    folder = run("evaluate.py", place.work / PAGE.name / part, *same, *options, *place.options)
    return rates(pd.read_parquet(folder / "tables" / "token_identity.parquet"))


def texts(file: Any, count: int) -> list[str]:
    """Return some paragraphs of 100 words and more, evenly spread over the file, as ``task=text`` reads them."""
    task = Task("text", ("text",), {}, None, "text", eval_splits=("text",))
    return [text for (text,) in load(task, "text", file=file, min_words=100).spread(count).texts]


def traces(lines: Sequence[str], tokenizer: Any, lengths: Sequence[int]) -> Iterator[dict[int, Trace]]:
    """Trace each text, cut at each of the lengths."""
    model = AutoModel.from_pretrained(embedded_folder()).eval()
    for line in progress(lines, "identifiability", "texts"):
        yield {length: traced(model, tokenizer, line, length) for length in lengths}


def traced(model: Any, tokenizer: Any, line: str, length: int) -> Trace:
    """Trace a text that is cut, with the kinds of its tokens."""
    inputs = tokenizer(line, truncation=True, max_length=length, return_tensors="pt")
    kinds = annotate([(line,)], tokenizer, length, None, None).kind
    return trace(model, dict(inputs), tokens={"kind": torch.from_numpy(kinds).long()[None]})


def attention(lines: Sequence[str], tokenizer: Any) -> Numbers:
    """Correlate the two attentions at each length, and sum them by type of token at the longest."""
    marks = torch.tensor(period_and_comma_ids(tokenizer.get_vocab()))
    pearson, types = [], []
    for cut in traces(lines, tokenizer, LENGTHS):
        pearson.append(torch.stack([correlation(seen) for seen in cut.values()]))
        types.append(profile(cut[LENGTHS[-1]], marks))
    found = with_ends(torch.stack(pearson))
    profiles = with_ends(torch.stack(types))  # attention, layer, source, target, (mean, low, high)
    return {
        "texts": len(lines),
        "pearson": dict(zip(map(str, LENGTHS), found.tolist(), strict=True)),
        "types": {
            kind: {
                source: {target: profiles[a, :, s, t].tolist() for t, target in enumerate(TARGETS)}
                for s, source in enumerate(SOURCES)
            }
            for a, kind in enumerate(("standard", "effective"))
        },
    }


def correlation(seen: Trace) -> Tensor:
    """Return the correlation of a text's two attentions, mean over heads and layers."""
    found = [compare_parts(layer.exact.attention, layer.exact.effective, seen.mask)[1] for layer in seen.layers]
    return torch.stack(found).double().nanmean()


def profile(seen: Trace, marks: Tensor) -> Tensor:
    """Return a text's weight on each type from each type, mean over heads: (attention, layer, source, target)."""
    types = token_types(seen, marks)
    sources = torch.cat([seen.mask[:, None], types.mT], dim=1)
    there = sources.any(dim=-1)[0][:, None]
    found = [
        torch.stack(
            [type_profile(weights, types, sources)[0].mean(dim=0) for weights in (parts.attention, parts.effective)]
        )
        for parts in (layer.exact for layer in seen.layers)
    ]
    return torch.stack(found, dim=1).where(there, torch.nan)


def rates(table: pd.DataFrame) -> Numbers:
    """Return the rate on the test part by map, layer and share: mean, deviation over folds, folds; and the tokens."""
    tested = table[table["part"] == "test"]
    found: dict[str, Any] = {}
    for (kind, distance, layer, share), rows in tested.groupby(["map", "distance", "layer", "share"]):
        cells = found.setdefault(f"{kind} {distance}", {}).setdefault(str(layer), {})
        cells[f"{share:g}"] = [float(rows["value"].mean()), float(rows["value"].std(ddof=0)), len(rows)]
    trained = table[table["part"] == "train"].groupby("share")["tokens"].mean()
    tokens = {f"{share:g}": float(count) for share, count in trained.items()}
    guess, seen = float(tested["baseline"].mean()), float(tested["tokens"].mean())
    return {"rates": found, "trained": tokens, "tested": seen, "guess": guess, "texts": int(table["examples"].max())}


def mixing(lines: Sequence[str], tokenizer: Any) -> Numbers:
    """Measure what a token's own input contributes, from embeddings before and after their LayerNorm."""
    length = MIXED["length"]
    found: dict[str, list[NDArray[Any]]] = {"normalised": [], "summed": []}
    for cut in traces(lines, tokenizer, (length,)):
        for embeddings, kept in found.items():
            options: Any = {"directions": DIRECTIONS, "seed": 0, "embeddings": embeddings}
            kept.append(own_and_largest(contributions(cut[length], **options)))
    annotated = annotate([(line,) for line in lines], tokenizer, length, EmbeddedTagger(), None)
    tags = tag_names({"kind": annotated.kind, "xpos": annotated.xpos}, "penn")
    numbers: Numbers = {name: medians(kept) for name, kept in found.items()}
    numbers["more, summed"] = medians(found["summed"], found["normalised"])
    return {**numbers, "texts": len(lines), "tokens": len(tags), "tags": by_tag(found, tags)}


def own_and_largest(found: Contributions) -> NDArray[np.float64]:
    """Return each token's own share, and whether some other one is larger, (2, layer, token)."""
    shares = found.shares.double().numpy()
    own = np.diagonal(shares, axis1=1, axis2=2)
    return np.stack([own, own < shares.max(axis=-1)])


def medians(values: Sequence[NDArray[Any]], without: Sequence[NDArray[Any]] | None = None) -> Numbers:
    """Return the median own share and the share of tokens beaten, by layer, each with its interval over texts.

    Args:
        values: Of each text, see ``own_and_largest``.
        without: What is taken off, text by text the same.
    """
    random = np.random.default_rng(0)
    draws = [range(len(values)), *random.integers(len(values), size=(DRAWS, len(values)))]
    drawn = np.stack([_both(values, draw) - (0 if without is None else _both(without, draw)) for draw in draws])
    ends = np.percentile(drawn[1:], (2.5, 97.5), axis=0)
    own, beaten = np.stack([drawn[0], *ends], axis=-1).tolist()
    return {"own": own, "not the largest": beaten}


def _both(values: Sequence[NDArray[Any]], texts: Any) -> NDArray[np.float64]:
    """Return the median of the first row and the mean of the second over all tokens, (2, layer)."""
    together = np.concatenate([values[text] for text in texts], axis=-1)
    return np.stack([np.median(together[0], axis=-1), together[1].mean(axis=-1)])


def by_tag(values: Mapping[str, Sequence[NDArray[Any]]], tags: NDArray[Any]) -> Numbers:
    """Return quartiles of the own shares in the first and the last layer by tag, and how many tokens have it.

    Args:
        values: Of each text, see ``own_and_largest``, by what contributes.
        tags: Of all texts' tokens.
    """
    own = {name: np.concatenate([one[0] for one in texts], axis=-1) for name, texts in values.items()}
    shown = [str(tag) for tag in np.unique(tags) if tag and (tags == tag).sum() >= LEAST]
    return {
        tag: {
            "tokens": int((tags == tag).sum()),
            **{
                name: [np.percentile(mine[layer, tags == tag], (50, 25, 75)).tolist() for layer in (0, -1)]
                for name, mine in own.items()
            },
        }
        for tag in shown
    }


PAGE = Page("identifiability", ("attention", "identity", "size", "mixing"), measure, tables)
