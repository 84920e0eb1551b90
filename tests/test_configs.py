"""Every file in conf/ is composed and built, and the defaults are the paper's recipe."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf
from pytorch_lightning.accelerators import CUDAAccelerator
from pytorch_lightning.strategies import DDPStrategy, FSDPStrategy, SingleDeviceStrategy

from effective_attention.run.options.check import check_options
from effective_attention.run.options.targets import check_targets
from helpers.paths import CONF, ROOT

CHOICES = sorted((path.parent.name, path.stem) for path in CONF.glob("*/*.yaml"))
GROUPS = ("task", "model", "data", "attention", "analysis", "tagger", "trainer", "logger", "experiment")
COMMANDS = ("train", "evaluate")
GLUE = {"cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli"}


def load(name: str, *overrides: str) -> Any:
    """Compose the config as the command does, nothing shrunk; ``run_dir`` is given, as it would ask a running Hydra."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra_compose(name, overrides=["run_dir=nowhere", *overrides])


def choice(group: str, name: str) -> list[str]:
    override = f"{'+' if group == 'experiment' else ''}{group}={name}"
    if (group, name) == ("task", "custom"):  # it has no sample
        return [override, "data=hub", "data.name=somebody/something"]
    return [override, "data.dir=somewhere"] if (group, name) == ("data", "local") else [override]


def test_no_file_is_missed() -> None:
    assert {group for group, _ in CHOICES} == set(GROUPS)
    known = {CONF / group / f"{name}.yaml" for group, name in CHOICES} | {
        CONF / f"{name}.yaml" for name in ("base", *COMMANDS)
    }
    assert set(CONF.rglob("*.yaml")) == known


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("group", "name"), CHOICES)
def test_every_choice_composes_and_resolves(group: str, name: str, command: str) -> None:
    cfg = load(command, *choice(group, name))
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    if name != "local":  # its folder does not exist
        check_options(cfg)
    check_targets(cfg)


@pytest.mark.parametrize("name", [name for group, name in CHOICES if group == "task" and name != "custom"])
def test_tasks(name: str) -> None:
    task = instantiate(load("train", f"task={name}").task)
    assert task.name == name
    metrics = task.build_metrics()
    if not task.has_labels:
        assert (len(metrics), task.main_metric) == (0, None)
        return
    assert task.main_metric in metrics
    labels = torch.tensor([0, 1, 0, 1]) if not task.is_regression else torch.tensor([0.0, 1.0, 2.0, 4.0])
    perfect = {name: value.item() for name, value in metrics(labels, labels).items()}
    assert perfect == pytest.approx(dict.fromkeys(perfect, 1.0)), (
        "a perfect prediction scores 1 by every metric of GLUE"
    )


def test_all_of_glue_but_ax_and_agreement_and_treebanks_and_text_and_ones_own() -> None:
    assert {name for group, name in CHOICES if group == "task"} == GLUE | {"agreement", "custom", "text", "treebank"}


@pytest.mark.parametrize(
    ("name", "kind", "model", "embedded"),
    [
        ("minilm", "PretrainedEncoder", "minilm", True),
        ("bert_base", "PretrainedEncoder", "google-bert/bert-base-uncased", False),
        ("mpnet_base", "PretrainedEncoder", "mpnet_base", False),
        ("smollm2", "PretrainedEncoder", "smollm2", False),
        ("abnar", "RandomEncoder", "abnar", False),
        ("tiny", "RandomEncoder", "tiny", True),
    ],
)
def test_models(name: str, kind: str, model: str, embedded: bool) -> None:
    encoder = instantiate(load("train", f"model={name}").model)
    assert (type(encoder).__name__, encoder.name, encoder.embedded) == (kind, model, embedded)
    assert sum(group == "model" for group, _ in CHOICES) == 6


@pytest.mark.parametrize("name", ["sample", "hub", "local"])
def test_sources(name: str) -> None:
    source = instantiate(load("train", *choice("data", name)).data.source)
    assert source.name == name
    assert callable(source.load)


def test_broken_rows_option_reaches_the_sources() -> None:
    for name in ("hub", "local"):
        cfg = load("train", *choice("data", name), "data.skip_broken_rows=true")
        assert instantiate(cfg.data.source).skip_broken_rows is True


def test_any_model_name() -> None:
    assert instantiate(load("train", "model.name=somebody/some-bert", "model.revision=v1").model).to_dict() == {
        "name": "somebody/some-bert",
        "revision": "v1",
    }


@pytest.mark.parametrize("name", [name for group, name in CHOICES if group == "trainer"])
def test_trainers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = load("train", f"trainer={name}")
    if name in ("gpu", "ddp", "fsdp") and not torch.cuda.is_available():
        with pytest.raises(InstantiationException, match=r"trainer\.Trainer"):  # it got as far as looking for devices
            instantiate(cfg.trainer, logger=False)
        for module in ("lightning_fabric", "pytorch_lightning"):
            monkeypatch.setattr(f"{module}.accelerators.cuda.num_cuda_devices", lambda: 2, raising=False)
        monkeypatch.setattr(CUDAAccelerator, "is_available", staticmethod(lambda: True))
        monkeypatch.setattr(CUDAAccelerator, "auto_device_count", staticmethod(lambda: 2))
        monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda *_, **__: True)
    trainer = instantiate(cfg.trainer, logger=False)
    assert (trainer.max_epochs, trainer.gradient_clip_val) == (3, None if name == "fsdp" else 1.0)
    assert isinstance(trainer.strategy, {"ddp": DDPStrategy, "fsdp": FSDPStrategy}.get(name, SingleDeviceStrategy))


def test_missing_graphics_card_is_one_line(compose: Callable[..., Any], tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    from effective_attention.errors import UserError
    from effective_attention.run.experiment import train

    with pytest.raises(UserError, match=r"^trainer: .*add trainer=cpu$"):
        train(compose("train", "trainer=gpu"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("both", ["standard", "effective"]),
        ("standard", ["standard"]),
        ("effective", ["effective"]),
        ("affine", ["standard", "affine"]),
        ("padded", ["standard", "padded"]),
        ("all", ["standard", "effective", "affine", "padded"]),
    ],
)
def test_attentions(name: str, kinds: list[str]) -> None:
    assert load("train", f"attention={name}").attention == {"kinds": kinds, "repeats": 1}
    assert sum(group == "attention" for group, _ in CHOICES) == 6


@pytest.mark.parametrize("name", [name for group, name in CHOICES if group == "analysis"])
def test_analyses(name: str) -> None:
    from effective_attention.analyses import Analysis

    sentence = ["text='It is [MASK].'", "candidates=[his,her]", "referents=[It]"] if name == "pronouns" else []
    made = instantiate(load("evaluate", f"analysis={name}", *sentence).analysis)
    assert name in (*made, "none", "paper", "identifiability", "structure", "all")
    assert all(isinstance(analysis, Analysis) for analysis in made.values())
    assert [analysis.analysis_name() for analysis in made.values()] == list(made)
    assert (len(made) == 0) == (name == "none")


def test_a_list_of_analyses() -> None:
    assert list(load("evaluate", "analysis=[null_space,token_types]").analysis) == ["null_space", "token_types"]
    assert list(load("train").analysis) == ["token_types", "finetuning_shift"]
    assert set(load("evaluate").analysis) == set(load("evaluate", "analysis=paper").analysis)
    assert load("evaluate", "analysis.token_types.layer=all").analysis.token_types.layer == "all"


@pytest.mark.parametrize(("name", "kind"), [("embedded", "EmbeddedTagger"), ("spacy", "SpacyTagger")])
def test_taggers(name: str, kind: str) -> None:
    assert load("evaluate", f"tagger={name}").tagger._target_ == f"effective_attention.data.annotation.tagging.{kind}"
    assert sum(group == "tagger" for group, _ in CHOICES) == 2


def test_loggers() -> None:
    assert load("train", "logger=csv").logger.wandb is None
    assert load("train").logger.wandb.project == "effective-attention"


# --- the paper ---


def test_the_papers_recipe_is_the_default() -> None:
    cfg = load("train")
    assert (cfg.data.batch_size, cfg.data.max_length, cfg.data.padding) == (8, 128, "longest")
    assert (cfg.trainer.max_epochs, cfg.trainer.gradient_clip_val) == (3, 1.0)
    assert cfg.warmup == 0.0
    assert cfg.attention.kinds == ["standard", "effective"]
    assert (cfg.model.name, cfg.data.source._target_.split(".")[-1]) == ("minilm", "SampleSource")
    assert (cfg.data.limit_train, cfg.data.limit_eval, cfg.resume, cfg.seed) == (None, None, None, 0)
    optimizer = instantiate(cfg.optimizer)([torch.nn.Parameter(torch.zeros(1))])
    assert type(optimizer) is torch.optim.AdamW
    assert optimizer.defaults["lr"] == 5e-5


def recipe_of(cfg: Any) -> tuple[float, float, float, int, int]:
    return cfg.optimizer.lr, cfg.optimizer.weight_decay, cfg.warmup, cfg.trainer.max_epochs, cfg.data.batch_size


def test_a_model_may_bring_its_own_recipe() -> None:
    scratch = load("train", "task=agreement", "model=abnar")
    assert (scratch.model.layers, scratch.model.heads, scratch.model.width) == (6, 8, 128)
    assert recipe_of(scratch) == tuple(
        scratch.recipe[name] for name in ("learning_rate", "weight_decay", "warmup", "epochs", "batch_size")
    )
    assert scratch.optimizer.lr > 5e-5
    for other in ("minilm", "bert_base", "tiny"):
        assert recipe_of(load("train", "task=agreement", f"model={other}")) == (5e-5, 0.0, 0.0, 3, 8)


def test_each_part_of_a_recipe_can_be_overridden() -> None:
    changes = [
        "optimizer.lr=1e-3",
        "optimizer.weight_decay=0.1",
        "warmup=0.5",
        "trainer.max_epochs=1",
        "data.batch_size=2",
    ]
    assert recipe_of(load("train", "model=abnar", *changes)) == (1e-3, 0.1, 0.5, 1, 2)
    assert recipe_of(load("train", "model=abnar", "trainer=cpu", "recipe.epochs=9"))[3] == 9


def test_evaluation_has_no_training_options() -> None:
    cfg = load("evaluate")
    assert cfg.checkpoint is None
    assert not {"optimizer", "warmup", "save", "drift"} & set(cfg)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_papers_protocol(command: str) -> None:
    cfg = load(command, "+experiment=paper", "task=rte")
    assert cfg.model.name == "google-bert/bert-base-uncased"
    assert cfg.data.source._target_.endswith("HubSource")
    assert (cfg.data.padding, cfg.data.max_length, cfg.data.batch_size) == ("max_length", 128, 8)
    assert cfg.trainer.max_epochs == 3
    assert cfg.attention.kinds == ["standard", "effective", "padded"]
    assert cfg.task.name == "rte"


def test_an_experiment_can_still_be_changed() -> None:
    cfg = load("train", "+experiment=paper", "data=sample", "model=tiny", "data.padding=longest")
    assert (cfg.data.source._target_.split(".")[-1], cfg.model._target_.split(".")[-1]) == (
        "SampleSource",
        "RandomEncoder",
    )
    assert cfg.data.padding == "longest"


# --- --help ---


CHOICES_BEGIN, CHOICES_END = "Their choices:\n\n", "\nThe values that these choices make"


def split_help(page: str) -> tuple[str, str, str]:
    """Cut a help page into what stands before the choices, the choices, and what stands behind them."""
    before, rest = page.split(CHOICES_BEGIN)
    choices, behind = rest.split(CHOICES_END)
    return before, choices, behind


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("overrides", [[], ["task=rte", "seed=3"]])
def test_help_is_what_hydra_prints(command: str, overrides: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """All but the list of choices is equal letter by letter; that has the same choices, and words beside them."""
    from hydra._internal.hydra import Hydra
    from hydra._internal.utils import create_config_search_path, get_args_parser

    from effective_attention.run.options.help import is_plain_help, print_help

    parser = get_args_parser()
    arguments = parser.parse_args(["--help", *overrides])
    assert is_plain_help(arguments)
    assert not is_plain_help(parser.parse_args(["--help", "--cfg", "job"]))
    print_help(CONF, command, overrides)
    before, choices, behind = split_help(capsys.readouterr().out)
    hydra = Hydra.create_main_hydra2(task_name=command, config_search_path=create_config_search_path(str(CONF)))
    hydra.app_help(config_name=command, args_parser=parser, args=arguments)
    hydras_before, hydras_choices, hydras_behind = split_help(capsys.readouterr().out)
    assert (before, behind) == (hydras_before, hydras_behind)
    groups, analyses = (part.strip().splitlines() for part in re.split(r"\n\nAnalyses: .*\n\n", choices))
    listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in groups}
    listed["analysis"] = ", ".join(line.split()[0] for line in analyses)
    assert listed == dict(line.split(": ", 1) for line in hydras_choices.strip().splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_gives_every_analysis_a_line_and_stands_before_the_values(command: str) -> None:
    page = subprocess.run(
        [sys.executable, f"{command}.py", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    before, choices, _ = split_help(page)
    for name in sorted(path.stem for path in (CONF / "analysis").glob("*.yaml")):
        assert re.search(rf"^  {name} +[A-Z].*[.?]$", choices, flags=re.MULTILINE), name
    assert "what to look at: one of the analyses below" in before
    assert [line for line in (before + choices).splitlines() if len(line) > 100] == []


@pytest.mark.parametrize("path", sorted((CONF / "analysis").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_first_line_of_an_analysis_says_what_it_asks(path: Path) -> None:
    from effective_attention.run.options.help import first_comment

    said = first_comment(path)
    assert 10 < len(said) <= 90
    assert said[-1] in ".?"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_group_and_imports_nothing_heavy(command: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", f"{command}.py", "--help"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    for group, name in CHOICES:
        assert f"{group} " in done.stdout
        assert name in done.stdout
    for word in ("minilm (embedded)", "data.dir=", "+experiment", f"python {command}.py", "batch_size: 8", "--cfg job"):
        assert word in done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in lines}
    assert "hydra" in imported, "the list was read right"
    assert not imported & {
        "torch",
        "transformers",
        "pytorch_lightning",
        "torchmetrics",
        "wandb",
        "datasets",
        "pandas",
        "numpy",
    }
