"""Every wrong option is one line: its name, what it may be, what came, and what was probably meant."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from effective_attention.attention.readings import Protocol, Space
from effective_attention.attention.variants import TESTED
from effective_attention.data.batches import Padding
from effective_attention.errors import UserError
from effective_attention.run.options.check import check_options
from effective_attention.run.options.schema import Attention, Common, Data, Evaluate, Train, schema_of
from fuzz.overrides import refusal

NUMBER = "a whole number, at least 1 and at most 2^31 - 1"


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ("data.max_length=null", "data.max_length must be a whole number, at least 5 and at most 2^31 - 1, got null"),
        ("data.batch_size=null", f"data.batch_size must be {NUMBER}, got null"),
        ("data.batch_size=true", f"data.batch_size must be {NUMBER}, got true"),
        ("data.batch_size=[1,2]", f"data.batch_size must be {NUMBER}, got [1, 2]"),
        ("data.batch_size={a:1}", f'data.batch_size must be {NUMBER}, got {{"a": 1}}'),
        ("task=1", "task=1 does not exist; choose one of: agreement, cola,"),
        ("attention=null", "attention=null does not exist; choose one of: affine, all, both,"),
        ("checkpoint=1", "checkpoint=1: a number is not a path; a folder of that name is written ./1"),
        ("resume=1", "resume=1: a number is not a path; a folder of that name is written ./1"),
        ("run_dir=null", "run_dir must be a path, got null"),
        ("optimizer.lr=-1", "optimizer.lr must be a number, above 0, got -1"),
        ("optimizer.lr=nan", "optimizer.lr must be a number, above 0, got nan"),
        ("optimizer.lr=abc", "optimizer.lr must be a number, above 0, got 'abc'"),
        ("optimizer.lr=true", "optimizer.lr must be a number, above 0, got true"),
        ("optimizer.weight_decay=-1", "optimizer.weight_decay must be a number, at least 0, got -1"),
        ("+optimizer.foo=1", "optimizer.foo is not an option of torch.optim.AdamW; it takes params, lr,"),
        ("warmup=abc", "warmup must be a number from 0 to 1, got 'abc'"),
        ("warmup=-1", "warmup must be a number from 0 to 1, got -1"),
        ("warmup=2", "warmup must be a number from 0 to 1, got 2"),
        ("trainer.max_epochs=-1", f"trainer.max_epochs must be {NUMBER}, got -1"),
        ("trainer.max_epochs=abc", f"trainer.max_epochs must be {NUMBER}, got 'abc'"),
        ("trainer.max_epochs=1.5", f"trainer.max_epochs must be {NUMBER}, got 1.5"),
        ("trainer.max_epochs=null", f"trainer.max_epochs must be {NUMBER}, got null"),
        ("+model.foo=1", "model.foo is not an option of effective_attention.models.encoders.PretrainedEncoder; it"),
        ("model._target_=nothing.here", "model._target_=nothing.here cannot be imported (ModuleNotFoundError:"),
        ("data.token_cache=5", "data.token_cache=5: a number is not a path; a folder of that name is written ./5"),
        ("drift.examples=-1", "drift.examples must be a whole number, at least 0 and at most 2^31 - 1, got -1"),
        ("analysis=[token_types,nul_space]", "analysis=nul_space does not exist; did you mean analysis=null_space?"),
        ("trainer.max_epoch=1", "trainer.max_epoch does not exist; did you mean trainer.max_epochs?"),
    ],
)  # fmt: skip
def test_the_examples_of_the_issue(overrides: str, line: str) -> None:
    command = "evaluate" if overrides.startswith("checkpoint") else "train"
    said = refusal(command, overrides)
    assert said is not None
    assert said.startswith(line)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ("batch_size=16", "batch_size does not exist; did you mean data.batch_size?"),
        ("lr=1", "lr does not exist; did you mean optimizer.lr?"),
        ("data.dir=/x", "data.dir is an option of data=local; add that, or leave it out"),
        ("data.name=a/b", "data.name is an option of data=hub; add that, or leave it out"),
        (
            "model.fetch=yes",
            "model.fetch is an option of model=mpnet_base or model=smollm2; add that, or leave it out",
        ),
        ("task.regression=true", "task.regression is an option of task=custom; add that, or leave it out"),
        ("trainer.precision=16", "trainer.precision is not in the config; an option of pytorch_lightning.Trainer is "),
        (
            "analysis.token_types.layr=3",
            "analysis.token_types.layr does not exist; did you mean analysis.tok",
        ),
        (
            "analysis.null_space.x=1",
            "analysis.null_space is not among the chosen analyses; choose it with analysis=[",
        ),
        (
            "+trainer.precison=16",
            "trainer.precison is not an option of pytorch_lightning.Trainer; did you mean trainer",
        ),
        ("+seeed=1", "seeed does not exist; did you mean seed?"),
        ("++data.batchsize=1", "data.batchsize does not exist; did you mean data.batch_size?"),
        ("task=mrcp", "task=mrcp does not exist; did you mean task=mrpc?"),
        ("hydra/launcher=bsic", "hydra/launcher=bsic does not exist; did you mean hydra/launcher=basic?"),
    ],
)
def test_what_was_probably_meant(overrides: str, line: str) -> None:
    said = refusal("train", overrides)
    assert said is not None
    assert said.startswith(line)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["~task"], "~task: task cannot be left out; choose one of:"),
        (["~data.batch_size"], "data.batch_size is not set; it must be a whole number"),
        (["~trainer.use_distributed_sampler"], "trainer.use_distributed_sampler is not set; it must be false:"),
        (["~nothing"], "Could not delete from config. 'nothing' does not exist"),
        (["+seed=3"], "Could not append to config. An item is already at 'seed'; leave the + out"),
        (["+task=mrpc"], "+task=mrpc: task is there already; leave the + out"),
        (["experiment=paper"], "Could not override 'experiment'. No match in the defaults list; to add it write +exp"),
        (["task=mrpc,rte"], "Ambiguous value for argument 'task=mrpc,rte'; add -m for a sweep"),
        (["task=[mrpc,rte]"], "task=[mrpc,rte]: task takes one choice:"),
        (["seed="], "seed must be a whole number from 0 to 4294967295, got ''"),
        (["seed=${seed}"], "seed: Recursive interpolation detected"),
        (["seed=${nothing}"], "seed: Interpolation key 'nothing' not found"),
        (["seed=[1"], "seed=[1 cannot be read (no viable alternative at input '[1')"),
        (["seed"], "seed: this is neither option=value nor a flag"),
        (["data=local"], "data.dir is not set; add data.dir=<value>"),
        (["data=local", "data.dir=null"], "data.dir is not set; add data.dir=<value>"),
        (["data=local", "data.dir=/no/such"], "data.dir=/no/such: no such folder; give the one that holds MRPC/train"),
        (["data=local", "data.file=a.txt"], "data.file=a.txt is not for task=mrpc; add data.dir=<value> instead"),
        (["task=text", "data=local"], "data.file is not set; add data.file=<value>"),
        (["task=text", "data=local", "data.dir=."], "data.dir=. is not for task=text; add data.file=<value> instead"),
        (["task=text", "data=local", "data.file=/no"], "data.file=/no: no such file; give a text file in UTF-8"),
        (["task=custom"], "task=custom has no data; add data=local data.dir=<folder with train.csv>, data=local data"),
        (["task=custom", "data=local"], "task=custom has no data; add data.dir=<folder with train.csv>, or data.file="),
        (["task=custom", "data=hub"], "task=custom data=hub names no dataset; add data.name=<dataset>"),
        (["task=custom", "data=local", "data.dir=/no"], "data.dir=/no: no such folder; give the one that holds train"),
        (
            ["task=custom", "data=local", "data.file=/no"],
            "data.file=/no: no such file; give CSV, TSV, JSONL or Parquet",
        ),
        (["task=custom", "data=local", "data.dir=.", "data.file=a"], "data.dir and data.file are both given for task"),
        (
            ["task=custom", "data=hub", "data.name=a", "task.validation_share=0"],
            "task.validation_share must be a number",
        ),
        (["task=custom", "data=hub", "data.name=a", "task.text_columns=7"], "task.text_columns must be a text, a list"),
        (["task=text", "data=local", "data.file=."], "data.file=.: is not a file; give a text file in UTF-8"),
        (["task=text", "data=local", "data.unit=word"], "data.unit must be one of line, paragraph, got 'word'"),
        (["task=text", "data=local", "data.min_words=0"], "data.min_words must be a whole number, at least 1"),
        (["data.source=null"], "data.source has options of its own (data.source.<name>=<value>), got null"),
        (["logger.wandb=5"], "logger.wandb has options of its own"),
        (["model.revision=123"], "model.revision must be a text, or null, got 123; a text of that form is written"),
        (["recipe.warmup=5"], "recipe.warmup must be"),  # and not warmup, which takes it over
        (["+trainer.logger=true"], "trainer.logger must be left out: the command sets it itself, got true"),
        (["+trainer.precision=17"], "trainer.precision must be one of 64, 32, 16, transformer-engine, "),
        (["trainer.devices=0"], "trainer: `Trainer(devices=0)` value is not a valid input using cpu accelerator."),
        (["+optimizer.betas=[0.9,2]"], "optimizer: Invalid beta parameter at index 1: 2"),
        (
            ["optimizer._target_=torch.optim.SparseAdam", "~optimizer.fused", "~optimizer.weight_decay"],
            "optimizer: SparseAdam does not support dense gradients",
        ),
        (["task.labels=5"], "task.labels must be a list, each a text, got 5"),
        (["+task.metrics.accuracy.foo=1"], "task.metrics: "),
        (["hydra.mode=abc"], "hydra.mode: Invalid value 'abc', expected one of [RUN, MULTIRUN]"),
        (["--nonsense"], "unrecognized arguments: --nonsense (--hydra-help lists the flags)"),
    ],
)
def test_other_mistakes(overrides: list[str], line: str) -> None:
    said = refusal("train", *overrides)
    assert said is not None
    assert said.startswith(line)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["limit=0"], "limit must be"),  # and not data.limit_train, which takes it over
        (["text="], "text=: it is empty"),
        (["text_pair=x"], "text_pair is given without text; add text=<the first text>"),
        (["candidates=his"], "candidates must be a list, each a word, or null, got 'his'"),
        (["reading=exat"], "reading must be one of exact, padded, got 'exat'"),
        (["space=afine"], "space must be one of value, affine, got 'afine'"),
        (["epsilon=1"], "epsilon must be"),
        (["reading=padded", "space=affine"], "reading=padded is the published protocol; leave out space= and epsilon="),
        (["attention.kinds=[standard,bogus]"], "attention.kinds must be a list of one or more of standard, effective"),
        (["checkpoint=/no/such"], "checkpoint=/no/such: no such file or folder"),
        (["checkpoint='~nobody_here/run'"], "checkpoint=~nobody_here/run: no such file or folder"),
        (
            ["task=custom", "checkpoint=nowhere"],
            "checkpoint=nowhere: no such file or folder; of a model on the hub name the task (task=sst2), or your data",
        ),
        (["analysis=[]"], "analysis=[] names no analysis; write analysis=none"),
        (["resume=x"], "resume=x: no run directory with a config.yaml"),
        (["text=\udcff"], "text: the argument is not valid UTF-8"),
    ],
)
def test_mistakes_in_evaluation(overrides: list[str], line: str) -> None:
    said = refusal("evaluate", *overrides)
    assert said is not None
    assert said.startswith(line)


@pytest.mark.parametrize(
    "overrides",
    [
        ["seed=4294967295"],
        ["warmup=1"],
        ["+trainer.precision=32-true"],
        ["+trainer.max_steps=5"],
        ["+optimizer.betas=[0.9,0.95]"],
        ["optimizer._target_=torch.optim.SGD"],
        ["logger.wandb.tags=[1,a]"],
        ["~analysis.token_types"],
        ["+experiment=paper", "data=sample", "model=tiny"],
        ["+analysis.mine._target_=effective_attention.analyses.timing.Timing"],
    ],
)
def test_what_is_legal_is_accepted(overrides: list[str]) -> None:
    assert refusal("train", *overrides) is None


def test_a_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    assert refusal("train", "seed=${oc.env:SECRET}") == (
        "seed must be a whole number from 0 to 4294967295, got '${oc.env:SECRET}'"
    )


def test_a_folder_called_by_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2024").mkdir()
    assert refusal("train", "data=local", "data.dir=2024") is None


def test_the_command_is_told_by_its_options(compose: Callable[..., Any]) -> None:
    assert schema_of(compose("train")) is Train
    assert schema_of(compose("evaluate")) is Evaluate
    with pytest.raises(UserError, match=r"^optimizer is not set; it must be options of its own$"):
        check_options(compose("train", "~optimizer"))


def test_the_schema_knows_what_the_package_knows() -> None:
    assert get_args(Common.model_fields["reading"].annotation) == get_args(Protocol)
    assert get_args(Common.model_fields["space"].annotation) == get_args(Space)
    assert get_args(Data.model_fields["padding"].annotation) == get_args(Padding)
    assert get_args(get_args(Attention.model_fields["kinds"].annotation)[0]) == TESTED
