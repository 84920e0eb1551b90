"""Shorten paths: reports and explorer pages are sent away, and nobody needs to know where folders are."""

from __future__ import annotations

import re
from pathlib import Path

from pandas import DataFrame

_ABSOLUTE = re.compile(r"(?<![^\s=\"'(,])(?:~?/|[A-Za-z]:[/\\]|\\\\)[^\s\"'(),]*")
_SEPARATOR = re.compile(r"[/\\]+")
_HIDDEN = 3  # parts in front that never show: /home/<name>/<folder>, C:\Users\<name>
_SHOWN = 3  # parts at the end that show at most: <run>/checkpoints/last.ckpt
_COLUMNS = ("checkpoint", "model", "data", "name")


def without_folders(text: str) -> str:
    r"""Shorten every absolute path in a text to its last parts; a path from where one stands stays as it is.

    >>> without_folders("python train.py checkpoint=/home/anna/runs/mrpc/checkpoints/last.ckpt")
    'python train.py checkpoint=…/mrpc/checkpoints/last.ckpt'
    >>> without_folders("C:\\Users\\anna\\runs\\mrpc"), without_folders("/home/anna/mrpc"), without_folders("runs/mrpc")
    ('…/runs/mrpc', '…/mrpc', 'runs/mrpc')
    """
    return _ABSOLUTE.sub(lambda match: _last_parts(match[0]), text)


def _last_parts(path: str) -> str:
    parts = [part for part in _SEPARATOR.split(path) if part]
    if len(parts) < 2:  # a lone slash, or /word: no folder of anybody's
        return path
    shown = min(_SHOWN, max(1, len(parts) - _HIDDEN))
    return "/".join(["…", *parts[-shown:]])


def model_name(name: str) -> str:
    """Write the name of a model: of a folder its last part, of a hub id all of it."""
    return Path(name).resolve().name if name and Path(name).is_dir() else without_folders(name)


def from_here(place: str) -> str:
    """Shorten the way from the report to a run: what lies above the report's neighbours is nobody's business.

    >>> from_here("2_task=rte"), from_here("../rte/0"), from_here("../../../anna/runs/rte/0")
    ('2_task=rte', '../rte/0', '…/runs/rte/0')
    """
    return "/".join(["…", *place.split("/")[-3:]]) if place.startswith("../..") else without_folders(place)


def portable(table: DataFrame) -> DataFrame:
    """Return the table with the paths in its columns of names shortened."""
    columns = [name for name in _COLUMNS if name in table]
    return table.assign(
        **{name: [without_folders(one) if isinstance(one, str) else one for one in table[name]] for name in columns}
    )
