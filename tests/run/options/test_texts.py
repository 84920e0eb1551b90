"""A text on the command line comes out of Hydra and OmegaConf exactly as it was typed."""

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from omegaconf import OmegaConf

from effective_attention.run.options.texts import _QUOTED, escaped, quoted
from helpers.texts import texts


def read(argument: str) -> str:
    (override,) = OverridesParser.create().parse_overrides([argument])
    cfg = OmegaConf.create({"text": None})
    OmegaConf.update(cfg, "text", override.value())
    return cfg.text


@given(texts)
@example("${oc.env:SECRET}")
@example("\\${x}")
@example("???")
@example("end\\")
@example("end\\\n")
@example('"Stop!" he said. "No."')
@example("'tis what 'twas'")
@example(" null")
def test_every_text_means_itself(text: str) -> None:
    if text != "null" and not _QUOTED.fullmatch(text):  # these two stand for no text, and for what is in the quotes
        assert read(quoted(f"text={text}")) == text
    inside = text.replace("\\", "").replace("'", "")
    assert read(quoted(f"text='{inside}'")) == inside


def test_home_may_be_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    assert quoted("checkpoint=~/runs/a") == "checkpoint=/home/anna/runs/a"
    assert quoted("task=~/runs/a") == "task=~/runs/a"


@given(texts)
@example("${x}")
@example("\\\\${x}")
@example("???")
@example("'a'")
def test_quoting_what_is_quoted_changes_nothing(text: str) -> None:
    """Lightning starts its other processes with the arguments of the first."""
    once = quoted(f"text={text}")
    assert quoted(once) == once


@given(texts)
def test_escaped_text_is_read_as_it_is(text: str) -> None:
    assert OmegaConf.create({"text": escaped(text)}).text == text


@pytest.mark.parametrize("argument", ["task=mrpc", "text=null", "text='quoted, already'", "-m", "text", "data.text=a"])
def test_other_arguments_are_left_alone(argument: str) -> None:
    assert quoted(argument) == argument


@pytest.mark.parametrize("option", ["text_pair", "++text", "analysis.explorer.beside_text"])
def test_every_option_that_is_a_text(option: str) -> None:
    assert quoted(f"{option}=a, ${{b}}") == rf"{option}='a, \${{b}}'"


def test_a_sweep_over_texts() -> None:
    argument = """text='a, b',"it's ${x}" """.rstrip()
    assert quoted(argument, sweep=True) == r"text='a, b','it\'s \${x}'"
    assert read(quoted(argument)) == argument.removeprefix("text=")


@pytest.mark.parametrize("option", ["resume", "checkpoint", "data.dir", "hydra.run.dir"])
def test_a_folder_of_a_sweep_can_be_pasted(option: str, tmp_path: Path) -> None:
    folder = tmp_path / "0_seed=1,task=rte"
    folder.mkdir()
    (override,) = OverridesParser.create().parse_overrides([quoted(f"{option}={folder}")])
    assert override.value() == str(folder)
    assert quoted(quoted(f"{option}={folder}")) == quoted(f"{option}={folder}")
    assert quoted(f"{option}={folder}-${{x}}") == f"{option}={folder}-${{x}}"
    assert quoted(f"{option}=runs/a,runs/b") == f"{option}=runs/a,runs/b"  # a sweep over two
