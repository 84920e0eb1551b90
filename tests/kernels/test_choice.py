"""The compiled loops where they can be had, the references where not: same results, one warning, no error swallowed.

What a process does that has no numba is seen in a process of its own, in which the import fails.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from effective_attention.attention.decomposition import split
from effective_attention.graphs.flow import attention_flow
from effective_attention.kernels import (
    choice,
    cholesky,
    cholesky_reference,
    max_flow,
    max_flow_reference,
    simplex,
    simplex_reference,
)
from helpers.paths import ROOT

# Effective attention of three examples (more keys than the heads are wide, fewer, and one key hidden) and the flow of a
# graph, each asked for twice and on one thread and on two; what was warned of, and what was imported.
WORK = """
import json, logging, sys
import torch
from effective_attention import decompose
from effective_attention.graphs.flow import attention_flow
from effective_attention.kernels import choice

warned = []
class Collect(logging.Handler):
    def emit(self, record):
        warned.append(record.getMessage())
logging.getLogger().addHandler(Collect(logging.WARNING))

def effective(dtype, keys):
    random = torch.Generator().manual_seed(keys)
    attention = torch.randn(2, 3, keys, keys, generator=random, dtype=dtype).softmax(dim=-1)
    value = torch.randn(2, 3, keys, 6, generator=random, dtype=dtype)
    mask = torch.ones(2, keys, dtype=torch.bool)
    mask[1, -1] = False
    parts = decompose(attention, value, mask)
    return {"effective": parts.effective.tolist(), "rank": parts.rank.tolist()}

def flow():
    scores = 3 * torch.randn(5, 7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return attention_flow(scores.softmax(dim=-1)).tolist()

found = {}
for threads in (1, 2, 1):
    torch.set_num_threads(threads)
    for dtype in (torch.float32, torch.float64):
        for keys in (4, 11):
            found[f"{dtype} {keys}"] = effective(dtype, keys)
    found["flow"] = flow()
loaded = [name for name in ("numba", "llvmlite") if sys.modules.get(name) is not None]
graph = type(choice.layered_graph(torch.ones(1, 2, 2).double().numpy())).__module__.split(".")[-1]
print(json.dumps({"found": found, "warned": warned, "loaded": loaded, "graph": graph}))
"""

# As if a package were not installed, or would not load: the import of the modules named on the command line fails.
BLOCK = """
import importlib.abc, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Block())
"""

# Compilers that have changed: what is asked of them when a loop is compiled is not there any more.
NO_VECTORS = """
import llvmlite.ir
del llvmlite.ir.IRBuilder.shuffle_vector
"""
NO_ARRAYS = """
import numba.core.cgutils
del numba.core.cgutils.get_item_pointer
"""


def run(code: str, *arguments: str, cache: Path | None = None) -> Any:
    """What a new process prints, read as JSON; with an empty ``cache`` nothing is there that was compiled before."""
    environment = {
        "PATH": "/usr/bin",
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "2",
        "NUMBA_NUM_THREADS": "2",
    }
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    """What the compiled loops find."""
    answer = run(WORK)
    assert answer["warned"] == []
    assert answer["loaded"] == ["numba", "llvmlite"]
    assert answer["graph"] == "max_flow"
    return answer["found"]


def assert_same(found: dict[str, Any], want: dict[str, Any]) -> None:
    assert found.keys() == want.keys()
    for name in want.keys() - {"flow"}:
        np.testing.assert_allclose(found[name]["effective"], want[name]["effective"], rtol=0, atol=1e-6, err_msg=name)
        assert found[name]["rank"] == want[name]["rank"], name
    np.testing.assert_allclose(found["flow"], want["flow"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("missing", ["numba", "llvmlite"])
def test_without_a_package(missing: str, compiled: dict[str, Any]) -> None:
    answer = run(BLOCK + WORK, missing)
    assert missing not in answer["loaded"]
    assert answer["graph"] == "max_flow_reference"
    assert_same(answer["found"], compiled)
    (warning,) = answer["warned"]
    assert f"ModuleNotFoundError: No module named '{missing}" in warning
    assert "results are the same" in warning
    assert "pip install" in warning


@pytest.mark.parametrize(
    ("change", "lost", "graph"),
    [(NO_VECTORS, "shuffle_vector", "max_flow"), (NO_ARRAYS, "get_item_pointer", "max_flow_reference")],
    ids=["only the vector type", "every loop"],
)
def test_with_a_compiler_that_has_changed(
    change: str, lost: str, graph: str, compiled: dict[str, Any], tmp_path: Path
) -> None:
    """Without the vector type PyTorch takes over; the flow does not use the type and stays compiled."""
    answer = run(change + WORK, cache=tmp_path)
    assert answer["loaded"] == ["numba", "llvmlite"]
    assert answer["graph"] == graph
    assert_same(answer["found"], compiled)
    (warning,) = answer["warned"]
    assert lost in warning
    assert "\n" not in warning


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: nothing has been tried yet."""
    monkeypatch.setattr(choice, "_known", {})


def values(keys: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, keys, 4, generator=torch.Generator().manual_seed(0)), torch.ones(2, keys, dtype=torch.bool)


def refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("this one was not to be asked")


@pytest.mark.usefixtures("undecided")
def test_here_the_compiled_loops_run(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for module, name in (
        (cholesky_reference, "independent_rows"),
        (cholesky_reference, "orthonormal_columns"),
        (max_flow_reference, "LayeredGraph"),
    ):
        monkeypatch.setattr(module, name, refuse)
    assert choice.independent_rows(*values(3), 1e-12).all()
    assert choice.orthonormal_columns(*values(), whitener=False)[1].shape == (2, 0, 0)
    assert isinstance(choice.layered_graph(np.ones((2, 3, 3))), max_flow.LayeredGraph)
    assert caplog.records == []


@pytest.mark.usefixtures("undecided")
@pytest.mark.parametrize("error", [RuntimeError, OSError, AttributeError, TypeError, IndexError, ValueError])
def test_whatever_compiling_raises_one_warning(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[object] = []

    def fail(*given: object) -> None:
        tried.append(given)
        raise error("the first line\nand a second")

    for module in (cholesky, max_flow):
        monkeypatch.setattr(module, "compile_loops", fail)
    for name in ("independent_rows", "orthonormal_columns"):
        monkeypatch.setattr(cholesky, name, refuse)
    for _ in range(3):
        assert choice.independent_rows(*values(3), 1e-12).all()
        assert choice.orthonormal_columns(*values(), whitener=True)[3].isfinite().all()
        assert isinstance(choice.layered_graph(np.ones((2, 3, 3))), max_flow_reference.LayeredGraph)
    assert tried == [(torch.float32,), ()]  # each once, not at every call
    (record,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert error.__name__ in record.getMessage()
    assert "the first line" in record.getMessage()
    assert "second" not in record.getMessage()


@pytest.mark.usefixtures("undecided")
def test_programs_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    reached, weights = np.full((3, 1), 3**-0.5), np.array([0.5, 0.3, 0.2])
    given = reached[None], np.array([[3, 1]]), np.zeros(1, dtype=np.int64), weights[None]
    assert isinstance(choice.polytope(reached, weights), simplex.Polytope)
    ours = choice.weight_intervals(*given)
    monkeypatch.setattr(choice, "_known", {})
    monkeypatch.setattr(simplex, "compile_loops", refuse)
    assert isinstance(choice.polytope(reached, weights), simplex_reference.Polytope)
    np.testing.assert_allclose(choice.weight_intervals(*given), ours, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("undecided")
def test_an_error_of_the_data_is_not_taken_for_the_compilers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = torch.full((1, 1, 5, 3), torch.nan)
    with pytest.raises(ValueError, match="value holds NaN or infinite numbers"):
        split(torch.full((1, 1, 5, 5), 0.2), broken, None)  # as a model's forward pass does, without looking first
    with pytest.raises(ValueError, match="attention must not be negative"):
        attention_flow(torch.full((2, 3, 3), -1.0))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("in the midst of the work")

    monkeypatch.setattr(cholesky, "independent_rows", fail)
    with pytest.raises(RuntimeError, match="in the midst of the work"):
        choice.independent_rows(*values(3), 1e-12)
    assert caplog.records == []


@pytest.mark.usefixtures("undecided")
def test_a_device_that_is_not_the_cpu_asks_for_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_compiles", refuse)
    value, seen = (given.to("meta") for given in values())
    assert choice.independent_rows(value, seen, 1e-12).shape == (2,)
    assert choice.orthonormal_columns(value, seen, whitener=True)[0].shape == (2, 9, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    value, seen = values()
    found = choice.orthonormal_columns(value.to(dtype), seen, whitener=True, products=True)
    for part, want in zip(found, cholesky_reference.orthonormal_columns(value.to(dtype), seen), strict=True):
        torch.testing.assert_close(part, want, atol=1e-6, rtol=1e-6)


def test_numba_is_imported_only_where_it_is_needed() -> None:
    """Not by the modules that may come to need it, nor by work that does not."""
    code = """
import json, sys
import torch
import effective_attention.analyses.flow, effective_attention.attributions.attribute
import effective_attention.explorer.explore
from effective_attention.graphs.flow import attention_flow
from effective_attention.graphs.rollout import attention_rollout
graph = torch.full((1, 2, 2), 0.5)
attention_rollout(graph), attention_flow(graph)
before = "numba" in sys.modules
attention_flow(graph.repeat(2, 1, 1))
print(json.dumps([before, "numba" in sys.modules]))
"""
    assert run(code) == [False, True]


def test_the_warning_names_the_versions_that_are_asked_for() -> None:
    """And both packages are bounded above: what they change inside may break the compiled loops."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounded = {name: next(line for line in asked if re.match(rf"{name}\b", line)) for name in ("numba", "llvmlite")}
    assert all(re.fullmatch(r"\w+>=[\d.]+,<[\d.]+", line) for line in bounded.values())
    assert f"pip install '{bounded['numba']}'" in choice._WARNING
