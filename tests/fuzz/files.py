"""Generated data files: each gives checked examples, or is refused in one line.

Protocol of all kinds: ``cases(count, seed)`` yields cases, the same for the same seed; ``check(case)`` returns what
went wrong, or None.
"""

from __future__ import annotations

import io
import json
import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from effective_attention.data.sources import LocalSource
from effective_attention.errors import UserError
from fuzz.lines import problem_with
from helpers.paths import CONF

Case = tuple[str, str, bool, bytes]
"""Task, the file's extension, whether broken rows are left out, content."""
TASKS = ("mrpc", "stsb", "sst2", "cola")
WORDS = (
    "A cat sat.", "", " ", "\t", "\n", "\r", "\r\n", '"', '""', "'", ",", "a,b", 'a"b', "\0", "\ufeff", "\u2028",
    "\x85", "\x1b[2J", "\u202e", "é", "e\u0301", "😀", "\U0010ffff", "=1+1", "-1", "NaN", "null", "[SEP]",
    "[MASK]", "x" * 5000, "ﬃ", "\ud83d",
)  # fmt: skip
VALUES = (
    None, True, False, 0, 1, 2, -1, 1.0, 2.5, -0.0, 1e308, float("nan"), float("inf"), 10**30, "1", "1.0", "01",
    "not_equivalent", "equivalent", "nothing", [], [1], {}, {"a": 1}, "9" * 5000,
)  # fmt: skip
NAMES = (
    "sentence",
    "sentence1",
    "sentence2",
    "label",
    "Quality",
    "#1 String",
    "#2 String",
    "score",
    "idx",
    "",
    " label",
    "x" * 9000,
)
NUMBERS = ("0", "1", "2.5", "-1", "", "nan", "inf", "1e999", "equivalent", "\uff15", "0x1", "9" * 5000)


@cache
def task(name: str) -> Any:
    from hydra import compose, initialize_config_dir
    from hydra.utils import instantiate

    with initialize_config_dir(str(CONF), version_base="1.3"):
        return instantiate(compose(overrides=[f"+task={name}"]).task)


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield files."""
    draw = random.Random(seed)
    for _ in range(count):
        name = draw.choice(TASKS)
        suffix = draw.choice(list(_MAKERS))
        content = _MAKERS[suffix](draw, name)
        yield name, suffix, draw.random() < 0.3, _damaged(draw, content) if draw.random() < 0.2 else content


def check(case: Case) -> str | None:
    """Say what is wrong with how a file is read."""
    name, suffix, skip, content = case
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"train.{suffix}").write_bytes(content)
        try:
            examples = LocalSource(folder, skip_broken_rows=skip).load(task(name), "train")
        except UserError as error:
            return problem_with(error)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
    if not all(text.strip() and text.encode() for texts in examples.texts for text in texts):
        return "an empty text was taken"
    if len(examples.labels or ()) != len(examples):
        return "a label is missing"
    low, high = task(name).label_range or (0, len(task(name).labels) - 1)
    return None if all(low <= label <= high for label in examples.labels or ()) else "a label is out of range"


def _columns(draw: random.Random, name: str, suffix: str) -> list[str]:
    """Take the task's own columns, mostly; else lose, double, add or rename one."""
    wanted = [
        task(name).tsv_renamed.get(column, column) if suffix == "tsv" else column for column in task(name).columns
    ]
    if draw.random() < 0.2:
        place = draw.randrange(len(wanted))
        wanted[place : place + draw.randrange(2)] = [draw.choice(NAMES) for _ in range(draw.randrange(3))]
    draw.shuffle(wanted)
    return wanted


def _word(draw: random.Random) -> str:
    return (
        "".join(draw.choice(WORDS) for _ in range(draw.choice((1, 1, 1, 2, 5))))
        if draw.random() < 0.5
        else "A cat sat."
    )


def _delimited(mark: str) -> Any:
    def make(draw: random.Random, name: str) -> bytes:
        suffix = "tsv" if mark == "\t" else "csv"
        columns = _columns(draw, name, suffix)
        end = draw.choice(("\n", "\n", "\r\n", "\r"))
        labels = ("label", "Quality", "score")
        rows = [[draw.choice(NUMBERS[:3]) if column in labels else "A cat." for column in columns] for _ in range(3)]
        for row in rows:
            if row and draw.random() < 0.2:
                row[draw.randrange(len(row))] = draw.choice((_word(draw), draw.choice(NUMBERS)))
            if draw.random() < 0.1:
                row.append(_word(draw))
        quote = draw.random() < 0.5
        cells = [[f'"{cell}"' if quote and draw.random() < 0.3 else cell for cell in row] for row in ([columns, *rows])]
        text = ("\ufeff" if draw.random() < 0.1 else "") + end.join(mark.join(row) for row in cells)
        return text.encode("utf-8", "surrogatepass" if draw.random() < 0.3 else "replace")

    return make


def _json(draw: random.Random, name: str) -> bytes:
    lines = []
    for _ in range(3):
        row: dict[str, Any] = {
            column: 1 if column == "label" else "A cat sat." for column in _columns(draw, name, "jsonl")
        }
        if draw.random() < 0.2:
            row[draw.choice((*row, *NAMES))] = draw.choice((*VALUES, _word(draw)))
        lines.append(
            draw.choice(
                (json.dumps(row),) * 12 + ("", "[]", "1", '"a"', "{", "nul", "[" * 3000, "1" * 5000, _nested(draw))
            )
        )
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _nested(draw: random.Random) -> str:
    depth = draw.choice((10, 500, 900, 990, 3000))
    return '{"sentence1": "a", "sentence2": "b", "sentence": "a", "label": ' + "[" * depth + "]" * depth + "}"


def _parquet(draw: random.Random, name: str) -> bytes:
    columns: dict[str, Any] = {}
    for column in dict.fromkeys(_columns(draw, name, "parquet")):
        kinds: list[list[Any]] = [
            [draw.choice(VALUES[1:8])] * 3,
            [_word(draw).encode("utf-8", "replace").decode() for _ in range(3)],
        ]
        kinds += [
            [None, None, None],
            [[1], [2], []],
            [b"a", b"\xff", None],
            [{"a": 1}] * 3,
            [1, None, 0],
            [2.5, float("nan"), 1.0],
        ]
        usual: list[Any] = [1, 0, 1] if column == "label" else ["A cat sat.", "b", "c"]
        columns[column] = usual if draw.random() < 0.8 else draw.choice(kinds)
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def _damaged(draw: random.Random, content: bytes) -> bytes:
    """Cut, flip, repeat or replace bytes."""
    found = bytearray(content)
    for _ in range(draw.choice((1, 1, 3, 20))):
        place = draw.randrange(len(found) + 1)
        kind = draw.randrange(4)
        if kind == 0:
            del found[place:]
        elif kind == 1:
            found[place : place + 1] = draw.randbytes(1)
        elif kind == 2:
            found[place:place] = found[place // 2 : place]
        else:
            found[place:place] = draw.randbytes(draw.choice((1, 4, 50)))
    return bytes(found)


_MAKERS = {"csv": _delimited(","), "tsv": _delimited("\t"), "jsonl": _json, "parquet": _parquet}
