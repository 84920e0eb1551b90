"""What the paper's figures show of the contributions of many texts. Pure functions from texts to tidy rows.

Every token counts once, texts of any length together. Medians and quartiles are exact, so all contributions are held in
memory: layer x n x n numbers a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped
from numpy import ndarray

CLS, SEP = "[CLS]", "[SEP]"
BOX = ("median", "mean", "quartile_1", "quartile_3", "whisker_low", "whisker_high")
"""What ``box`` returns of many values."""
GROUPS = {"1": (1, 1), "2": (2, 2), "3": (3, 3), "4-5": (4, 5), "6-10": (6, 10), "11+": (11, None)}
"""Distances of neighbours that the paper takes together: from, to."""
REACH = 30
"""Offsets are shown up to here, to both sides."""


@dataclass(frozen=True, eq=False)
class Text:
    """One text's contributions.

    Attributes:
        shares: Of each input token (key) in each hidden embedding (query).
        errors: Their standard errors.
        tags: Part of speech of each token's word, ``[CLS]``, ``[SEP]``, or empty.
        answer: Position of the token that the model answers from; None: that of [CLS].
    """

    shares: Float[ndarray, "layer query key"]
    errors: Float[ndarray, "layer query key"]
    tags: Shaped[ndarray, " query"]
    answer: int | None = None

    @property
    def answers(self) -> list[int]:
        """Return the position of the token that the model answers from; none where there is none."""
        return np.flatnonzero(self.tags == CLS)[:1].tolist() if self.answer is None else [self.answer]


def all_statistics(texts: Sequence[Text]) -> pd.DataFrame:
    """Everything below, under each other."""
    parts = [own(texts), not_largest(texts), neighbours(texts), offsets(texts), to_cls(texts), stated_error(texts)]
    return pd.concat(parts, ignore_index=True)


def own(texts: Sequence[Text]) -> pd.DataFrame:
    """Return what a token's own input contributes, as a box plot's numbers: all tokens, then by tag (Fig. 3a, 26-37).

    A word's part of speech counts for each of its sub-tokens.
    """
    values = np.concatenate([np.diagonal(text.shares, axis1=1, axis2=2) for text in texts], axis=1)  # (layer, token)
    tags = np.concatenate([text.tags for text in texts])
    rows = []
    for tag in ("", *sorted(set(tags.tolist()) - {""})):
        mine = values if tag == "" else values[:, tags == tag]
        for statistic, numbers in box(mine).items():
            rows.append(_layers("own", numbers, statistic=statistic, tag=tag, count=mine.shape[1]))
    return pd.concat(rows, ignore_index=True)


def box(values: Float[ndarray, "layer token"]) -> dict[str, Float[ndarray, " layer"]]:
    """Return median, mean, quartiles and Tukey's whiskers, the furthest values within 1.5 times the box."""
    values = values.astype(np.float64)
    low, middle, high = np.percentile(values, (25, 50, 75), axis=1)
    reach = 1.5 * (high - low)
    inside = (values >= (low - reach)[:, None]) & (values <= (high + reach)[:, None])
    lowest = np.where(inside, values, np.inf).min(axis=1)
    highest = np.where(inside, values, -np.inf).max(axis=1)
    return {
        "median": middle,
        "mean": values.mean(axis=1),
        "quartile_1": low,
        "quartile_3": high,
        "whisker_low": np.minimum(lowest, low),  # never inside the box, also where quartiles fall between values
        "whisker_high": np.maximum(highest, high),
    }


def not_largest(texts: Sequence[Text]) -> pd.DataFrame:
    """Return the share of tokens to which some other input contributes more than their own (Fig. 3b, 40b, 42b)."""
    beaten = [np.diagonal(text.shares, axis1=1, axis2=2) < text.shares.max(axis=-1) for text in texts]
    values = np.concatenate(beaten, axis=1)
    return _layers("not_largest", values.mean(axis=1), statistic="share", count=values.shape[1])


def neighbours(texts: Sequence[Text]) -> pd.DataFrame:
    """Return contributions of groups of neighbours, averaged over tokens.

    Appendix C.2 takes "the mean of the left and right neighbours for each of the groups". We read: contributions of a
    group are added up on each side, then the sides are averaged; a side on which the text has no token of the group
    does not count, nor does a token with no such neighbour at all. ``relative`` values of a group sum to 1 over the
    layers.
    """
    rows = []
    for name, (low, high) in GROUPS.items():
        total, count = 0.0, 0
        for text in texts:
            mean, counted = _both_sides(text.shares, low, high)
            total = total + mean[:, counted].sum(axis=1)
            count += int(counted.sum())
        means = np.broadcast_to(total / count if count else np.nan, texts[0].shares.shape[0])
        rows.append(_layers("neighbour", means, statistic="mean", group=name, count=count))
        rows.append(_layers("neighbour", means / means.sum(), statistic="relative", group=name, count=count))
    return pd.concat(rows, ignore_index=True)


def _both_sides(
    shares: Float[ndarray, "layer query key"], low: int, high: int | None
) -> tuple[Float[ndarray, "layer query"], Shaped[ndarray, " query"]]:
    """Return the mean of left and right sums, and which tokens have a neighbour at such a distance."""
    places = np.arange(shares.shape[-1])
    distance = places - places[:, None]  # (query, key)
    sides = [(side >= low) & (side <= (high or len(places))) for side in (-distance, distance)]
    there = np.sum([side.any(axis=-1) for side in sides], axis=0)
    sums = np.sum([(shares * side).sum(axis=-1, dtype=np.float64) for side in sides], axis=0)
    return sums / np.maximum(there, 1), there > 0


def offsets(texts: Sequence[Text], reach: int = REACH) -> pd.DataFrame:
    """Return contributions by position relative to the token, which itself is 0.

    ``mean``: over the tokens that have another there. ``total``: the sum over tokens; those of a layer add up to 1.
    """
    places = list(range(-reach, reach + 1))
    found = {place: [np.diagonal(text.shares, place, axis1=1, axis2=2) for text in texts] for place in places}
    return _by_offset(
        "offset", {place: np.concatenate(values, axis=1) for place, values in found.items()}, ("mean", "total")
    )


def to_cls(texts: Sequence[Text]) -> pd.DataFrame:
    """Return contributions to [CLS] by position from it and from the first [SEP]; a layer's add up to 1 (Fig. 18).

    Where a model answers from another token, as causal ones do from the last, that one is in the place of [CLS].
    """
    tables = []
    for centre in ("cls", "sep"):
        found: dict[int, list[Any]] = {}
        for text in texts:
            centres = text.answers if centre == "cls" else np.flatnonzero(text.tags == SEP).tolist()
            for key in range(len(text.tags)) if text.answers and centres else ():
                found.setdefault(key - centres[0], []).append(text.shares[:, text.answers[0], key])
        columns = {place: np.stack(found[place], axis=1) for place in sorted(found)}
        tables.append(_by_offset("cls", columns, ("total",), centre=centre))
    return pd.concat(tables, ignore_index=True)


def stated_error(texts: Sequence[Text]) -> pd.DataFrame:
    """Average standard error / contribution over blocks; what cannot contribute (in a causal model) is left out."""
    total, count = 0.0, 0
    for text in texts:
        known = text.shares > 0
        relative = np.divide(text.errors, text.shares, out=np.zeros_like(text.errors), where=known)
        total, count = total + relative.sum(axis=(1, 2), dtype=np.float64), count + known.sum(axis=(1, 2))
    return _layers("error", total / count, statistic="standard_error", count=count)


def word_context(shares: Float[ndarray, "layer query key"], query: int, tokens: Sequence[str]) -> pd.DataFrame:
    """Return what one token's hidden embedding is made of, layer by layer."""
    layers, _, keys = shares.shape
    index = pd.MultiIndex.from_product([range(layers), range(keys)], names=["layer", "key"])
    table = index.to_frame(index=False).assign(
        quantity="word", query=query, value=shares[:, query].reshape(-1).astype(np.float64)
    )
    return table.assign(token=[tokens[key] for key in table["key"]])


def _layers(quantity: str, values: Any, **columns: Any) -> pd.DataFrame:
    """Make a row for each layer's value."""
    return pd.DataFrame({"quantity": quantity, "layer": range(len(values)), **columns, "value": values})


def _by_offset(
    quantity: str, found: Mapping[int, Float[ndarray, "layer token"]], statistics: Sequence[str], **columns: Any
) -> pd.DataFrame:
    """Rows of means, and of totals that add up to 1 in each layer; offsets that no token has are left out."""
    known = {place: values.astype(np.float64) for place, values in found.items() if values.shape[1]}
    if not known:
        return pd.DataFrame()
    whole = sum(values.sum(axis=1) for values in known.values())
    rows = []
    for place, values in known.items():
        numbers = {"mean": values.mean(axis=1), "total": values.sum(axis=1) / whole}
        where = {"offset": place, "count": values.shape[1], **columns}
        rows += [_layers(quantity, numbers[name], statistic=name, **where) for name in statistics]
    return pd.concat(rows, ignore_index=True)
