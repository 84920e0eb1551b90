"""Compiling ahead of the first use: every loop, for one thread and for many, whether or not it succeeds."""

import pytest
import torch

from effective_attention.kernels import choice
from effective_attention.kernels.__main__ import main


@pytest.mark.parametrize(
    ("compiles", "said"), [(True, "compiled, "), (False, "not compiled: the plain references run")]
)
def test_every_loop_is_compiled_for_one_thread_and_for_many(
    compiles: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def compile_one(loops: object, *given: object) -> bool:
        asked.append((loops, *given, torch.get_num_threads() > 1))
        return compiles

    monkeypatch.setattr(choice, "_compiles", compile_one)
    threads = torch.get_num_threads()
    assert main() == (0 if compiles else 1)
    assert capsys.readouterr().out.startswith(said)
    loops = (choice._compile_cholesky, choice._compile_moving_gram)
    kinds = [(loop, dtype) for loop in loops for dtype in (torch.float32, torch.float64)]
    wanted = [*kinds, (choice._compile_max_flow,)]
    assert asked == [(*kind, many) for many in (False, True) for kind in wanted]
    assert torch.get_num_threads() == threads
