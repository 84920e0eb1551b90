"""Weights of a stranger: names and numbers, in memory that the file brought along."""

import pytest
import torch

from effective_attention.models.stored_weights import check_tensors


def test_plain_weights_pass() -> None:
    shared = torch.zeros(4, 2)
    check_tensors({"a": torch.zeros(3), "b": torch.nn.Parameter(torch.zeros(2, 2)), "c": shared, "d": shared})
    check_tensors({"one of several in one memory": torch.zeros(100)[10:20], "turned": torch.zeros(4, 2).T})
    check_tensors({"empty": torch.zeros(0), "half": torch.zeros(2, dtype=torch.bfloat16), "mask": torch.ones(2).bool()})
    check_tensors({})


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("a" * 1000, torch.zeros(1), "a weight's name is no short text: 'aaa"),
        (("a",), torch.zeros(1), "a weight's name is no short text"),
        ("w", [1.0], "weight w must be a tensor, got list"),
        ("w\n", torch.zeros(1).expand(3), r"weight w\\n claims the shape \[3\], and has memory for less"),
        ("w", torch.zeros(1, device="meta"), "weight w must be a dense tensor of numbers"),
        ("w", torch.zeros(1, dtype=torch.complex128), "weight w must be real numbers, got torch.complex128"),
    ],
)
def test_others_are_refused(name: object, tensor: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_tensors({name: tensor})


def test_a_memory_is_not_shared_by_thousands() -> None:
    one = torch.zeros(1000)
    with pytest.raises(ValueError, match="claim more memory than they have"):
        check_tensors({str(number): one for number in range(10)})
