"""docs/options.md: every option, what it may be, its default and what it means.

Types and ranges are those of the schema and of the targets' signatures; defaults and meanings are read from ``conf/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from effective_attention.run.options.check import find_option
from effective_attention.run.options.schema import Evaluate, Train
from effective_attention.run.options.targets import load_target, parameter_types
from effective_attention.run.options.words import allowed

HEAD = """# Options

What every option of `train.py` and `evaluate.py` may be. This page is written from the schema that checks them before
anything runs, and from the comments in `conf/` (`scripts/generate_docs.py`). `python train.py --help` shows the values
that your choices make.

`option=value` changes an option, `group=choice` takes a file of `conf/<group>/`, `+option=value` adds one that is not
there, such as `+trainer.precision=bf16-mixed`: what a part takes beyond this page is read off its signature and checked
like the rest. Your own classes go in by their `_target_`.
"""
COMMON = ("base", "train", "evaluate")
_LINE = re.compile(r"^(?P<indent> *)(?P<name>\w+):(?: +(?P<value>[^#].*?))?(?: +# (?P<comment>.*))?$")


class Option(NamedTuple):
    name: str
    default: str
    meaning: str
    target: str | None  # of the node that it belongs to


def options_page(conf: Path) -> str:
    """Return the page."""
    parts = [HEAD]
    for name in COMMON:
        title = {"base": "Both commands", "train": "train.py", "evaluate": "evaluate.py"}[name]
        parts.append(f"## {title}\n\n{_table(read_options(conf / f'{name}.yaml'))}\n")
    for folder in sorted(path for path in conf.iterdir() if path.is_dir()):
        parts.append(f"## {folder.name}\n\n{_group(folder)}\n")
    return "\n".join(parts)


def _group(folder: Path) -> str:
    """Return the choices of a group, and a table of the options that they bring."""
    files = sorted(folder.glob("*.yaml"))
    lines = [f"- `{folder.name}={path.stem}`{_about(path)}" for path in files]
    found: dict[str, Option] = {}
    for path in files:
        for option in read_options(path):
            found.setdefault(option.name, option)
    table = _table(list(found.values())) if folder.name != "experiment" else ""
    return "\n".join(lines) + (f"\n\n{table}" if table else "")


def _about(path: Path) -> str:
    """Return the first sentence of a file's opening comment."""
    opening = [line[2:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
    words = " ".join(line for line in opening if not line.startswith("@"))
    return f": {_plain(words)}" if words else ""


def read_options(path: Path) -> list[Option]:
    """List the options of a config file, without Hydra's own."""
    text = path.read_text(encoding="utf-8")
    whole = path.stem in COMMON or "@package _global_" in text
    return list(_walk(text.splitlines(), "" if whole else path.parent.name))


def _walk(lines: list[str], package: str) -> Iterator[Option]:
    above: list[tuple[int, str]] = []
    targets: dict[str, str] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        indent = len(found["indent"])
        above = [one for one in above if one[0] < indent]
        place = ".".join([package, *(name for _, name in above)]).strip(".")
        above.append((indent, found["name"]))
        if found["name"] == "_target_":
            targets[place] = found["value"]
        elif found["value"] is not None and above[0][1] not in ("hydra", "defaults") and found["name"][0] != "_":
            name = f"{place}.{found['name']}".strip(".")
            yield Option(name, found["value"], found["comment"] or "", targets.get(place))


def _table(options: list[Option]) -> str:
    if not options:
        return ""
    lines = ["| option | allowed | default | meaning |", "|---|---|---|---|"]
    return "\n".join(lines + [_row(option) for option in options])


def _row(option: Option) -> str:
    cells = (f"`{option.name}`", _allowed(option), f"`{option.default}`", _plain(option.meaning))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _plain(words: str) -> str:
    return words.replace("<", "&lt;")


def _allowed(option: Option) -> str:
    for schema in (Train, Evaluate):
        field = find_option(schema, option.name.split(".")).field
        if field is not None and option.name.split(".")[0] != "analysis":
            return allowed(field.annotation, field.metadata)
    if option.target is None:
        return ""
    types = parameter_types(load_target(option.name, option.target))
    name = option.name.rpartition(".")[2]
    return allowed(types[name]) if name in types else ""
