"""A part of ``make faults``: a run that is killed at a random moment, and resumed, ends as it would have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="forks and looks at /proc")
def test_a_killed_run_ends_equal() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    words = [sys.executable, str(ROOT / "scripts" / "faults"), "--only", "kills", "--kills", "1"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 hold" in done.stdout
