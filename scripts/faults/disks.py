"""Disks that are full: the run ends in one line that names the file, and W&B alone on such a disk costs nothing.

A small disk in memory is mounted where this process may do so; else files are limited in size, which ends the same way.
"""

from __future__ import annotations

import contextlib
import re
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from commands import Bench, fork, lines


@contextmanager
def _small_disk(folder: Path, kilobytes: int) -> Iterator[bool]:
    """Mount a small disk; False if that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def _small_files(kilobytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def full(bench: Bench, kilobytes: int, logger: str) -> str:
    """Train on a disk that is too small; one line names the file that did not fit."""
    name = f"full-{kilobytes}-{logger}"
    folder = bench.folder / name
    with _small_disk(folder, kilobytes) as mounted:
        with contextlib.nullcontext() if mounted else _small_files(kilobytes):
            running = fork(
                "train", *bench.options(name), f"logger={logger}", f"hydra.run.dir={folder / 'run'}",
                output=bench.output(name), environment={"WANDB_MODE": "offline"},
            )  # fmt: skip
            code = running.wait()
        errors = [line for line in lines(running.text(), "Logging error") if line.startswith("error: ")]
        assert code == 2, f"exit code {code}: {running.text()[-1500:]}"
        (line,) = errors
        named = re.search(r"cannot read or write (\S+):", line)
        assert named is not None, line
        assert named[1].startswith(str(folder)), line
        half = list(folder.rglob("*.unfinished"))
        assert half == [], half
    return f"names {Path(named[1]).name}"


def wandb_alone(bench: Bench) -> str:
    """Give W&B a full disk of its own; the run says so once and ends well."""
    name = "wandb"
    disk = bench.folder / "wandb-disk"
    with _small_disk(disk, 16) as mounted:
        if not mounted:
            return "left out: no small disk can be mounted here"
        place = bench.folder / name / "wandb"
        place.parent.mkdir()
        place.symlink_to(disk)
        running = fork(
            "train", *bench.options(name), "logger=wandb", output=bench.output(name),
            environment={"WANDB_MODE": "offline"},
        )  # fmt: skip
        code = running.wait()
        said = [line for line in lines(running.text(), "Logging error") if "W&B" in line]
        assert code == 0, running.text()[-1500:]
        assert len(said) <= 1, said
    assert (bench.folder / name / "metrics.json").is_file()
    return f"exit code 0; {said[0][:60] if said else 'not a word'}"
