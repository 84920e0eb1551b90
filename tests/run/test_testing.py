"""One model under several attentions: what must be equal is, what differs is measured and not guessed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from effective_attention import use_attention
from effective_attention.attention.record import AttentionSwap
from effective_attention.data.datamodule import TextDataModule
from effective_attention.data.sources import SampleSource
from effective_attention.models.classifier import SequenceClassifier
from effective_attention.models.encoders import TinyEncoder
from effective_attention.run.testing import _absolute, _relative, _Tested, compare_attentions

Setting = tuple[pl.Trainer, SequenceClassifier, TextDataModule]


@pytest.fixture
def setting(make_task: Callable[[str], Any], tokenizer: Any, tmp_path: Path) -> Callable[..., Setting]:
    def make(name: str = "mrpc") -> Setting:
        torch.manual_seed(0)
        task = make_task(name)
        model = TinyEncoder().classifier(task.num_outputs)
        with torch.no_grad():  # a random head says the same of everything; make its answers differ
            model.classifier.weight.mul_(50)
        data = TextDataModule(
            task,
            SampleSource(),
            tokenizer,
            batch_size=4,
            max_length=64,
            padding="longest",
            limit_eval=12,
            token_cache=str(tmp_path),
        )
        trainer = pl.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False)
        return trainer, SequenceClassifier(model, task), data

    return make


def compare(parts: Setting, kinds: Sequence[Any] = ("standard", "effective"), **options: Any) -> dict[str, float]:
    return compare_attentions(*parts, kinds, **options)


def test_effective_attention_predicts_what_standard_attention_does(setting: Callable[..., Setting]) -> None:
    metrics = compare(setting())
    for score in ("accuracy", "f1"):
        assert metrics[f"test/effective/{score}"] == metrics[f"test/standard/{score}"]
    assert 0 < metrics["test/effective/max_logit_difference"] < 1e-5
    assert metrics["test/effective/changed_predictions"] == 0
    assert metrics["test/effective/null_space_share"] == 1.0, "8 dimensions a head, and every text is longer"
    both = ("accuracy", "f1", "seconds", "examples_per_second")
    more = ("null_space_share", "seconds_ratio", "max_logit_difference", "changed_predictions")
    assert set(metrics) == {f"test/standard/{name}" for name in both} | {
        f"test/effective/{name}" for name in (*both, *more)
    }


def test_difference_is_that_of_the_logits(setting: Callable[..., Setting]) -> None:
    """Compare with logits computed here, one example at a time and unpadded where that is allowed."""
    trainer, classifier, data = setting()
    metrics = compare((trainer, classifier, data), ("standard", "padded"))
    classifier.eval()
    split = data.split("validation")
    found = {}
    for kind in ("standard", "padded"):
        data.padding = "max_length"
        with torch.no_grad(), use_attention(classifier.model, kind):
            found[kind] = torch.cat([classifier(data.collate(split, [index])) for index in range(12)])
    expected = (found["padded"] - found["standard"]).abs().max().item()
    assert metrics["test/padded/max_logit_difference"] == pytest.approx(expected, rel=1e-3)
    changed = int((found["padded"].argmax(-1) != found["standard"].argmax(-1)).sum())
    assert metrics["test/padded/changed_predictions"] == changed


def test_padded_reading_pads_and_says_what_it_changed(setting: Callable[..., Setting]) -> None:
    trainer, classifier, data = setting()
    widths: dict[str, set[int]] = {}
    classifier.model.register_forward_pre_hook(
        lambda _module, _args, inputs: widths.setdefault(classifier.attention_name, set()).add(
            inputs["input_ids"].shape[1]
        ),
        with_kwargs=True,
    )
    metrics = compare((trainer, classifier, data), ("standard", "effective", "padded", "standard"))
    assert widths["padded"] == {64}
    assert widths["effective"] == widths["standard"] != {64}
    assert data.padding == "longest", "restored"
    assert metrics["test/padded/output_change"] > 0
    assert metrics["test/padded/max_output_change"] >= metrics["test/padded/output_change"]
    assert metrics["test/padded/max_logit_difference"] > 100 * metrics["test/effective/max_logit_difference"]
    assert "test/effective/output_change" not in metrics


def test_padding_and_attention_are_restored_after_an_error(setting: Callable[..., Setting], monkeypatch: Any) -> None:
    trainer, classifier, data = setting()
    before = classifier.model.config._attn_implementation
    monkeypatch.setattr(classifier, "test_step", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        compare((trainer, classifier, data), ("padded",))
    assert data.padding == "longest"
    assert classifier.model.config._attn_implementation == before


def test_attention_is_what_it_was_after_the_comparison(setting: Callable[..., Setting]) -> None:
    trainer, classifier, data = setting()
    before = classifier.model.config._attn_implementation
    compare((trainer, classifier, data), ("standard", "effective", "padded"))
    assert classifier.model.config._attn_implementation == before


def test_regression(setting: Callable[..., Setting]) -> None:
    metrics = compare(setting("stsb"))
    assert metrics["test/effective/pearson"] == pytest.approx(metrics["test/standard/pearson"], abs=1e-3)
    assert metrics["test/effective/spearman"] == pytest.approx(metrics["test/standard/spearman"], abs=1e-5)
    assert metrics["test/effective/max_logit_difference"] < 1e-5
    assert "test/effective/changed_predictions" not in metrics, "a score has no class"


def test_without_standard_there_is_nothing_to_compare_with(setting: Callable[..., Setting]) -> None:
    metrics = compare(setting(), ("effective",))
    assert "test/effective/accuracy" in metrics
    assert not any("difference" in name or "ratio" in name or "changed" in name for name in metrics)


def test_repeats_are_interleaved_and_medians_reported(setting: Callable[..., Setting], monkeypatch: Any) -> None:
    trainer, classifier, data = setting()
    seconds = {"standard": iter([1.0, 2.0, 30.0]), "effective": iter([10.0, 4.0, 33.0])}
    order: list[str] = []

    def clock() -> float:
        """Read 0 at a start, and at an end the seconds that this attention takes this time."""
        ends = clock.calls % 2 == 1  # type: ignore[attr-defined]
        clock.calls += 1  # type: ignore[attr-defined]
        if ends:
            order.append(classifier.attention_name)
        return next(seconds[classifier.attention_name]) if ends else 0.0

    clock.calls = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(classifier, "_clock", clock)
    metrics = compare((trainer, classifier, data), repeats=3)
    assert order == ["standard", "effective"] * 3
    assert metrics["test/standard/seconds"] == 2.0
    assert metrics["test/effective/seconds"] == 10.0
    assert metrics["test/standard/examples_per_second"] == 12 / 2.0
    assert metrics["test/effective/seconds_ratio"] == 2.0, "the median of 10, 2 and 1.1, not the ratio of the medians"


def _tested(
    logits: list[list[float]], seconds: Sequence[float] = (1.0,), order: Sequence[int] | None = None
) -> _Tested:
    order = order if order is not None else range(len(logits))
    rows = {index: torch.tensor(logits[index]) for index in order}
    return _Tested(record=AttentionSwap("effective"), scores={}, logits=rows, seconds=list(seconds))


def test_relative_by_hand_whatever_the_order_of_the_examples() -> None:
    standard = _tested([[1.0, 0.0], [0.0, 1.0], [2.0, 2.5]])
    other = _tested([[1.0, 0.5], [0.5, 0.25], [2.0, 2.5]], seconds=[3.0], order=[2, 0, 1])
    assert _relative("effective", other, standard, has_classes=True) == {
        "test/effective/seconds_ratio": 3.0,
        "test/effective/max_logit_difference": 0.75,
        "test/effective/changed_predictions": 1,
    }


def test_absolute_by_hand() -> None:
    assert _absolute("standard", _tested([[0.0], [1.0]], seconds=[4.0])) == {
        "test/standard/seconds": 4.0,
        "test/standard/examples_per_second": 0.5,
    }
