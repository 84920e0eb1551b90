"""Print what ``--help`` prints: a command's options, or, of a command for one analysis, only what is its own.

The long page is Hydra's, in a third of the time, and with a word on every analysis. Hydra asks its config store anew
for every group, and for its own groups too, which our page does not show; that takes longer than all else together. A
test compares the two outputs: they differ in how choices are listed, and in no choice.
"""

from __future__ import annotations

import argparse
import re
import string
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegaconf import OmegaConf, open_dict

from effective_attention.program import as_typed
from effective_attention.run.options.arguments import group_choices

_OTHER_FLAGS = ("hydra_help", "cfg", "resolve", "package", "run", "multirun", "shell_completion", "info")
_OTHER_PLACES = ("config_path", "config_name", "config_dir")
_WIDTH = 100  # columns of a terminal
_EXPLAINED = "analysis"  # the group whose choices have a line each
_ANALYSES = "Analyses: analysis=<name>, or several, as in analysis=[token_types,null_space]:"
_OPTION = re.compile(r"^ *(?P<name>[a-z]\w*): (?P<default>[^#]+?) # (?P<meaning>.*)$", flags=re.MULTILINE)
_WHAT = ("checkpoint=null", "text=null", "text_pair=null")  # options of evaluate that say what to look at


def is_plain_help(arguments: argparse.Namespace) -> bool:
    """Tell whether a command line asks for help on our own configs, and for nothing else."""
    return arguments.help and not any(getattr(arguments, name) for name in (*_OTHER_FLAGS, *_OTHER_PLACES))


def print_help(folder: Path, name: str, overrides: Sequence[str]) -> None:
    """Print the help page of a config, as the overrides make it."""
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(str(folder), version_base="1.3"):
        cfg = compose(name, overrides=[*overrides], return_hydra_config=True)
    template = string.Template(cfg.hydra.help.template)
    with open_dict(cfg):
        del cfg["hydra"]
    print(template.substitute(APP_CONFIG_GROUPS=_choices(folder), CONFIG=OmegaConf.to_yaml(cfg)))


def short_help(folder: Path, command: str, analysis: str, example: str) -> str:
    """Write the help page of a command that is ``evaluate`` with one analysis: what it does, and its own options.

    Args:
        folder: Of the configs.
        command: Its name.
        analysis: The one that it runs.
        example: Options of a command line to show.
    """
    own = folder / _EXPLAINED / f"{analysis}.yaml"
    of_evaluate = _meanings(folder / "evaluate.yaml")
    return "\n".join(
        [
            f"{as_typed(f'{command}.py')}: {first_comment(own)}",
            "",
            f"  {as_typed(f'{command}.py {example}')}",
            "",
            "What to look at:",
            "",
            *_table({option: of_evaluate[option] for option in _WHAT}),
            "",
            f"How, each as analysis.{analysis}.<option>=<value>, with its default:",
            "",
            *_table(_meanings(own)),
            "",
            f"This is evaluate with analysis={analysis}, and takes all its other options (task, model, data, ...):",
            "",
            f"  {as_typed('evaluate.py --help')}",
        ]
    )


def _meanings(path: Path) -> dict[str, str]:
    """Read what a config file says of its options, by ``option=default``."""
    found = _OPTION.finditer(path.read_text(encoding="utf-8"))
    return {f"{one['name']}={one['default']}": one["meaning"] for one in found}


def _choices(folder: Path) -> str:
    """List the choices of every group, and what each analysis asks."""
    found = {path.name: group_choices(path.name, [folder]) for path in sorted(folder.iterdir()) if path.is_dir()}
    groups = {group: ", ".join(choices) for group, choices in found.items() if group != _EXPLAINED}
    analyses = {name: first_comment(folder / _EXPLAINED / f"{name}.yaml") for name in found[_EXPLAINED]}
    return "\n".join([*_table(groups), "", _ANALYSES, "", *_table(analyses), ""])


def _table(rows: dict[str, str]) -> Iterator[str]:
    """Write names and texts in two columns; a text that is too long goes on below its beginning."""
    column = max(map(len, rows)) + 4
    for name, text in rows.items():
        yield from textwrap.wrap(
            text, _WIDTH, initial_indent=f"  {name}".ljust(column), subsequent_indent=" " * column
        ) or [f"  {name}"]


def first_comment(path: Path) -> str:
    """Return the first line of a config file, which says what it is for; empty where it is no comment."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ") if first.startswith("# ") else ""


OmegaConf.register_new_resolver("as_typed", as_typed, replace=True)
