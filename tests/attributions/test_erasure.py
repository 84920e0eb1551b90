"""Comprehensiveness and sufficiency against a loop in plain Python."""

import math

import pytest
import torch

from effective_attention.attributions.erasure import SHARES, erasure, top

UNK = 3


def random_scores(case, methods=3):
    return torch.randn(methods, *case.trace.mask.shape, generator=torch.Generator().manual_seed(3))


@torch.no_grad()
def answer(case, row, places, blanks=(), hidden=()):
    inputs = {name: value[row, places][None].clone() for name, value in case.trace.inputs.items()}
    for place in blanks:
        inputs["input_ids"][0, places.index(place)] = UNK
    for place in hidden:
        inputs["attention_mask"][0, places.index(place)] = 0
    return float(case.model(**inputs).logits.double().softmax(-1)[0, int(case.request.target[row])])


def without(case, row, real, gone, how):
    """Return the answer to a text without some of its tokens."""
    left = [place for place in real if place not in gone]
    if how == "blank":
        return answer(case, row, real, gone)
    if how == "hide":
        return answer(case, row, real, hidden=gone if left else ())
    return answer(case, row, left or real)


def naive(case, scores, shares, how, units=None):
    """Return the four measures of one method, text by text; units: the words of each text, as lists of places."""
    found = []
    for row in range(len(scores)):
        real, tokens = (mask[row].nonzero()[:, 0].tolist() for mask in (case.trace.mask, case.words))
        mine = [[place] for place in tokens] if units is None else units[row]
        points = [float(scores[row, place if units is None else number]) for number, (place, *_) in enumerate(mine)]
        order = sorted(range(len(mine)), key=lambda number: (-points[number], number))
        before = answer(case, row, real)
        most = max(0, before - without(case, row, real, tokens, how))
        losses = []
        for share in shares:
            first = order[: max(1, math.ceil(round(share * len(mine), 6)))]
            gone = [place for number in first for place in mine[number]]
            rest = [place for place in tokens if place not in gone]
            needed, enough = (before - without(case, row, real, some, how) for some in (gone, rest))
            parts = [math.nan, math.nan]
            if most >= 1e-5:
                parts = [min(1, max(0, needed) / most), max(0, (most - max(0, enough)) / most)]
            losses.append([needed, enough, *parts])
        found.append(torch.tensor(losses, dtype=torch.float64).mean(dim=0))
    return torch.stack(found).unbind(dim=-1)


@pytest.mark.parametrize("how", ["delete", "blank", "hide"])
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "gpt2", "llama"])
def test_equal_to_the_loop(make_case, family, how):
    case = make_case(family, (14, 9, 4), classes=3)
    scores = random_scores(case)
    found = erasure(case.request, scores, case.special, how=how, unk_id=UNK)
    assert all(part.shape == (3, 3) for part in found)
    for method in range(3):
        for part, expected in zip(found, naive(case, scores[method], SHARES, how), strict=True):
            torch.testing.assert_close(part[method], expected, rtol=1e-3, atol=1e-4, equal_nan=True)
    assert float(found.comprehensiveness.abs().max()) > 1e-2


@pytest.mark.parametrize("how", ["delete", "blank", "hide"])
def test_words_are_erased_as_a_whole(make_case, how):
    """Check words of one to three pieces, by a loop over words."""
    case = make_case("bert", (14, 9, 4), classes=3)
    words = [[[1, 2, 3], [4], [5, 6], [7], [8], [9, 10], [11], [12]], [[1], [2, 3], [4, 5, 6], [7]], [[1, 2]]]
    numbers = torch.full(case.trace.mask.shape, -1)
    for row, mine in enumerate(words):
        for number, places in enumerate(mine):
            numbers[row, places] = number
    scores = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(3))
    found = erasure(case.request, scores, case.special, shares=[0.1, 0.3], how=how, unk_id=UNK, words=numbers)
    for method in range(2):
        for part, expected in zip(found, naive(case, scores[method], [0.1, 0.3], how, words), strict=True):
            torch.testing.assert_close(part[method], expected, rtol=1e-3, atol=1e-4, equal_nan=True)
    alone = torch.where(case.words, torch.arange(14) - 1, -1)  # words of one token each
    tokens = random_scores(case)
    one = erasure(case.request, tokens, case.special, how=how, unk_id=UNK)
    other = erasure(case.request, tokens[..., 1:13], case.special, how=how, unk_id=UNK, words=alone)
    for ours, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_a_hidden_token_keeps_its_place_and_is_not_looked_at(make_case):
    case = make_case("bert")
    with case.runs() as runs:
        erasure(case.request, random_scores(case, 1), case.special, shares=[0.5], how="hide")
    seen = [len(run["input_ids"][0]) for run in runs]
    assert sorted(seen) == [4, 6, 9], "no text is shortened"
    assert any(not bool(run["attention_mask"].all()) for run in runs)
    hidden = [~run["attention_mask"].bool() for run in runs]
    for run, gone in zip(runs, hidden, strict=True):
        assert not bool(gone[:, 0].any()), "[CLS] stays"
        with torch.no_grad():
            other = {**run, "input_ids": torch.where(gone, 29, run["input_ids"])}
            torch.testing.assert_close(case.model(**other).logits, case.model(**run).logits)


def test_nothing_is_left_to_measure_against(make_case):
    """Check a decoder's text: without special tokens all of it cannot go, so nothing can be normalised."""
    case = make_case("gpt2")
    for how in ("delete", "hide"):
        found = erasure(case.request, random_scores(case, 1), case.special, how=how)
        assert found.normalised_comprehensiveness.isnan().all()
        assert found.normalised_sufficiency.isnan().all()
        assert found.comprehensiveness.isfinite().all()


def test_normalised_measures_are_shares(make_case):
    case = make_case("electra", (9, 7, 5, 4), classes=3)
    found = erasure(case.request, random_scores(case, 6), case.special, shares=[1.0])
    known = ~found.normalised_comprehensiveness.isnan()
    assert bool(known.any())
    assert (found.normalised_comprehensiveness[known] == 1).all(), "without any word all is lost that can be"
    assert (found.normalised_sufficiency[known] == 1).all(), "with all words nothing is"
    found = erasure(case.request, random_scores(case, 6), case.special)
    for part in (found.normalised_comprehensiveness, found.normalised_sufficiency):
        assert ((part[known] >= 0) & (part[known] <= 1)).all()


def test_everything_at_the_top(make_case):
    """Check all words removed (only special tokens are left) and all words kept (the text itself, exactly no loss)."""
    case = make_case("bert")
    found = erasure(case.request, random_scores(case, 1), case.special, shares=[1.0])
    assert not found.sufficiency.any()
    for row in range(3):
        real = case.trace.mask[row].nonzero()[:, 0].tolist()
        expected = answer(case, row, real) - answer(case, row, [real[0], real[-1]])
        assert float(found.comprehensiveness[0, row]) == pytest.approx(expected, abs=1e-5)


def test_equal_explanations_cost_no_more(make_case):
    case = make_case("bert")
    scores = random_scores(case, 1)
    with case.runs() as one:
        expected = erasure(case.request, scores, case.special)
    with case.runs() as many:
        found = erasure(case.request, torch.cat([scores, 2 * scores, scores + 5]), case.special)
    assert sum(len(run["input_ids"]) for run in many) == sum(len(run["input_ids"]) for run in one)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours.nan_to_num(-1), theirs.nan_to_num(-1).expand(3, -1))


def test_sizes_round_up_and_ties_go_by_position():
    words = torch.ones(1, 100, dtype=torch.bool)
    sizes = top(torch.randn(1, 1, 100), words, [0.001, 0.07, 0.29, 0.5, 1.0]).sum(dim=-1).flatten()
    assert sizes.tolist() == [1, 7, 29, 50, 100]
    words[0, 0] = False
    tied = top(torch.zeros(1, 1, 100), words, [0.02])
    assert tied.nonzero()[:, -1].tolist() == [1, 2]


def test_bad_calls_are_refused(make_case):
    case = make_case("bert")
    scores = random_scores(case)
    for shares in ([], [0.0], [1.2]):
        with pytest.raises(ValueError, match="shares must be above 0 and at most 1"):
            erasure(case.request, scores, case.special, shares=shares)
    with pytest.raises(ValueError, match="how must be one of delete, blank, hide, got 'mask'"):
        erasure(case.request, scores, case.special, how="mask")
    with pytest.raises(ValueError, match="needs unk_id"):
        erasure(case.request, scores, case.special, how="blank")
    with pytest.raises(ValueError, match="scores must be \\(method, batch, key\\)"):
        erasure(case.request, scores[0], case.special)
    scores[0, 0, 0] = torch.nan  # special: not ranked
    erasure(case.request, scores, case.special)
    scores[0, 0, 1] = torch.nan
    with pytest.raises(ValueError, match="scores must be finite"):
        erasure(case.request, scores, case.special)
