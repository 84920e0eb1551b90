"""``resume=<run>`` is the same run: its own options, those of the command line only where they change no result.

A run writes down the options it was given, in a comment at the top of its ``config.yaml`` and in its checkpoints. To
resume it is to give them again: they are put beside ``resume=`` on the command line, before Hydra sees it. What is
composed then is compared with the run's config, and a difference is refused.

Imports nothing heavy: every command goes through here before Hydra.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from effective_attention.errors import UserError
from effective_attention.reports.runs import OPTIONS_RECORD, recorded_options
from effective_attention.run.options.texts import quote, unquoted
from effective_attention.run.options.words import typed

_FREE = re.compile(
    r"(run_dir|resume|recipe|logger|tagger|analysis|attention|reading|drift|save)(\..*)?"
    r"|text|text_pair|candidates|referents"
    r"|data\.(num_workers|token_cache|(source\.)?(dir|file))"  # of another folder the content is compared
    r"|model\.fetch"
    r"|trainer\.(max_epochs|enable_progress_bar|enable_model_summary|log_every_n_steps|profiler)"  # epochs: see below
)
"""Options that change nothing of what is learnt."""
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
        return arguments
    if {"-m", "--multirun"} & set(arguments):
        raise UserError("resume goes on with one run, so it cannot be swept over with -m; resume the runs one by one")
    path = Path(place).expanduser()
    options = _options_of(path)
    typed = {_name(argument): argument for argument in arguments}
    kept = [option for option in options if not _is_replaced(option, options, typed)]
    folder = run_folder(path)
    if folder is not None and "hydra.run.dir" not in typed:
        plain = re.fullmatch(r"[\w./-]*", str(folder))
        kept.append(f"hydra.run.dir={folder if plain else quote(str(folder))}")
    return [*arguments[: at + 1], *kept, *arguments[at + 1 :]]


def run_folder(place: Path) -> Path | None:
    """Return the run directory that a folder or a checkpoint in it belongs to; None: a file from somewhere else."""
    for folder in (place, place.parent, place.parent.parent):
        if (folder / "config.yaml").is_file() and place in (
            folder, folder / "checkpoints", folder / "checkpoints" / place.name, folder / place.name,
        ):  # fmt: skip
            return folder
    return None


def _options_of(place: Path) -> list[str]:
    """Read which options a run was given; whatever is wrong with the place is said when it is read for good."""
    folder = run_folder(place)
    try:
        if folder is not None:
            return _checked(recorded_options(folder))
        if place.is_file():
            import torch  # a checkpoint on its own: seconds

            checkpoint = torch.load(place, map_location="cpu", weights_only=True)
            return _checked(checkpoint["callbacks"]["LastCheckpoint"]["options"])
    except Exception:  # random bytes make the unpickler raise nearly anything
        return []
    return []


def _checked(options: Any) -> list[str]:
    """Leave out what could name code or read the environment: the run may be a stranger's.

    Who did use such an option is told, by its name, that it differs, and gives it again.
    """
    texts = [option for option in options if isinstance(option, str)] if isinstance(options, list) else []
    unsafe = [option for option in texts if _COULD_RUN_CODE.search(option)]
    for option in unsafe:
        print(f"warning: resume: {option!r} is not taken over, as it could name code; give it again", file=sys.stderr)
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
