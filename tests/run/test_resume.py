"""The options of a run that is resumed: given again in front of the command line's, and compared with it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from effective_attention.errors import UserError
from effective_attention.run.options.texts import quoted
from effective_attention.run.resume import check_epochs, check_same_run, given_options, run_folder, with_run_options


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    folder = tmp_path / "some run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.ckpt").write_bytes(b"")
    options = ["task=rte", "trainer=cpu", "trainer.max_epochs=2", "analysis=paper", "analysis.timing.x=1", "seed=3"]
    (folder / "config.yaml").write_text(f"# options: {json.dumps(options)}\nseed: 3\n")
    return folder


@pytest.mark.parametrize("place", ["", "checkpoints", "checkpoints/last.ckpt"])
def test_a_run_is_given_its_own_options_and_folder(finished: Path, place: str) -> None:
    arguments = [f"resume={finished / place}", "data.num_workers=2"]
    resume, *own, folder, typed = with_run_options(arguments)
    assert own == ["task=rte", "trainer=cpu", "trainer.max_epochs=2", "analysis=paper", "analysis.timing.x=1", "seed=3"]
    assert folder == f"hydra.run.dir='{finished}'"
    assert [resume, typed] == arguments


@pytest.mark.parametrize(
    ("typed", "gone"),
    [
        ("seed=4", {"seed=3"}),
        ("++seed=4", {"seed=3"}),
        ("trainer=cpu", {"trainer=cpu"}),
        ("analysis=none", {"analysis=paper", "analysis.timing.x=1"}),
    ],
)
def test_what_is_typed_takes_the_place_of_the_runs(finished: Path, typed: str, gone: set[str]) -> None:
    """Check that another choice of a group takes its options away, the same choice does not."""
    before = set(with_run_options([f"resume={finished}"]))
    after = set(with_run_options([f"resume={finished}", typed]))
    assert before - after == gone - {typed}


def test_results_go_where_the_user_says(finished: Path, tmp_path: Path) -> None:
    words = with_run_options([f"resume={finished}", f"hydra.run.dir={tmp_path}"])
    assert [word for word in words if word.startswith("hydra.run.dir")] == [f"hydra.run.dir={tmp_path}"]


@pytest.mark.parametrize("words", [["task=mrpc"], ["resume=null"], ["resume=/no/such/run"]])
def test_other_commands_are_left_alone(words: list[str]) -> None:
    assert with_run_options(words) == words


@pytest.mark.parametrize(
    "first", ["seed: 3", "# options: nonsense", '# options: {"a": 1}', '# options: ["-m", "hydra.x=1"]']
)
def test_a_config_without_options_adds_none(tmp_path: Path, first: str) -> None:
    (tmp_path / "config.yaml").write_text(first + "\n")
    assert [word.partition("=")[0] for word in with_run_options([f"resume={tmp_path}"])] == ["resume", "hydra.run.dir"]


@pytest.mark.parametrize("flags", [["--cfg", "job"], ["--config-dir", "conf"]])
def test_flags_may_stand_before_or_behind(finished: Path, flags: list[str]) -> None:
    """Their parser wants all options in one place."""
    for words in ([*flags, f"resume={finished}"], [f"resume={finished}", *flags]):
        after = with_run_options(words)
        at = after.index(f"resume={finished}")
        assert after[at + 1 : at + 8] == with_run_options([f"resume={finished}"])[1:]


def test_a_folder_with_odd_letters_comes_back_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "it's, a\\run=1"
    folder.mkdir()
    (folder / "config.yaml").write_text("# options: []\n")
    words = with_run_options([quoted(f"resume={folder}")])
    assert [override.value() for override in OverridesParser.create().parse_overrides(words)] == [str(folder)] * 2


def test_a_sweep_over_resume_is_refused() -> None:
    with pytest.raises(UserError, match="cannot be swept over with -m"):
        with_run_options(["-m", "resume=a,b"])


def test_what_is_not_taken_over_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["text='\\${a}'", "logger.wandb.project=${oc.env:PROJECT}"]
    (tmp_path / "config.yaml").write_text(f"# options: {json.dumps(options)}\n")
    assert options[0] in with_run_options([f"resume={tmp_path}"])  # a text, not an interpolation
    assert "'logger.wandb.project=${oc.env:PROJECT}' is not taken over" in capsys.readouterr().err


def test_a_run_does_not_say_yes_to_a_download_for_its_next_user(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text('# options: ["model=smollm2", "model.fetch=yes", "+model.fetch=yes"]\n')
    words = with_run_options([f"resume={tmp_path}"])
    assert "model=smollm2" in words
    assert not any("fetch" in word for word in words)
    check_same_run({"model": {"fetch": "yes"}}, {"model": {"fetch": "ask"}}, tmp_path)


def test_a_secret_is_not_written_down_with_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    given = OmegaConf.create({"overrides": {"task": ["data.token_cache=${oc.env:SECRET}", "resume=x"]}})
    monkeypatch.setattr(HydraConfig, "initialized", lambda: True)
    monkeypatch.setattr(HydraConfig, "get", lambda: given)
    assert given_options() == ["data.token_cache=${oc.env:SECRET}"]


def test_a_file_from_somewhere_else_has_no_run_folder(tmp_path: Path) -> None:
    (tmp_path / "it.ckpt").write_bytes(b"nonsense")
    assert run_folder(tmp_path / "it.ckpt") is None
    assert with_run_options([f"resume={tmp_path / 'it.ckpt'}"]) == [f"resume={tmp_path / 'it.ckpt'}"]


OWN = {
    "seed": 0,
    "data": {"batch_size": 8, "num_workers": 0, "dir": "a"},
    "trainer": {"max_epochs": 3, "precision": 32},
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, r"seed=1 contradicts resume=there, a run with seed=0; write seed=0, or nothing"),
        ({"data": OWN["data"] | {"batch_size": 4}}, r"data\.batch_size=4 contradicts .* a run with data\.batch_size=8"),
        ({"trainer": OWN["trainer"] | {"precision": 16}}, r"trainer\.precision=16"),
        ({"trainer": OWN["trainer"] | {"accumulate_grad_batches": 2}}, r"trainer\.accumulate_grad_batches=2 .*=null"),
    ],
)
def test_what_contradicts_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_same_run(OWN, {**OWN, **change}, "there")


def test_what_changes_no_result_may_change() -> None:
    data = {"batch_size": 8, "num_workers": 4, "dir": "b"}
    free = {"data": data, "trainer": OWN["trainer"] | {"max_epochs": 5}, "drift": {"examples": 1}, "run_dir": "x"}
    check_same_run(OWN, {**OWN, **free}, "there")


def test_epochs() -> None:
    assert check_epochs(2, 3, 3, "there") is None
    assert "will not be the run that had as many from the start" in str(check_epochs(2, 3, 4, "there"))
    with pytest.raises(UserError, match=r"trainer\.max_epochs=1 is fewer than resume=there has done, which is 2"):
        check_epochs(2, 3, 1, "there")


# --- checkpoint=<run> ---


@pytest.fixture
def trained_on_own_data(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.ckpt").write_bytes(b"")
    options = [
        "task=custom", "task.text_columns=[text]", "data=local", "data.dir=x", "data.limit_eval=9",
        "data.max_length=64", "data.num_workers=2", "model=tiny", "trainer=cpu", "analysis=none", "seed=3",
        "logger=csv", "drift.examples=0",
    ]  # fmt: skip
    (folder / "config.yaml").write_text(f"# options: {json.dumps(options)}\nseed: 3\ntask:\n  name: custom\n")
    return folder


OWN_TASK = ["task=custom", "task.text_columns=[text]"]
OWN_DATA = ["data=local", "data.dir=x", "data.max_length=64"]


@pytest.mark.parametrize("place", ["", "checkpoints", "checkpoints/last.ckpt"])
@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        ([], [*OWN_TASK, *OWN_DATA, "model=tiny"]),
        (["task=custom"], ["task.text_columns=[text]", *OWN_DATA, "model=tiny"]),
        (["task=text"], ["model=tiny"]),
        (["data.dir=y"], [*OWN_TASK, "data=local", "data.max_length=64", "model=tiny"]),
        (["data=sample"], [*OWN_TASK, "model=tiny"]),
    ],
)
def test_a_checkpoint_brings_its_task_model_and_data(
    trained_on_own_data: Path, place: str, typed: list[str], taken: list[str]
) -> None:
    checkpoint = f"checkpoint={trained_on_own_data / place}"
    assert with_run_options([checkpoint, *typed]) == [checkpoint, *taken, *typed]


def test_the_default_task_named_is_the_same_task(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text('# options: ["data=hub"]\ntask:\n  name: mrpc\n')
    assert with_run_options([f"checkpoint={tmp_path}", "task=mrpc"])[1] == "data=hub"
    assert with_run_options([f"checkpoint={tmp_path}", "task=rte"])[1:] == ["task=rte"]


@pytest.mark.parametrize("words", [["-m"], ["--multirun"]])
def test_a_sweep_over_checkpoints_gets_nothing(trained_on_own_data: Path, words: list[str]) -> None:
    arguments = [*words, f"checkpoint={trained_on_own_data}"]
    assert with_run_options(arguments) == arguments


@pytest.mark.parametrize("place", ["null", "${oc.env:RUN}", "/no/such/run"])
def test_other_checkpoints_bring_nothing(place: str) -> None:
    assert with_run_options([f"checkpoint={place}"]) == [f"checkpoint={place}"]


def test_a_classifier_made_elsewhere_answers_the_users_own_question() -> None:
    assert with_run_options(["checkpoint=owner/name"]) == ["checkpoint=owner/name", "task=custom"]
    named = ["task=sst2", "checkpoint=owner/name"]
    assert with_run_options(named) == named


def test_a_checkpoint_names_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["task=rte", "task.metrics.x._target_=os.system", "data.source._target_=a.b", "model.name=${oc.env:A}"]
    (tmp_path / "config.yaml").write_text(f"# options: {json.dumps([*options, '+model.fetch=yes'])}\n")
    assert with_run_options([f"checkpoint={tmp_path}"])[1:] == ["task=rte"]
    assert "warning: checkpoint: 'data.source._target_=a.b' is not taken over" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stored", "taken"),
    [
        ({"callbacks": {"LastCheckpoint": {"options": ["task=rte", "seed=1"]}}}, ["task=rte"]),
        ({"effective_attention": {"task": {"name": "sst2"}}}, ["task=sst2"]),
        ({"effective_attention": {"task": {"name": "a b=c"}}}, []),
        ({"effective_attention": {"task": {"name": "custom", "text_columns": 3}}}, ["task=custom"]),
        ({"effective_attention": {"task": ["name"]}}, []),
        (
            {"effective_attention": {"task": {"name": "custom", "text_columns": ["my text", "${oc.env:A}"]}}},
            ["task=custom", r"task.text_columns=['my text','\${oc.env:A}']"],
        ),
        (
            {"effective_attention": {"task": {"name": "mine", "text_columns": ["q", "a"], "label_range": [0, 1]}}},
            ["task=custom", "task.name=mine", "task.text_columns=[q,a]", "task.regression=true"],
        ),
        ({}, []),
    ],
)
def test_a_checkpoint_away_from_its_run(stored: dict[str, Any], taken: list[str], tmp_path: Path) -> None:
    torch.save(stored, tmp_path / "it.ckpt")
    assert with_run_options([f"checkpoint={tmp_path / 'it.ckpt'}"])[1:] == taken


def test_what_a_lone_checkpoint_lacks_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = f"checkpoint={tmp_path / 'it.ckpt'}"
    torch.save({"effective_attention": {"task": {"name": "custom", "text_columns": ["q"]}}}, tmp_path / "it.ckpt")
    own = f"{place}: with its own task=custom task.text_columns=[q]"
    both = "data=local data.dir=<folder> or data.file=<file>, and task.label_column=<column> unless that is label"
    column = "task.label_column=<column> unless that is label"
    said = "; the file alone does not say what else it learnt from: add "
    for given, missing in (
        ([], said + both),
        (["data=local", "data.dir=x"], said + column),
        (["data=local", "task.label_column=y"], ""),
        (["text='It'"], ""),
    ):
        with_run_options([place, *given])
        assert capsys.readouterr().out == f"{own}{missing}\n"


@pytest.mark.parametrize("name", ["best.ckpt", "last.ckpt"])
def test_a_checkpoint_in_its_run_is_as_good_as_the_run(
    name: str, trained_on_own_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = with_run_options([f"checkpoint={trained_on_own_data}"])[1:]
    assert len(run) > 3
    folder = trained_on_own_data / "checkpoints"
    folder.mkdir(exist_ok=True)
    (folder / name).touch()
    assert with_run_options([f"checkpoint={folder / name}"])[1:] == run
    monkeypatch.chdir(folder)
    assert with_run_options([f"checkpoint={name}"])[1:] == run
    monkeypatch.chdir(trained_on_own_data)
    assert with_run_options([f"checkpoint=checkpoints/{name}"])[1:] == run


def test_what_a_checkpoint_brings_is_said(trained_on_own_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = f"checkpoint={trained_on_own_data}"
    with_run_options([checkpoint])
    assert capsys.readouterr().out.startswith(f"{checkpoint}: with its own task=custom task.text_columns=[text] ")
    with_run_options([checkpoint, "--cfg", "job"])
    assert capsys.readouterr().out == ""
