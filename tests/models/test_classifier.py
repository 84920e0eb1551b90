"""The LightningModule: losses, metrics and schedule against values computed by hand."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.precision import MixedPrecision
from torch import Tensor, nn

from effective_attention.errors import UserError
from effective_attention.finite import NotFiniteError, Watch
from effective_attention.models.classifier import CHECKPOINT_KEY, SequenceClassifier
from effective_attention.models.encoders import TinyEncoder


class Echo(nn.Module):
    """A model whose logits are its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, input_ids: Tensor) -> Any:
        return SimpleNamespace(logits=input_ids + 0 * self.weight)


LOGITS = torch.tensor([[2.0, 1.0], [0.0, 1.0], [1.0, 3.0], [0.5, 0.0]])
LABELS = torch.tensor([0, 1, 0, 1])  # predictions 0 1 1 0: one true positive, one false positive, one false negative
SCORES = torch.tensor([[1.0], [2.0], [4.0], [3.0]])
TRUTH = torch.tensor([1.0, 2.0, 3.0, 5.0])


def loader(inputs: Tensor, labels: Tensor) -> list[dict[str, Tensor]]:
    """Make two unequal batches: a mean of batch means would be wrong."""
    index = torch.arange(len(labels))
    parts = [part for part in (slice(0, 3), slice(3, 4)) if len(index[part])]
    return [{"input_ids": inputs[part], "labels": labels[part], "index": index[part]} for part in parts]


class ListData(pl.LightningDataModule):
    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        super().__init__()
        self.batches = loader(inputs, labels)

    def test_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(self.batches, batch_size=None)  # type: ignore[arg-type]

    train_dataloader = val_dataloader = test_dataloader


def trainer(tmp_path: Path, **options: Any) -> pl.Trainer:
    return pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        default_root_dir=str(tmp_path),
        **options,
    )


@pytest.fixture
def echo(make_task: Callable[[str], Any]) -> Callable[..., SequenceClassifier]:
    return lambda task, *rest, **options: SequenceClassifier(
        Echo(),  # type: ignore[arg-type]
        make_task(task),
        *rest,
        **options,
    )


def test_cross_entropy_by_hand(echo: Callable[..., SequenceClassifier]) -> None:
    losses = [
        math.log(1 + math.exp(-1)),
        math.log(1 + math.exp(-1)),
        math.log(1 + math.exp(2)),
        math.log(1 + math.exp(0.5)),
    ]
    model = echo("mrpc")
    assert model._loss(model({"input_ids": LOGITS}), LABELS).item() == pytest.approx(sum(losses) / 4)


def test_mean_squared_error_by_hand(echo: Callable[..., SequenceClassifier]) -> None:
    model = echo("stsb")
    assert model({"input_ids": SCORES}).shape == (4,)
    assert model._loss(model({"input_ids": SCORES}), TRUTH).item() == pytest.approx((1 + 4) / 4)


def test_validation_metrics_by_hand(echo: Callable[..., SequenceClassifier], tmp_path: Path) -> None:
    (metrics,) = trainer(tmp_path).validate(echo("mrpc"), datamodule=ListData(LOGITS, LABELS), verbose=False)
    assert metrics["val/accuracy"] == pytest.approx(0.5)
    assert metrics["val/f1"] == pytest.approx(0.5)
    expected = (2 * math.log(1 + math.exp(-1)) + math.log(1 + math.exp(2)) + math.log(1 + math.exp(0.5))) / 4
    assert metrics["val/loss"] == pytest.approx(expected), "weighted by examples, not by batches"


def test_regression_metrics_by_hand(echo: Callable[..., SequenceClassifier], tmp_path: Path) -> None:
    (metrics,) = trainer(tmp_path).validate(echo("stsb"), datamodule=ListData(SCORES, TRUTH), verbose=False)
    # deviations: scores -1.5 -.5 1.5 .5, truth -1.75 -.75 .25 2.25 → 4.5 / sqrt(5 · 8.75); ranks 1 2 4 3 and 1 2 3 4 →
    # 0.8
    assert metrics["val/pearson"] == pytest.approx(4.5 / math.sqrt(5 * 8.75), abs=1e-6)
    assert metrics["val/spearman"] == pytest.approx(0.8, abs=1e-6)


# --- training ---


class Rates(pl.Callback):
    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])


@pytest.mark.parametrize(
    ("warmup", "expected"), [(0.0, [6, 5, 4, 3, 2, 1]), (0.5, [0, 2, 4, 6, 4, 2])], ids=["linear decay", "warm-up"]
)
def test_learning_rate_changes_with_every_step(
    warmup: float, expected: list[float], echo: Callable[..., SequenceClassifier], tmp_path: Path
) -> None:
    model = echo("mrpc", partial(torch.optim.AdamW, lr=6.0), warmup=warmup)
    rates = Rates()
    run = trainer(tmp_path, max_epochs=3, callbacks=[rates])
    run.fit(model, datamodule=ListData(LOGITS, LABELS))
    assert rates.rates == pytest.approx(expected)
    assert run.optimizers[0].param_groups[0]["lr"] == 0.0


def test_a_classifier_for_testing_cannot_be_trained(echo: Callable[..., SequenceClassifier]) -> None:
    with pytest.raises(RuntimeError, match="no optimiser"):
        echo("mrpc").configure_optimizers()


def test_dropout_is_active_in_training_and_not_in_validation(make_task: Callable[[str], Any], tmp_path: Path) -> None:
    model = TinyEncoder().classifier(2).eval()  # as transformers hands out pretrained models
    classifier = SequenceClassifier(model, make_task("mrpc"), partial(torch.optim.SGD, lr=0.0))
    assert classifier.training
    assert classifier.model.training
    modes: dict[str, set[bool]] = {"fit": set(), "validate": set()}
    classifier.model.register_forward_pre_hook(
        lambda module, _: modes[stage[0]].add(all(m.training for m in module.modules()))
    )
    ids = torch.randint(1000, 2000, (4, 6))
    data = ListData(ids, LABELS)
    run = trainer(tmp_path, max_epochs=1, limit_val_batches=0)
    stage = ["fit"]
    run.fit(classifier, datamodule=data)
    stage[0] = "validate"
    trainer(tmp_path).validate(classifier, datamodule=data, verbose=False)
    assert modes == {"fit": {True}, "validate": {False}}
    classifier.train()
    batch = data.batches[0]
    assert not torch.equal(classifier(batch), classifier(batch)), "dropout"
    classifier.eval()
    assert torch.equal(classifier(batch), classifier(batch))


# --- numbers that are not finite ---


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_names_the_step(
    bad: float, echo: Callable[..., SequenceClassifier], tmp_path: Path
) -> None:
    inputs = LOGITS.clone()
    inputs[3, 0] = bad  # in the second batch
    model = echo("mrpc", partial(torch.optim.SGD, lr=1e-3))
    run = trainer(tmp_path, max_epochs=1, limit_val_batches=0)
    with pytest.raises(
        NotFiniteError, match=r"^the training loss is NaN or infinite at step 1: .*smaller optimizer\.lr"
    ):
        run.fit(model, datamodule=ListData(inputs, LABELS))


def test_a_parameter_that_is_not_finite_is_named_too(echo: Callable[..., SequenceClassifier], tmp_path: Path) -> None:
    model = echo("mrpc", partial(torch.optim.SGD, lr=1e-3))
    torch.nn.init.constant_(model.model.weight, math.nan)
    with pytest.raises(NotFiniteError, match=r"training loss .* at step 0 \(and parameter weight by now\)"):
        trainer(tmp_path, max_epochs=1).fit(model, datamodule=ListData(LOGITS, LABELS))


def test_a_validation_loss_that_is_not_finite_stops_too(
    echo: Callable[..., SequenceClassifier], tmp_path: Path
) -> None:
    with pytest.raises(NotFiniteError, match=r"^the validation loss is NaN or infinite at step 0"):
        trainer(tmp_path).validate(echo("mrpc"), datamodule=ListData(LOGITS * math.nan, LABELS), verbose=False)


def test_where_looking_means_waiting_many_losses_are_asked_about_at_once(
    echo: Callable[..., SequenceClassifier], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check, as on a GPU, that the first step is still the one that is named, at the end of the epoch."""
    monkeypatch.setattr(Watch, "due", False)
    inputs = LOGITS.clone()
    inputs[0, 0] = math.nan  # in the first batch
    run = trainer(tmp_path, max_epochs=1, limit_val_batches=0)
    with pytest.raises(NotFiniteError, match=r"training loss is NaN or infinite at step 0"):
        run.fit(echo("mrpc", partial(torch.optim.SGD, lr=0.0)), datamodule=ListData(inputs, LABELS))
    assert run.global_step == 2


def test_no_checkpoint_holds_weights_that_are_not_finite(make_task: Callable[[str], Any], tmp_path: Path) -> None:
    encoder = TinyEncoder(layers=1)
    origin = {"encoder": encoder.to_dict(), "seed": 3}
    classifier = SequenceClassifier(
        encoder.classifier(2), make_task("mrpc"), partial(torch.optim.SGD, lr=1e-3), origin=origin
    )
    run = trainer(tmp_path, max_epochs=1, limit_val_batches=0)
    run.fit(classifier, datamodule=ListData(torch.randint(1000, 2000, (4, 6)), LABELS))
    torch.nn.init.constant_(classifier.model.classifier.bias, math.inf)
    named = r"^no checkpoint is written: 2 of 2 numbers of model\.classifier\.bias are NaN"
    with pytest.raises(NotFiniteError, match=named):
        run.save_checkpoint(tmp_path / "it.ckpt")
    assert not (tmp_path / "it.ckpt").exists()


def test_gradients_that_overflow_are_the_scalers_business(make_task: Callable[[str], Any], tmp_path: Path) -> None:
    """Check that float16 training goes on where scaled gradients are infinite: the step is left out, as it should."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60)
    plugin = MixedPrecision("16-mixed", "cpu", scaler)
    classifier = SequenceClassifier(TinyEncoder().classifier(2), make_task("mrpc"), partial(torch.optim.SGD, lr=1e-3))
    before = classifier.model.classifier.weight.detach().clone()
    run = trainer(tmp_path, max_epochs=2, limit_val_batches=0, plugins=[plugin])
    run.fit(classifier, datamodule=ListData(torch.randint(1000, 2000, (4, 6)), LABELS))
    assert scaler.get_scale() < 2.0**60, "it has met infinite gradients"
    assert torch.equal(classifier.model.classifier.weight, before)


@pytest.mark.parametrize("name", ["bf16-mixed", "16-mixed"])
def test_a_fused_optimizer_is_clipped_like_any_other(
    name: Any, make_task: Callable[[str], Any], tmp_path: Path
) -> None:
    """Compare a step of clipped gradients, which float16 has scaled before, with that of the optimiser's plain loop."""
    found = []
    for fused in (True, False):
        torch.manual_seed(0)
        model = TinyEncoder(layers=1).classifier(2)
        start = model.classifier.weight.detach().clone()
        optimizer = partial(torch.optim.SGD, lr=10.0, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0) if name == "16-mixed" else None
        options: dict[str, Any] = {"plugins": [MixedPrecision(name, "cpu", scaler)], "gradient_clip_val": 1e-3}
        run = trainer(tmp_path, max_steps=1, limit_val_batches=0, **options)
        ids = torch.randint(1000, 2000, (4, 6), generator=torch.Generator().manual_seed(1))
        run.fit(SequenceClassifier(model, make_task("mrpc"), optimizer), datamodule=ListData(ids, LABELS))
        found.append(model.classifier.weight.detach() - start)
    assert 0 < found[0].norm() <= 10.0 * 1e-3 * 1.001, "clipped, and not scaled"
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("precision", ["bf16-true", "16-true"])
def test_scores_are_not_rounded_to_half_precision(
    precision: Any, echo: Callable[..., SequenceClassifier], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=rf"^trainer\.precision={precision} would round the scores of task=stsb"):
        trainer(tmp_path, precision=precision).validate(echo("stsb"), datamodule=ListData(SCORES, TRUTH))


# --- checkpoints ---


def test_checkpoint_holds_only_primitives_and_tensors(make_task: Callable[[str], Any], tmp_path: Path) -> None:
    encoder = TinyEncoder(layers=1)
    origin = {"encoder": encoder.to_dict(), "seed": 3}
    task = make_task("stsb")
    classifier = SequenceClassifier(encoder.classifier(1), task, partial(torch.optim.AdamW, lr=1e-3), origin=origin)
    run = trainer(tmp_path, max_epochs=1, limit_val_batches=0)
    run.fit(classifier, datamodule=ListData(torch.randint(1000, 2000, (4, 6)), TRUTH))
    run.save_checkpoint(tmp_path / "it.ckpt")
    checkpoint = torch.load(tmp_path / "it.ckpt", weights_only=True)
    stored = checkpoint[CHECKPOINT_KEY]
    assert type(task)(**stored["task"]) == task
    assert stored["encoder"] == encoder.to_dict()
    assert stored["seed"] == 3
    assert stored["architecture"]["num_hidden_layers"] == 1
    assert _kinds(stored) <= {dict, list, str, int, float, bool, type(None)}


def _kinds(value: Any) -> set[type]:
    inside = [*value.keys(), *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return {type(value)}.union(*(_kinds(item) for item in inside))
