"""Compiling ahead of the first use."""

import subprocess
import sys
from pathlib import Path

from effective_attention.kernels import choice
from effective_attention.kernels.__main__ import main


def test_machine_code_is_there_before_the_first_use(tmp_path: Path) -> None:
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""}
    command = [sys.executable, "-m", "effective_attention.kernels"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("compiled, ")
    kept = {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")}
    assert any(name.startswith("cholesky.") for name in kept)
    assert any(name.startswith("max_flow.") for name in kept)
    assert any("parallel" in name for name in kept), kept


def test_what_cannot_be_compiled_ends_with_an_error(monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(choice, "_compiles", lambda *_: False)
    assert main() == 1
    assert "plain references" in capsys.readouterr().out
