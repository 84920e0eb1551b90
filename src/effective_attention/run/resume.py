"""``resume=<run>`` is the same run: its own options, those of the command line only where they change no result.

A run writes down the options it was given, in a comment at the top of its ``config.yaml`` and in its checkpoints. To
resume it is to give them again: they are put beside ``resume=`` on the command line, before Hydra sees it. What is
composed then is compared with the run's config, and a difference is refused.

``checkpoint=<run>`` takes over less: what the run's task, model and data are, unless the command line says otherwise.

Imports nothing heavy: every command goes through here before Hydra.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from effective_attention.errors import UserError
from effective_attention.io import expanded
from effective_attention.models.places import is_classifier_place
from effective_attention.processes import started_as
from effective_attention.reports.runs import OPTIONS_RECORD, recorded_options
from effective_attention.run.lone_checkpoint import CUSTOM, read_file, recorded_in, task_options, what_is_missing
from effective_attention.run.options.texts import quote, unquoted
from effective_attention.run.options.words import typed

_FREE = re.compile(
    r"(run_dir|resume|recipe|logger|tagger|analysis|attention|reading|space|epsilon|resamples|drift|save)(\..*)?"
    r"|text|text_pair|candidates|referents"
    r"|data\.(num_workers|token_cache|name|configuration|revision|(source\.)?(dir|file))"  # the content is compared
    r"|model\.fetch"
    r"|trainer\.(max_epochs|enable_progress_bar|enable_model_summary|log_every_n_steps|profiler)"  # epochs: see below
)
"""Options that change nothing of what is learnt."""
_OF_A_CHECKPOINT = re.compile(
    r"\+*(task|model|data|experiment)(\.(?!(limit_train|limit_eval|num_workers|token_cache)=)[^=]*)?="
)
"""Options of a run that ``checkpoint=`` takes over: what it was about, not how much of it, or with what machine."""
_COULD_RUN_CODE = re.compile(
    r"^[-~]|^\+*hydra|_target_"
    r"|(?<!\\)\$\{"  # an interpolation, not a text with that in it
    r"|^\+*analysis\b.*\w:\w"  # a method by its module
)


# --- the options of a run, written down and given again ---


def given_options() -> list[str]:
    """Return the overrides this command was given, as they were typed; empty outside of Hydra."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    if not HydraConfig.initialized():
        return []
    given: Any = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)  # a value may be a secret
    return [option for option in given if _name(option) != "resume"]


def with_record(config: str) -> str:
    """Put a comment on top of a ``config.yaml`` that says which options made it."""
    return f"{OPTIONS_RECORD}{json.dumps(given_options(), ensure_ascii=False)}\n{config}"


def with_run_options(arguments: list[str]) -> list[str]:
    """Put the options of the run that ``resume=`` names, and its folder, behind that argument.

    An option that is given again is left out of the run's; so is what belongs to a group of which another is chosen.
    Results go to the run's own folder, unless ``hydra.run.dir`` says otherwise.
    """
    at = next((number for number, argument in enumerate(arguments) if _name(argument) == "resume"), None)
    place = "" if at is None else unquoted(arguments[at].partition("=")[2])
    if at is None or place in ("null", ""):
        return _with_checkpoint_options(arguments)
    if {"-m", "--multirun"} & set(arguments):
        raise UserError("resume goes on with one run, so it cannot be swept over with -m; resume the runs one by one")
    path = expanded(place)
    options = _checked(_options_of(path), "resume")
    typed = {_name(argument): argument for argument in arguments}
    kept = [option for option in options if not _is_replaced(option, options, typed)]
    folder = run_folder(path)
    if folder is not None and "hydra.run.dir" not in typed:
        plain = re.fullmatch(r"[\w./-]*", str(folder))
        kept.append(f"hydra.run.dir={folder if plain else quote(str(folder))}")
    return [*arguments[: at + 1], *kept, *arguments[at + 1 :]]


def _with_checkpoint_options(arguments: list[str]) -> list[str]:
    """Put what the run of ``checkpoint=`` says of task, model and data behind that argument, and say so.

    A sweep over checkpoints gets nothing, as its runs may differ. Where the command line names another task, the data
    is not taken over either: it is that of the run's task.
    """
    at = next((number for number, argument in enumerate(arguments) if _name(argument) == "checkpoint"), None)
    place = "" if at is None else unquoted(arguments[at].partition("=")[2])
    if at is None or place in ("null", "") or "${" in place or {"-m", "--multirun"} & set(arguments):
        return arguments
    path = expanded(place)
    if is_classifier_place(place):  # made elsewhere: it answers the user's own question unless a task is named
        named = any(_name(argument) == "task" for argument in arguments)
        return arguments if named else [*arguments[: at + 1], "task=custom", *arguments[at + 1 :]]
    found = _options_of(path)
    is_lone = not found and run_folder(path) is None
    if is_lone:
        found = task_options(read_file(path), own_configs=any("config-dir" in word for word in arguments))
    options = _checked([option for option in found if _OF_A_CHECKPOINT.match(option)], "checkpoint")
    typed = {_name(argument): argument for argument in arguments}
    if "task" in typed and not _is_task_of(path, typed["task"], options):
        options = [option for option in options if _name(option).partition(".")[0] == "model"]
    kept = [option for option in options if not _is_replaced(option, options, typed)]
    is_plain = not any(argument.startswith("-") for argument in arguments)  # else what is printed may be for a machine
    if kept and is_plain and started_as() == 0:
        needs = is_lone and f"task={CUSTOM}" in options
        missing = what_is_missing({*typed, *map(_name, kept)}) if needs else ""
        print(f"checkpoint={place}: with its own {' '.join(kept)}{missing}")
    return [*arguments[: at + 1], *kept, *arguments[at + 1 :]]


def _is_task_of(place: Path, chosen: str, options: list[str]) -> bool:
    """Tell whether ``task=<choice>`` is what the run was made with, be it by default."""
    folder = run_folder(place)
    if chosen in options or folder is None:
        return chosen in options
    try:
        name = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))["task"]["name"]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return False
    return chosen == f"task={name}"


def run_folder(place: Path) -> Path | None:
    """Return the run directory that a folder or a checkpoint in it belongs to; None: a file from somewhere else."""
    for path in (place, place.absolute()):  # the latter for who stands in the folder of the checkpoints
        for folder in (path, path.parent, path.parent.parent):
            if (folder / "config.yaml").is_file() and path in (
                folder, folder / "checkpoints", folder / "checkpoints" / path.name, folder / path.name,
            ):  # fmt: skip
                return folder
    return None


def _options_of(place: Path) -> list[str]:
    """Read which options a run was given; whatever is wrong with the place is said when it is read for good.

    Args:
        place: Of the run, or of a checkpoint.
    """
    folder = run_folder(place)
    try:
        return _texts(recorded_in(read_file(place)) if folder is None else recorded_options(folder))
    except (OSError, ValueError, RecursionError):
        return []


def _texts(options: Any) -> list[str]:
    return [option for option in options if isinstance(option, str)] if isinstance(options, list) else []


def _checked(texts: list[str], option_name: str) -> list[str]:
    """Leave out what could name code or read the environment: the run may be a stranger's.

    Who did use such an option is told, by its name, that it differs, and gives it again.
    """
    unsafe = [option for option in texts if _COULD_RUN_CODE.search(option)]
    for option in unsafe:
        print(
            f"warning: {option_name}: {option!r} is not taken over, as it could name code; give it again",
            file=sys.stderr,
        )
    fetches = [option for option in texts if _name(option) == "model.fetch"]  # no run may say yes for its next user
    return [option for option in texts if "=" in option and option not in [*unsafe, *fetches]]


def _is_replaced(option: str, options: list[str], typed: Mapping[str, str]) -> bool:
    name = _name(option)
    if name in typed:
        return True
    groups = [group for group in typed if name.startswith(f"{group}.")]
    return any(typed[group] not in options for group in groups)


def _name(argument: str) -> str:
    return argument.partition("=")[0].lstrip("+~")


# --- what must not change ---


def check_same_run(own: Mapping[str, Any], given: Mapping[str, Any], place: object) -> None:
    """Refuse a config that would make another run of it.

    Raises:
        UserError: An option that changes results is not what it was; the first is named.
    """
    before, here = _leaves(own), _leaves(given)
    different = [
        name
        for name in sorted({*before, *here}, key=lambda name: (name.count("."), name))
        if before.get(name) != here.get(name) and not _FREE.fullmatch(name)
    ]
    if different:
        name = different[0]
        own_value = typed(before.get(name))
        raise UserError(
            f"{name}={typed(here.get(name))} contradicts resume={place}, a run with {name}={own_value}; "
            f"write {name}={own_value}, or nothing: a run that is resumed has its own options, but those that name code"
        )


def check_epochs(finished: int, own: int, given: int, place: object) -> str | None:
    """Refuse fewer epochs than are done; return a warning if there will be more or fewer than the run was to have."""
    if given < finished:
        raise UserError(
            f"trainer.max_epochs={given} is fewer than resume={place} has done, which is {finished}; "
            "leave it out, or look at the run with evaluate.py"
        )
    if given == own:
        return None
    return (
        f"trainer.max_epochs={given} instead of {own}: the learning rate falls to 0 over all epochs, "
        "so this will not be the run that had as many from the start"
    )


def _leaves(config: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(config, Mapping):
        return {name: config}
    found: dict[str, Any] = {}
    for key, value in config.items():
        found |= _leaves(value, f"{name}.{key}" if name else str(key))
    return found
