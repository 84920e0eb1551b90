from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.analyses.token_identity.folds import SHARE, make_fold, some_of


@given(texts=st.integers(3, 300), folds=st.integers(1, 12), seed=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_parts_are_disjoint_whole_and_of_the_right_size(texts, folds, seed):
    folds = min(folds, texts)
    tested = set()
    for number in range(folds):
        fold = make_fold(texts, number, folds, seed)
        together = np.concatenate(list(fold.parts.values()))
        np.testing.assert_array_equal(np.sort(together), np.arange(texts))
        assert all(len(part) > 0 for part in fold.parts.values())
        assert abs(len(fold.validation) - SHARE * texts) <= 1
        assert abs(len(fold.test) - SHARE * texts) < 1 + 1e-9
        assert all((np.diff(part) > 0).all() for part in fold.parts.values())
        tested |= set(fold.test.tolist())
    if folds >= 7:
        assert tested == set(range(texts))


def test_mrpc_dev():
    sizes = {tuple(len(part) for part in make_fold(408, fold, 10, seed=0).parts.values()) for fold in range(10)}
    assert sizes == {(286, 61, 61)}


def test_the_same_every_time_and_another_with_another_seed():
    one, same, other = (make_fold(50, 2, 5, seed).test.tolist() for seed in (7, 7, 8))
    assert one == same != other


def test_the_first_fold_does_not_depend_on_how_many_there_are():
    np.testing.assert_array_equal(make_fold(408, 0, 10, 0).test, make_fold(408, 0, 1, 0).test)


@pytest.mark.parametrize(("texts", "fold", "folds"), [(2, 0, 1), (9, 0, 10), (20, 3, 3), (20, -1, 3)])
def test_what_cannot_be_made(texts, fold, folds):
    with pytest.raises(ValueError, match=f"fold {fold} of {folds} cannot be made of {texts} texts"):
        make_fold(texts, fold, folds, seed=0)


def test_smaller_shares_lie_within_larger_ones():
    texts = np.arange(100, 140)
    found = [some_of(texts, share, seed=3) for share in (0.01, 0.25, 0.5, 1.0)]
    assert [len(one) for one in found] == [1, 10, 20, 40]
    assert all(set(small) < set(large) for small, large in pairwise(found))
    np.testing.assert_array_equal(found[-1], texts)
    assert some_of(texts, 0.5, seed=4).tolist() != found[2].tolist()
