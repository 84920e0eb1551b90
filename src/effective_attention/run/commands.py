"""The command ``effective-attention`` and its sub-commands; ``train.py`` and ``evaluate.py`` start two of them.

Imports nothing heavy at the top: the list of sub-commands must not wait for what one of them needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

from effective_attention.errors import UserError, shorten
from effective_attention.program import NAME
from effective_attention.run.options.words import did_you_mean, near

_HELP = ("-h", "--help", "help")


class Command(NamedTuple):
    """A sub-command.

    Attributes:
        about: What it does, in one line.
        run: Does it, with the arguments that follow its name.
    """

    about: str
    run: Callable[[list[str]], None]


def main() -> None:
    """Run the sub-command that the command line names."""
    name, *rest = sys.argv[1:] or ["--help"]
    if name in _HELP:
        print(overview())
    elif name == "--version":
        from effective_attention import __version__

        print(f"{NAME} {__version__}")
    elif name in COMMANDS:
        COMMANDS[name].run(rest)
    else:
        _refuse(name)


def start(name: Literal["train", "evaluate"], options: Sequence[str], *, typed: Sequence[str] = ()) -> None:
    """Train or evaluate.

    Args:
        name: Which of the two.
        options: As on the command line.
        typed: Words between the program and the options: the sub-command, where the program has several.
    """
    from effective_attention.run.cli import command
    from effective_attention.run.jobs import run_job

    sys.argv[1:] = options
    command(name, partial(run_job, name), typed=typed)


def with_analysis(analysis: str, options: Sequence[str]) -> list[str]:
    """Choose an analysis, unless the user has chosen, or goes on with a run that has its own.

    >>> with_analysis("explorer", ["text=It"]), with_analysis("explorer", ["analysis=[explorer,heatmap]"])
    (['analysis=explorer', 'text=It'], ['analysis=[explorer,heatmap]'])
    """
    names = {option.partition("=")[0].lstrip("+~") for option in options}
    return [*options] if names & {"analysis", "resume"} else [f"analysis={analysis}", *options]


def overview() -> str:
    """List the sub-commands, a line each."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.about}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {NAME} <command> [option=value ...]",
            "",
            *lines,
            "",
            f"{NAME} <command> --help explains a command's options; {NAME} --version",
            f"To begin with, finetune the embedded model on the embedded data: {NAME} train task=mrpc",
        ]
    )


def unknown(name: str) -> str:
    """Say in one line that there is no such sub-command, and which was probably meant."""
    if "=" in name:
        return f"{shorten(name)} is an option; name a command before it, such as {NAME} train {shorten(name)}"
    meant = did_you_mean(near(name, COMMANDS))
    return f"{shorten(name)} is no command{meant or ';'} {NAME} --help lists them"


def _refuse(name: str) -> None:
    from effective_attention.run.cli import one_line_errors

    with one_line_errors():
        raise UserError(unknown(name))


# --- the sub-commands ---


def _train(options: list[str]) -> None:
    start("train", options, typed=["train"])


def _evaluate(options: list[str]) -> None:
    start("evaluate", options, typed=["evaluate"])


def _explore(options: list[str]) -> None:
    _look("explore", "explorer", options, example='checkpoint=<run> text="A cat sat." text_pair="It purred."')


def _explain(options: list[str]) -> None:
    _look("explain", "explain", options, example='checkpoint=<run> text="A joy from beginning to end."')


def _look(name: str, analysis: str, options: list[str], *, example: str) -> None:
    """Evaluate with one analysis; ``--help`` is about that one."""
    if not {"-h", "--help"} & {*options}:
        _evaluate(with_analysis(analysis, options))
        return
    from effective_attention.program import config_folder
    from effective_attention.run.options.help import short_help

    print(short_help(config_folder(), name, analysis, example))


def _report(arguments: list[str]) -> None:
    from effective_attention.run import report
    from effective_attention.run.cli import one_line_errors

    with one_line_errors():
        report.main(arguments, program=f"{NAME} report")


def _weights(arguments: list[str]) -> None:
    from effective_attention.models.__main__ import main as fetch_models

    fetch_models(arguments, program=f"{NAME} weights")


def _doctor(arguments: list[str]) -> None:
    from effective_attention.run import doctor
    from effective_attention.run.cli import one_line_errors, reader_may_leave

    if arguments in (["--help"], ["-h"]):
        print(f"{NAME} doctor: {COMMANDS['doctor'].about}; it takes no options")
        return
    with one_line_errors():
        if arguments:
            raise UserError(f"doctor takes no arguments, got {shorten(' '.join(arguments))}")
    with reader_may_leave():
        code = doctor.main()
    sys.exit(code)


COMMANDS = {
    "train": Command("finetune a model on a task, and test it with standard and effective attention", _train),
    "evaluate": Command("test a finetuned model, and analyse what its heads do", _evaluate),
    "explore": Command("look at one text in an interactive page (evaluate analysis=explorer)", _explore),
    "explain": Command("see which words decided one prediction (evaluate analysis=explain)", _explain),
    "report": Command("write one table and one report over finished runs from anywhere", _report),
    "weights": Command("list the models that pip can bring, and fetch one before it is needed", _weights),
    "doctor": Command("say what is installed, which devices and caches there are, what is missing for what", _doctor),
}
