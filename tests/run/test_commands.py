"""The command ``effective-attention``: its list, its errors, and what each sub-command hands to whom."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from effective_attention.run import cli, commands, doctor, report
from effective_attention.run.commands import COMMANDS, main, with_analysis
from helpers.paths import ROOT

HEAVY = {"hydra", "torch", "transformers", "pytorch_lightning", "pandas", "numpy", "wandb"}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return ``call("train", "seed=1")``, which runs ``effective-attention`` in this process."""

    def go(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["/bin/effective-attention", *words])
        main()

    return go


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
def test_alone_it_lists_the_commands_a_line_each(
    words: tuple[str, ...], call: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    call(*words)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == [*COMMANDS]
    assert [*COMMANDS] == ["train", "evaluate", "explore", "explain", "report", "weights", "doctor"]
    assert max(map(len, lines)) <= 100


def test_the_list_and_the_version_load_nothing_heavy() -> None:
    for flag in ("--help", "--version"):
        words = [sys.executable, "-X", "importtime", "-m", "effective_attention", flag]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        imported = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
        assert "effective_attention" in imported, "the list was read right"
        assert not imported & HEAVY
        assert done.stdout.split()[0] in ("usage:", "effective-attention")


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("trian", "trian is no command; did you mean train? effective-attention --help lists them"),
        ("xyz", "xyz is no command; effective-attention --help lists them"),
        ("seed=1", "seed=1 is an option; name a command before it, such as effective-attention train seed=1"),
    ],
)
def test_what_is_no_command(
    word: str, line: str, call: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        call(word)
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"error: {line}\n"


@pytest.mark.parametrize(
    ("words", "name", "options"),
    [
        (["train", "seed=1"], "train", ["seed=1"]),
        (["evaluate", "limit=8"], "evaluate", ["limit=8"]),
        (["explore", "text=It"], "evaluate", ["analysis=explorer", "text=It"]),
        (["explain", "text=It"], "evaluate", ["analysis=explain", "text=It"]),
        (["explore", "analysis=[explorer,heatmap]"], "evaluate", ["analysis=[explorer,heatmap]"]),
    ],
)
def test_commands_with_a_config(
    words: list[str], name: str, options: list[str], call: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(cli, "command", lambda *given, typed: asked.append((given[0], sys.argv[1:], typed)))
    call(*words)
    assert asked == [(name, options, [name])]


def test_who_resumes_a_run_gets_its_analyses() -> None:
    assert with_analysis("explorer", ["resume=runs/a"]) == ["resume=runs/a"]
    assert with_analysis("explorer", ["+analysis=none"]) == ["+analysis=none"]
    assert with_analysis("explorer", ["analysis.explorer.examples=2"])[0] == "analysis=explorer"


def test_a_task_finds_the_sub_command_in_front_of_its_options(
    tmp_path: Path, logging_restored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning starts the other processes of DDP with what it finds there."""
    seen: list[list[str]] = []
    monkeypatch.setattr(sys, "argv", ["/bin/effective-attention", "seed=1", f"hydra.run.dir={tmp_path}"])
    cli.command("train", lambda cfg: seen.append([*sys.argv, str(cfg.seed)]), typed=["train"])
    assert seen == [["/bin/effective-attention", "train", "seed=1", f"hydra.run.dir={tmp_path}", "1"]]


def test_an_analysis_that_does_not_exist_is_one_line(
    call: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "with_analysis", lambda name, options: [f"analysis=no_{name}", *options])
    with pytest.raises(SystemExit) as stop:
        call("explore")
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: analysis=no_explorer does not exist; did you mean analysis=explorer?")


def test_the_other_commands(
    call: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from effective_attention.models import __main__ as weights

    asked: list[Any] = []
    monkeypatch.setattr(report, "main", lambda *given, program: asked.append((given, program)))
    monkeypatch.setattr(weights, "main", lambda *given, program: asked.append((given, program)))
    call("report", "runs", "--to", "all")
    call("weights", "fetch", "smollm2")
    assert asked == [
        ((["runs", "--to", "all"],), "effective-attention report"),
        ((["fetch", "smollm2"],), "effective-attention weights"),
    ]
    monkeypatch.setattr(doctor, "main", lambda: 1)
    for words, code in ((["doctor"], 1), (["doctor", "--all"], 2)):
        with pytest.raises(SystemExit) as stop:
            call(*words)
        assert stop.value.code == code
    assert capsys.readouterr().err == "error: doctor takes no arguments, got --all\n"


def test_help_of_report_and_weights_names_the_command(
    call: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("report", "weights"):
        with pytest.raises(SystemExit) as stop:
            call(name, "--help")
        assert stop.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: effective-attention {name}")


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize(("name", "analysis"), [("explore", "explorer"), ("explain", "explain")])
def test_help_of_explore_and_explain_is_short_and_their_own(
    name: str, analysis: str, flag: str, call: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    call(name, "task=rte", flag)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"effective-attention {name}: ")
    assert lines[2].startswith(f"  effective-attention {name} checkpoint=<run> text=")
    assert len(lines) < 30
    assert max(map(len, lines)) <= 100
    listed = [line.split("=")[0].strip() for line in lines if re.match(r"  \w+=", line)]
    own = yaml.safe_load((ROOT / "conf" / "analysis" / f"{analysis}.yaml").read_text(encoding="utf-8"))[analysis]
    assert listed == ["checkpoint", "text", "text_pair", *(option for option in own if option != "_target_")]
    assert lines[-1] == "  effective-attention evaluate --help"


def test_nobody_has_to_read_the_help_to_its_end() -> None:
    words = [sys.executable, "-m", "effective_attention", "train", "--help"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.close()
        assert started.stderr.read() == b""
    assert started.returncode == 0


def test_errors_of_report_name_the_command(call: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call("report")
    assert "; write effective-attention report <folder>" in capsys.readouterr().err


def test_the_page_of_commands_has_them_all_and_no_other() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [f"| `{name}` | {command.about} |" for name, command in COMMANDS.items()] == [
        line for line in page.splitlines() if line.startswith("| `")
    ]
    used = re.findall(r"(?:^|`)effective-attention ([a-z]\w*)", page, flags=re.MULTILINE)
    assert set(used) == {*COMMANDS}
