"""Print what ``--help`` prints, as Hydra does, in a third of the time.

Hydra asks its config store anew for every group, and for its own groups too, which our page does not show; that takes
longer than all else together. A test compares the two outputs.
"""

from __future__ import annotations

import argparse
import string
from collections.abc import Sequence
from pathlib import Path

from effective_attention.run.options.arguments import group_choices

_OTHER_FLAGS = ("hydra_help", "cfg", "resolve", "package", "run", "multirun", "shell_completion", "info")
_OTHER_PLACES = ("config_path", "config_name", "config_dir")


def is_plain_help(arguments: argparse.Namespace) -> bool:
    """Tell whether a command line asks for help on our own configs, and for nothing else."""
    return arguments.help and not any(getattr(arguments, name) for name in (*_OTHER_FLAGS, *_OTHER_PLACES))


def print_help(folder: Path, name: str, overrides: Sequence[str]) -> None:
    """Print the help page of a config, as the overrides make it."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf, open_dict

    with initialize_config_dir(str(folder), version_base="1.3"):
        cfg = compose(name, overrides=[*overrides], return_hydra_config=True)
    template = string.Template(cfg.hydra.help.template)
    with open_dict(cfg):
        del cfg["hydra"]
    print(template.substitute(APP_CONFIG_GROUPS=_groups(folder), CONFIG=OmegaConf.to_yaml(cfg)))


def _groups(folder: Path) -> str:
    groups = sorted(path.name for path in folder.iterdir() if path.is_dir())
    return "".join(f"{group}: {', '.join(group_choices(group, [folder]))}\n" for group in groups)
