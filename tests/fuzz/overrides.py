"""Generated overrides: each is accepted by the schema, or refused in one line that names the option.

``cases(count, seed)`` yields command lines such as ``train trainer.max_epochs=-1``, made from the configs themselves:
every option with every hostile value, left out, added twice, misspelt; and random letters. ``check(case)`` composes and
checks one as the commands do, without starting them, and returns what went wrong; None: nothing.
"""

from __future__ import annotations

import copy
import logging
import random
import re
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from effective_attention.run.cli import explain
from effective_attention.run.options.arguments import check_overrides, group_choices, quoted_arguments, read_arguments
from effective_attention.run.options.record import recorded, recorded_yaml
from effective_attention.run.options.texts import TEXTS
from helpers.paths import CONF

COMMANDS = ("train", "evaluate")
LONGEST_LINE = 1200
HOSTILE = (
    "null", "true", "false", "-1", "0", "1", "2", "1.5", "-0.5", "1e400", "nan", "inf", "-inf", "abc", "", "''", "'1'",
    "[]", "[1,2]", "[null]", "[a,[b]]", "{}", "{a:1}", "{_target_:nothing.here}", "???", "'???'",
    "99999999999999999999", "1_000", "0x10", "${seed}", "${nothing}", "${oc.env:HOME}", "${oc.env:NOT_SET_AT_ALL}",
    "${oc.nothing:1}", "${", "}",
    "'${a'", "a b", "a,b", "a=b", "'", '"', "\\", "../..", "/no/such/place", "~", "null,1", "é", "😀", "'a\nb'", "a:b",
    "nothing.here", "os.path", "builtins.dict", "builtins.print", "int", "range(1,3)", "choice(1,2)", "glob(*)",
    "{a:", "@",
)  # fmt: skip
HYDRA = ("run.dir", "sweep.dir", "mode", "verbose", "job.name", "job.chdir", "output_subdir", "nonsense", "run")
LETTERS = "abcxyz019._-+~@=:,/\\ '\"[](){}$#%&*!?<>|\n\té😀"


def cases(count: int, seed: int) -> Iterator[str]:
    """Yield command lines, the same for the same seed."""
    draw = random.Random(seed)
    for _ in range(count):
        command = draw.choice(COMMANDS)
        yield f"{command} {draw.choice(_MAKERS)(draw, command)}"


def check(case: str) -> str | None:
    """Say what is wrong with how a command line is treated; None: it is accepted, or refused as it should be."""
    command, _, override = case.partition(" ")
    try:
        line = refusal(command, override)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if line is None:
        return None
    if "\n" in line or len(line) > LONGEST_LINE:
        return f"not one line: {line}"
    return None if _is_named(override, line) else f"the option is not named: {line}"


def refusal(command: str, *overrides: str) -> str | None:
    """Return the line with which a command refuses options before anything is loaded or written; None: it does not."""
    from effective_attention.run.setup import check_everything  # not at the top: loads PyTorch

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    try:
        cfg = _composed(command, overrides)
        with warnings.catch_warnings(action="ignore"):
            check_everything(cfg)
    except Exception as error:
        line = explain(error)
        if line is None:
            raise
        return line
    again = OmegaConf.create(recorded_yaml(cfg))
    assert recorded(again) == recorded(cfg), "what is written down reads again as the same config"  # type: ignore[arg-type]
    return None


def _composed(command: str, overrides: tuple[str, ...]) -> DictConfig:
    """Compose a config as Hydra does; where no group is chosen, only the overrides are applied anew."""
    given = read_arguments(quoted_arguments(overrides)).overrides
    check_overrides(given, [CONF])
    parsed = OverridesParser.create().parse_overrides(given)
    if any(group_choices(one.key_or_group, [CONF]) or "/" in one.key_or_group for one in parsed):
        cfg = _load(command, *given)
    else:
        cfg = copy.deepcopy(_base(command))
        ConfigLoaderImpl.validate_sweep_overrides_legal(parsed, run_mode=RunMode.RUN, from_shell=True)
        ConfigLoaderImpl._apply_overrides_to_config(parsed, cfg)
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg


@cache
def _base(command: str) -> DictConfig:
    return _load(command)


def _load(command: str, *overrides: str) -> DictConfig:
    search = create_config_search_path(str(CONF))
    loader = ConfigLoaderImpl(config_search_path=search)
    return loader.load_configuration(command, ["run_dir=nowhere", "trainer=cpu", *overrides], run_mode=RunMode.RUN)


def _is_named(override: str, line: str) -> bool:
    """Tell whether the line has the option's name, a part of it, or, if it has none, the argument."""
    key = override.partition("=")[0].lstrip("+~")
    names = [part for part in re.split(r"[.@/]", key) if part] + [key]
    return any(name and name in line for name in names) or " ".join(override.split()) in line or not names[:-1]


# --- making them ---


@cache
def options(command: str) -> tuple[str, ...]:
    """List every option of a command, groups and nodes too, by dotted names."""
    cfg = _load(command, "analysis=[all,token_identity,token_mixing,explorer]")
    return tuple(name for name in _names("", OmegaConf.to_container(cfg)) if not name.startswith("hydra"))


def _names(prefix: str, node: Any) -> Iterator[str]:
    for name, value in node.items():
        yield f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _names(f"{prefix}{name}.", value)


def _set(draw: random.Random, command: str) -> str:
    return f"{draw.choice(('', '', '', '+', '++'))}{_option(draw, command)}={draw.choice(HOSTILE)}"


def _option(draw: random.Random, command: str) -> str:
    """Draw an option that the default config has, or, rarely, one of an analysis that is not chosen."""
    name = draw.choice(options(command))
    return name if not name.startswith("analysis.") or draw.random() < 0.2 else draw.choice(("seed", "data.batch_size"))


def _choose(draw: random.Random, command: str) -> str:
    group = draw.choice(sorted(path.name for path in CONF.iterdir() if path.is_dir()))
    name = draw.choice(group_choices(group, [CONF]))
    value = draw.choice((name, _misspelt(draw, name), f"[{name}]", f"[{name},{_misspelt(draw, name)}]", *HOSTILE))
    return f"{draw.choice(('', '', '+', '++', '~'))}{group}={value}"


def _leave_out(draw: random.Random, command: str) -> str:
    return f"~{_option(draw, command)}{draw.choice(('', '', '=1', '=null', '='))}"


def _misspell(draw: random.Random, command: str) -> str:
    return f"{draw.choice(('', '+'))}{_misspelt(draw, _option(draw, command))}={draw.choice(HOSTILE)}"


def _misspelt(draw: random.Random, name: str) -> str:
    place = draw.randrange(len(name))
    return draw.choice(
        (name[:place] + name[place + 1 :], name[:place] + name[place] + name[place:], f"{name}s", name[1:])
    )


def _add(draw: random.Random, command: str) -> str:
    return f"+{_option(draw, command)}.{draw.choice(('new', '0', '_target_', 'x.y'))}={draw.choice(HOSTILE)}"


def _hydra(draw: random.Random, command: str) -> str:
    return f"hydra.{draw.choice(HYDRA)}={draw.choice(HOSTILE)}"


def _letters(draw: random.Random, command: str) -> str:
    return "".join(draw.choices(LETTERS, k=draw.randint(1, 12)))


def _value(draw: random.Random, command: str) -> str:
    return f"{_option(draw, command)}={_letters(draw, command)}"


def _text(draw: random.Random, command: str) -> str:
    return f"{draw.choice(TEXTS)}={draw.choice(HOSTILE)}{_letters(draw, command)}"


_MAKERS = (_set, _set, _set, _choose, _leave_out, _misspell, _add, _hydra, _letters, _value, _text)
