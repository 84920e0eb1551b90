"""Blank-out against a loop over texts and tokens, each run alone."""

import pytest
import torch

from effective_attention.attributions.blank_out import blank_out

UNK = 3


@torch.no_grad()
def naive(case):
    scores = torch.zeros(case.trace.mask.shape, dtype=torch.float64)
    for row in range(len(scores)):
        alone = {name: value[row : row + 1, case.trace.mask[row]] for name, value in case.trace.inputs.items()}
        target = int(case.request.target[row])
        before = case.model(**alone).logits.double().softmax(-1)[0, target]
        for place in case.words[row].nonzero()[:, 0].tolist():
            ids = alone["input_ids"].clone()
            ids[0, place] = UNK
            scores[row, place] = (
                before - case.model(**{**alone, "input_ids": ids}).logits.double().softmax(-1)[0, target]
            )
    return scores


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "gpt2", "llama"])
def test_equal_to_the_loop(make_case, family):
    case = make_case(family, classes=3)
    expected = naive(case)
    assert float(expected.abs().max()) > 1e-2
    torch.testing.assert_close(blank_out(case.request, case.special, UNK), expected, rtol=1e-3, atol=1e-6)


def test_of_a_regression_the_loss_of_score(make_case):
    case = make_case("bert", (5,), classes=1)
    ids = case.trace.inputs["input_ids"].clone()
    ids[0, 2] = UNK
    with torch.no_grad():
        after = case.model(**{**case.trace.inputs, "input_ids": ids}).logits[0, 0]
    found = blank_out(case.request, case.special, UNK)[0, 2]
    assert float(found) == pytest.approx(float(case.trace.logits[0, 0] - after), abs=1e-5)


def test_rows_bound_what_runs_together_and_nothing_is_run_twice(make_case):
    case = make_case("bert", (9, 6, 6))
    with case.runs() as runs:
        few = blank_out(case.request, case.special, UNK, rows=4)
    shapes = [tuple(run["input_ids"].shape) for run in runs]
    assert max(rows for rows, _ in shapes) == 4
    assert {length: sum(rows for rows, width in shapes if width == length) for length in (6, 9)} == {6: 2 * 5, 9: 8}
    torch.testing.assert_close(few, blank_out(case.request, case.special, UNK), rtol=0, atol=1e-6)


def test_an_unknown_word_cannot_be_blanked(make_case):
    case = make_case("bert")
    case.trace.inputs["input_ids"][0, 2] = UNK
    found = blank_out(case.request, case.special, UNK)
    assert float(found[0, 2]) == 0
    assert float(found[0, 3].abs()) > 0
