"""The absolute sum of a logit's gradient where the embedding ends, against hand-made differences and its promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from effective_attention.attributions.summed_gradient import summed_gradient


def by_differences(case: Any, row: int, place: int, label: int, step: float = 1e-6) -> float:
    """Add a little to all dimensions of one token behind BERT's embeddings, and see what the logit does."""
    length = int(case.trace.mask[row].sum())
    inputs = {name: value[row : row + 1, :length] for name, value in case.trace.inputs.items()}
    logits = []
    for sign in (1, -1):

        def moved(_module: Any, _inputs: Any, output: Any, sign: int = sign) -> Any:
            change = torch.zeros_like(output)
            change[0, place] = sign * step
            return output + change

        hook = case.model.base_model.embeddings.register_forward_hook(moved)
        with torch.no_grad():
            logits.append(float(case.model(**inputs).logits[0, label]))
        hook.remove()
    return abs(logits[0] - logits[1]) / (2 * step)


def test_against_differences(make_case: Any) -> None:
    case = make_case("bert", double=True)
    target = torch.tensor([1, 0, 1])
    found = summed_gradient(replace(case.request, target=target))
    for row, length in enumerate((9, 6, 4)):
        for place in range(length):
            expected = by_differences(case, row, place, int(target[row]))
            assert found[row, place].item() == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert not found[row, length:].any()


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "gpt2", "llama"])
def test_batch_is_loop_and_padding_changes_nothing(make_case: Any, family: str) -> None:
    case = make_case(family, double=True)
    found, padded = summed_gradient(case.request), summed_gradient(case.padded(3).request)
    torch.testing.assert_close(padded[:, : found.shape[1]], found)
    for row, length in enumerate((9, 6, 4)):
        torch.testing.assert_close(summed_gradient(case.alone(row).request)[0], found[row, :length])


def test_a_model_that_hands_out_copies_is_refused(make_case: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^XLNetForSequenceClassification hands out copies of its embeddings, which no"
    ):
        summed_gradient(make_case("xlnet").request)
