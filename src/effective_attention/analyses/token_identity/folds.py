"""Which texts a map is trained on, stopped by, and tested on: 70/15/15 by text, k times.

The texts are shuffled once, with a seed, and laid out in a circle. The test part of fold f is a window of 15 % of them
that starts f/k of the way round; the next 15 % are the validation part, and the rest is the training part. The windows
of 7 folds and more cover the circle, so that every text is tested at least once (with 10 folds, half of them twice);
fewer cannot cover it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

SHARE = 0.15  # of the test part, and of the validation part
_COVERING = 7  # folds: the fewest windows of 15 % that go round


@dataclass(frozen=True, eq=False)
class Fold:
    """Places of texts, each in ascending order."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]

    @property
    def parts(self) -> dict[str, NDArray[np.int64]]:
        return {"train": self.train, "validation": self.validation, "test": self.test}


def make_fold(texts: int, fold: int, folds: int, seed: int) -> Fold:
    """Fold number ``fold`` of ``folds``, the same wherever and whenever it is made.

    Args:
        texts: How many there are: at least 3, and at least as many as folds.
        fold: From 0 to ``folds - 1``.
        folds: How many windows go round.
        seed: Of the shuffle, which all folds share.

    >>> make_fold(20, 0, 10, seed=0).test.size, make_fold(20, 0, 10, seed=0).train.size
    (3, 14)
    """
    if texts < max(3, folds) or not 0 <= fold < folds:
        raise ValueError(f"fold {fold} of {folds} cannot be made of {texts} texts")
    share = max(1, round(SHARE * texts))
    tested = max(share, -(-texts // folds)) if folds >= _COVERING else share
    order = torch.randperm(texts, generator=torch.Generator().manual_seed(seed)).numpy()
    circle = np.roll(order, -(fold * texts // folds))
    parts = np.split(circle, [tested, tested + share])
    test, validation, train = (np.sort(part) for part in parts)
    return Fold(train, validation, test)


def some_of(texts: NDArray[np.int64], share: float, seed: int) -> NDArray[np.int64]:
    """Return a random share of some texts, at least one, in ascending order; smaller shares lie within larger ones.

    >>> some_of(np.arange(10), 0.5, seed=0).size, some_of(np.arange(10), 1.0, seed=0).size
    (5, 10)
    """
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed)).numpy()
    return np.sort(texts[order[: max(1, round(share * len(texts)))]])
