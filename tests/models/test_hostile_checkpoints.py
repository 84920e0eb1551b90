"""A stranger's checkpoint is one line or a model: it runs no code, fills no memory, and has nothing else loaded."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from effective_attention.errors import UserError
from effective_attention.models.checkpoints import read_checkpoint, restore_classifier
from effective_attention.models.classifier import CHECKPOINT_KEY
from effective_attention.models.encoders import PretrainedEncoder
from helpers.checkpoints import tiny_checkpoint, write_checkpoint

BIAS = "model.classifier.bias"
EMBEDDINGS = "model.bert.embeddings.word_embeddings.weight"
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def mrpc(make_task: Callable[[str], Any]) -> Any:
    return make_task("mrpc")


def architecture(**changes: Any) -> Change:
    return lambda checkpoint: checkpoint[CHECKPOINT_KEY]["architecture"].update(changes)


def encoder(**changes: Any) -> Change:
    return lambda checkpoint: checkpoint[CHECKPOINT_KEY]["encoder"].update(changes)


def origin(**changes: Any) -> Change:
    return lambda checkpoint: checkpoint[CHECKPOINT_KEY].update(changes)


def weight(tensor: Any, name: Any = BIAS) -> Change:
    return lambda checkpoint: checkpoint["state_dict"].update({name: tensor})


def _expanded(checkpoint: dict[str, Any]) -> None:
    """Claim 16 TB, from four bytes."""
    checkpoint["state_dict"][EMBEDDINGS] = torch.zeros(1).expand(5 * 10**11, 8)
    checkpoint[CHECKPOINT_KEY]["architecture"]["vocab_size"] = 5 * 10**11


def _shared(checkpoint: dict[str, Any]) -> None:
    """Claim a thousand times the memory that there is."""
    one = torch.zeros(1000)
    checkpoint["state_dict"] |= {f"model.extra{number}": one for number in range(10_000)}


def _nested() -> Any:
    value: Any = 1
    for _ in range(200):
        value = {"a": value}
    return value


MALFORMED: dict[str, tuple[Change, str]] = {
    "no layers": (lambda it: it[CHECKPOINT_KEY]["architecture"].pop("num_hidden_layers"), "has more parts|do not fit"),
    "unknown model": (architecture(model_type="nothing"), "model_type is none of"),
    "model without text": (architecture(model_type="vit"), "model_type is none of"),
    "model is a list": (architecture(model_type=["bert"]), "model_type is none of"),
    "text for a size": (architecture(hidden_size="8"), "'hidden_size' expected int, got str"),
    "list for a size": (architecture(hidden_size=[8]), "'hidden_size' expected int, got list"),
    "tensor for a size": (architecture(hidden_size=torch.tensor(8)), "hidden_size is out of bounds"),
    "negative size": (architecture(hidden_size=-8), "no model can be built|do not fit"),
    "size 0": (architecture(hidden_size=0), "no model can be built|do not fit"),
    "no heads": (architecture(num_attention_heads=0), "no model can be built"),
    "heads that do not divide": (architecture(num_attention_heads=3), "no model can be built"),
    "NaN": (architecture(layer_norm_eps=float("nan")), "layer_norm_eps is out of bounds: nan"),
    "infinite": (architecture(initializer_range=float("inf")), "initializer_range is out of bounds: inf"),
    "16 TB": (architecture(vocab_size=5 * 10**11), "vocab_size is out of bounds: 500000000000"),
    "a number without end": (architecture(vocab_size=10**5000), "cannot be read: damaged"),
    "a billion layers": (architecture(num_hidden_layers=10**9), "num_hidden_layers is out of bounds: 1000000000"),
    "200 layers": (architecture(num_hidden_layers=200), "it has more parts than there are weights"),
    "too wide": (architecture(intermediate_size=2**19), r"bias must be \[524288\] real numbers, got \[16\]"),
    "long text": (architecture(hidden_act="x" * 10**6), r"hidden_act is out of bounds: 'xxx.*\.\.\.'$"),
    "unknown activation": (architecture(hidden_act="no"), "no model can be built of it"),
    "negative spread": (architecture(initializer_range=-1.0), "no model can be built of it"),
    "deep": (architecture(id2label=_nested()), "is nested too deeply"),
    "precision that is a function": (architecture(dtype="save"), "dtype must be one of float64, float32"),
    "other outputs": (architecture(id2label={"0": "a"}), "do not fit"),
    "unknown option": (encoder(cache_dir="/"), "no encoder has cache_dir='/'"),
    "encoder of a list": (encoder(name=["a"]), r"no encoder has name=\['a'\]"),
    "encoder that draws on the terminal": (encoder(name="a\x1b[2Jb"), "no encoder has name="),
    "encoder with a long name": (encoder(name="a" * 10**6), r"no encoder has name='aaa.*\.\.\.'$"),
    "encoder true": (encoder(layers=True), "no encoder has layers=True"),
    "encoder without end": (encoder(layers=10**9), "its encoder's num_hidden_layers is 1000000000"),
    "encoder without name": (lambda it: it[CHECKPOINT_KEY]["encoder"].pop("name"), "the encoder has no name"),
    "seed": (origin(seed="1"), "its seed must be a whole number from 0 to 4294967295, got '1'"),
    "whole numbers": (
        weight(torch.zeros(2, dtype=torch.int64)),
        r"must be \[2\] real numbers, got \[2\] whole numbers",
    ),
    "complex": (weight(torch.zeros(2, dtype=torch.complex64)), "must be real numbers, got torch.complex64"),
    "sparse": (weight(torch.zeros(2).to_sparse()), "must be a dense tensor"),
    "quantised": (weight(torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8)), "must be a dense tensor"),
    "without memory": (weight(torch.zeros(2, device="meta")), "must be a dense tensor"),
    "a number": (weight(1.0), "must be a tensor, got float"),
    "another shape": (weight(torch.zeros(7)), r"classifier.bias must be \[2\] real numbers, got \[7\] real numbers"),
    "empty": (weight(torch.zeros(0)), r"must be \[2\] real numbers, got \[0\]"),
    "missing": (lambda it: it["state_dict"].pop(BIAS), r"classifier.bias must be \[2\] real numbers, got none"),
    "extra": (weight(torch.zeros(2), "model.other"), "other must be none, got"),
    "foreign": (weight(torch.zeros(2), "other"), "weight other is none of a model's"),
    "numbered": (weight(torch.zeros(2), 5), "a weight's name is no short text: 5"),
    "no weights": (lambda it: it.update(state_dict={}), "do not fit"),
    "stride 0": (_expanded, r"claims the shape \[500000000000, 8\], and has memory for less"),
    "one memory": (_shared, "its weights claim more memory than they have"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_is_one_line(kind: str, mrpc: Any, tmp_path: Path) -> None:
    change, message = MALFORMED[kind]
    checkpoint = tiny_checkpoint()
    change(checkpoint)
    path = write_checkpoint(tmp_path / "it.ckpt", checkpoint)
    with pytest.raises(UserError, match=message) as error:
        restore_classifier(read_checkpoint(path, mrpc), mrpc)
    assert "checkpoint" in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 500 + len(str(path))


@pytest.mark.parametrize(
    "change",
    [
        origin(architecture=torch.zeros(1)),
        origin(architecture=[]),
        origin(encoder=None),
        origin(task={"name": torch.zeros(1)}),
        origin(task=5),
        lambda it: it[CHECKPOINT_KEY].pop("encoder"),
        lambda it: it[CHECKPOINT_KEY].pop("architecture"),
        lambda it: it.update(state_dict=[1]),
        lambda it: it.pop("state_dict"),
    ],
)
def test_what_lacks_a_part_is_not_ours(change: Change, mrpc: Any, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    change(checkpoint)
    with pytest.raises(UserError, match="was not written by this project"):
        read_checkpoint(write_checkpoint(tmp_path / "it.ckpt", checkpoint), mrpc)


def test_a_task_name_is_shown_short(mrpc: Any, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    checkpoint[CHECKPOINT_KEY]["task"] = {"name": "x\n" * 10**6}
    with pytest.raises(UserError, match=r"was trained on x\\nx.*\.\.\., not on mrpc; choose another one$") as error:
        read_checkpoint(write_checkpoint(tmp_path / "it.ckpt", checkpoint), mrpc)
    assert "\n" not in str(error.value)


def test_another_number_of_outputs(make_task: Callable[[str], Any], mrpc: Any, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint("mnli")
    checkpoint[CHECKPOINT_KEY]["task"] = {"name": "mrpc"}
    path = write_checkpoint(tmp_path / "it.ckpt", checkpoint)
    with pytest.raises(UserError, match="its model has 3 outputs, task mrpc has 2"):
        read_checkpoint(path, mrpc)
    assert read_checkpoint(path, make_task("treebank")), "without labels, any model will do"


def test_a_compressed_file_is_refused_before_it_fills_the_memory(mrpc: Any, tmp_path: Path) -> None:
    """180 kB that PyTorch would unpack to 40 MB, and 40 MB to 10 GB."""
    plain = write_checkpoint(tmp_path / "plain.ckpt", {"state_dict": {"model.a": torch.zeros(10_000_000)}})
    bomb = tmp_path / "bomb.ckpt"
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            target.writestr(entry.filename, source.read(entry.filename))
    assert bomb.stat().st_size < plain.stat().st_size / 100
    assert torch.load(bomb, weights_only=True), "PyTorch itself takes it"
    with pytest.raises(UserError, match="cannot be read: damaged, or not a PyTorch file"):
        read_checkpoint(bomb, mrpc)


CHOICES = {
    "attn_implementation": "kernels-community/flash-attn",
    "_attn_implementation": "kernels-community/flash-attn",
    "_attn_implementation_internal": "kernels-community/flash-attn",
    "experts_implementation": "x",
    "use_kernels": True,
    "kernel_config": {"a": "b"},
    "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    "auto_map": {"AutoModelForSequenceClassification": "stranger/repo--code.Model"},
    "custom_pipelines": {"a": "b"},
    "name_or_path": "stranger/repo",
    "_name_or_path": "stranger/repo",
    "torch_dtype": "save",
    "per_layer_config": {"0": {"hidden_size": 10**9}},
    "trust_remote_code": True,
    "return_dict": False,
    "use_return_dict": False,
    "output_attentions": True,
    "num_labels": 10**12,
    "is_composition": True,
    "__class__": "x",
    "_target_": "os.system",
}


def test_what_is_no_size_is_left_out(mrpc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers.utils.hub, "cached_files", lambda *_, **__: pytest.fail("reached for files"))
    checkpoint = tiny_checkpoint()
    clean = restore_classifier(checkpoint, mrpc).model
    checkpoint[CHECKPOINT_KEY]["architecture"] |= CHOICES
    path = write_checkpoint(tmp_path / "it.ckpt", checkpoint)
    model = restore_classifier(read_checkpoint(path, mrpc), mrpc).model
    assert model.config.to_dict() == clean.config.to_dict()
    assert model.config._attn_implementation == clean.config._attn_implementation
    assert not hasattr(model.config, "quantization_config")
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), clean.parameters(), strict=True))


def test_the_model_it_names_is_said_aloud(mrpc: Any, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = tiny_checkpoint()
    with caplog.at_level("INFO"):
        restore_classifier(checkpoint, mrpc)
        assert "names model" not in caplog.text
        checkpoint[CHECKPOINT_KEY]["encoder"] = {"name": "stranger/repo", "revision": None}
        restore_classifier(checkpoint, mrpc)
    assert "the checkpoint names model 'stranger/repo': its tokenizer is loaded from there, and no code" in caplog.text


def test_code_on_the_hub_is_neither_run_nor_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformers asks at the terminal whether it may run a model's code, unless it is told that it may not."""
    (tmp_path / "config.json").write_text('{"auto_map": {"AutoConfig": "code.Own"}, "model_type": "own"}')
    (tmp_path / "code.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'sprung')!r}).touch()\n")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    for load in (PretrainedEncoder(str(tmp_path)).tokenizer, lambda: PretrainedEncoder(str(tmp_path)).classifier(2)):
        with pytest.raises(UserError, match="model folder"):
            load()
    assert not (tmp_path / "sprung").exists()


# --- GHSA-qqmf-gpg7-g8gw: hyper-parameters that Lightning before 2.6.6 imported and called ---


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module on the path that leaves a file when it is imported, and another when it is called."""
    (tmp_path / "stranger.py").write_text(
        "import pathlib\n"
        "here = pathlib.Path(__file__).parent\n"
        "(here / 'imported').touch()\n"
        "def build(*args, **options):\n"
        "    (here / 'called').touch()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


HYPER_PARAMETERS = {
    "hyper_parameters": {
        "_instantiator": "stranger.build",
        "_class_path": "stranger.build",
        "_target_": "stranger.build",
    },
    "hparams_name": "stranger.build",
    "hparams_type": "stranger.build",
    "datamodule_hyper_parameters": {"_instantiator": "stranger.build"},
    "datamodule_hparams_name": "stranger.build",
    "datamodule_hparams_type": "stranger.build",
}
METRICS = {
    "name": "mrpc",
    "metrics": {"accuracy": {"_target_": "stranger.build"}},
    "loaders": {"sample": {"_target_": "stranger.build"}},
}


def _sprung(folder: Path) -> bool:
    return (folder / "imported").exists() or (folder / "called").exists()


def test_hyper_parameters_and_tasks_run_no_code_when_read(mrpc: Any, canary: Path) -> None:
    checkpoint = {**tiny_checkpoint(), **HYPER_PARAMETERS}
    checkpoint[CHECKPOINT_KEY]["task"] = METRICS
    path = write_checkpoint(canary / "it.ckpt", checkpoint)
    classifier = restore_classifier(read_checkpoint(path, mrpc), mrpc)
    assert classifier.task is mrpc
    assert not _sprung(canary)
    import stranger  # type: ignore[import-not-found]

    stranger.build()
    assert (canary / "imported").exists(), "the canary itself works"
    assert (canary / "called").exists(), "the canary itself works"


def test_hyper_parameters_run_no_code_when_training_is_resumed(
    composer: Callable[..., Any], trained: Any, canary: Path
) -> None:
    from effective_attention.run.experiment import train

    checkpoint = torch.load(trained.folder / "checkpoints" / "last.ckpt", weights_only=True)
    checkpoint |= HYPER_PARAMETERS
    checkpoint[CHECKPOINT_KEY]["task"] |= METRICS
    precious = canary / "precious"
    precious.mkdir()
    for state in checkpoint["callbacks"].values():
        if "best_model_path" in state:  # Lightning removes, folders too, what a checkpoint calls the best one before
            state["best_model_path"] = state["last_model_path"] = str(
                canary / "run" / "checkpoints" / ".." / ".." / "precious"
            )
    path = write_checkpoint(canary / "last.ckpt", checkpoint)
    train(composer("train", canary, "attention=standard", f"resume={path}", "trainer.max_epochs=2"))
    assert (canary / "run" / "checkpoints" / "best.ckpt").exists(), "it did go on"
    assert precious.exists()
    assert not _sprung(canary)


def test_the_options_of_a_strangers_run_name_no_code(tmp_path: Path) -> None:
    from effective_attention.run.resume import with_run_options

    harmless = ["task=rte", "data.batch_size=4", "+model.dropout=0.2"]
    hostile = [
        "model._target_=os.system", "+model={_target_:os.system}", "+trainer.x._target_=os.system", "hydra.run.dir=/",
        "+hydra.callbacks.x={a:b}", "data.dir=${oc.env:SECRET}", "analysis.faithfulness.methods=[os:system]",
        "~task", "--config-dir=/", "-m", "--multirun=x",
    ]  # fmt: skip
    run = {"callbacks": {"LastCheckpoint": {"options": [*hostile, *harmless]}}}
    path = write_checkpoint(tmp_path / "last.ckpt", run)
    assert with_run_options([f"resume={path}"]) == [f"resume={path}", *harmless]
