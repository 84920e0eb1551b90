"""Derivatives with rules of our own equal PyTorch's, and are what is computed inside the block."""

import pytest
import torch
from torch.nn import functional

from effective_attention.analyses.token_mixing import tangents
from effective_attention.analyses.token_mixing.tangents import SharedDerivatives

GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=GENERATOR)


WEIGHT, BIAS, SCALE = normal(4, 4), normal(4), normal(4)
FUNCTIONS = {
    "gelu": functional.gelu,
    "gelu, tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "linear": lambda x: functional.linear(x, WEIGHT, BIAS),
    "linear without bias": lambda x: functional.linear(x, WEIGHT),
    "layer norm": lambda x: functional.layer_norm(x, (4,), SCALE, SCALE, 1e-3),
    "layer norm, by name": lambda x: functional.layer_norm(x, (4,), weight=SCALE, bias=None, eps=1e-12),
    "layer norm without weight": lambda x: functional.layer_norm(x, (3, 4)),
    "several": lambda x: functional.gelu(
        functional.linear(functional.layer_norm(x, (4,), SCALE), WEIGHT, BIAS)
    ).softmax(-1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives_are_pytorchs(name):
    function, x, directions = FUNCTIONS[name], normal(2, 3, 4), normal(6, 2, 3, 4)

    def along(direction):
        return torch.func.jvp(function, (x,), (direction,))

    value, expected = torch.func.vmap(along)(directions)
    with SharedDerivatives():
        same, got = torch.func.vmap(along)(directions)
    torch.testing.assert_close(same, value)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(("function", "rule"), [("gelu", "_Gelu"), ("linear", "_Linear"), ("layer norm", "_LayerNorm")])
def test_the_rule_is_used_inside_the_block_only(function, rule, monkeypatch):
    monkeypatch.setattr(getattr(tangents, rule), "jvp", staticmethod(lambda ctx, tangent, *_: tangent * 0))
    x = normal(3, 4)
    outside = torch.func.jvp(FUNCTIONS[function], (x,), (x,))[1]
    with SharedDerivatives():
        inside = torch.func.jvp(FUNCTIONS[function], (x,), (x,))[1]
    assert not outside.eq(0).all()
    assert inside.eq(0).all()
