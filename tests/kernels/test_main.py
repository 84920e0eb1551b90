"""Compiling ahead of the first use: every loop, whether or not it succeeds."""

import pytest
import torch

from effective_attention.kernels import choice
from effective_attention.kernels.__main__ import main


@pytest.mark.parametrize(
    ("compiles", "said"), [(True, "compiled, "), (False, "not compiled: the plain references run")]
)
def test_every_loop_is_compiled(
    compiles: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def compile_one(loops: object, *given: object) -> bool:
        asked.append((loops, *given))
        return compiles

    monkeypatch.setattr(choice, "_compiles", compile_one)
    assert main() == (0 if compiles else 1)
    assert capsys.readouterr().out.startswith(said)
    kinds = [(choice._compile_cholesky, dtype) for dtype in (torch.float32, torch.float64)]
    others = [choice._compile_moving_gram, choice._compile_max_flow, choice._compile_simplex]
    assert asked == [*kinds, *((one,) for one in others)]
