"""One model under several attentions: what must be equal is, what differs is measured and not guessed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from effective_attention import use_attention
from effective_attention.attention.record import AttentionSwap
from effective_attention.data.datamodule import TextDataModule
from effective_attention.data.sources import SampleSource
from effective_attention.finite import NotFiniteError
from effective_attention.models.classifier import SequenceClassifier
from effective_attention.models.encoders import TinyEncoder
from effective_attention.run import testing
from effective_attention.run.testing import (
    AttentionComparison,
    Outcome,
    _absolute,
    _from_all_processes,
    _relative,
    compare_attentions,
)

Setting = tuple[pl.Trainer, SequenceClassifier, TextDataModule]


@pytest.fixture
def setting(make_task: Callable[[str], Any], tokenizer: Any, tmp_path: Path) -> Callable[..., Setting]:
    def make(name: str = "mrpc", limit: int = 24) -> Setting:
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
            limit_eval=limit,
            token_cache=str(tmp_path),
        )
        trainer = pl.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False)
        return trainer, SequenceClassifier(model, task), data

    return make


def compare(parts: Setting, kinds: Sequence[Any] = ("standard", "effective"), **options: Any) -> dict[str, float]:
    return compare_attentions(*parts, kinds, **options).metrics


def test_effective_attention_predicts_what_standard_attention_does(setting: Callable[..., Setting]) -> None:
    trainer, classifier, data = setting()
    modes = set()
    classifier.model.register_forward_pre_hook(lambda module, _: modes.update(m.training for m in module.modules()))
    metrics = compare((trainer, classifier, data))
    assert modes == {False}, "without dropout"
    for score in ("accuracy", "f1"):
        assert metrics[f"test/effective/{score}"] == metrics[f"test/standard/{score}"]
    assert 0 < metrics["test/effective/max_logit_difference"] < 1e-5
    assert metrics["test/effective/changed_predictions"] == 0
    assert metrics["test/effective/null_space_share"] == 1.0, "8 dimensions a head, and every text is longer"
    both = ("accuracy", "f1", "timed_batches", "seconds", "examples_per_second")
    ratio = ("seconds_ratio", "seconds_ratio_low", "seconds_ratio_high")
    more = ("null_space_share", *ratio, "max_logit_difference", "changed_predictions")
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
            found[kind] = torch.cat([classifier(data.collate(split, [index])) for index in range(24)])
    expected = (found["padded"] - found["standard"]).abs().max().item()
    assert metrics["test/padded/max_logit_difference"] == pytest.approx(expected, rel=1e-3)
    changed = int((found["padded"].argmax(-1) != found["standard"].argmax(-1)).sum())
    assert metrics["test/padded/changed_predictions"] == changed


def test_padded_reading_pads_and_says_what_it_changed(setting: Callable[..., Setting], monkeypatch: Any) -> None:
    trainer, classifier, data = setting()
    widths: dict[str, set[int]] = {}
    run = AttentionComparison._run

    def note(comparison: Any, kind: str, batch: Any) -> Any:
        widths.setdefault(kind, set()).add(batch["input_ids"].shape[1])
        return run(comparison, kind, batch)

    monkeypatch.setattr(AttentionComparison, "_run", note)
    metrics = compare((trainer, classifier, data), ("standard", "effective", "padded", "standard"))
    assert widths["padded"] == {64}
    assert widths["effective"] == widths["standard"] != {64}
    assert metrics["test/padded/output_change"] > 0
    assert metrics["test/padded/max_output_change"] >= metrics["test/padded/output_change"]
    assert metrics["test/padded/max_logit_difference"] > 100 * metrics["test/effective/max_logit_difference"]
    assert "test/effective/output_change" not in metrics


def test_attention_is_restored_after_an_error(setting: Callable[..., Setting], monkeypatch: Any) -> None:
    trainer, classifier, data = setting()
    before = classifier.model.config._attn_implementation
    monkeypatch.setattr(classifier, "predictions", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        compare((trainer, classifier, data), ("padded",))
    assert classifier.model.config._attn_implementation == before


def test_attention_is_what_it_was_after_the_comparison(setting: Callable[..., Setting]) -> None:
    trainer, classifier, data = setting()
    before = classifier.model.config._attn_implementation
    compare((trainer, classifier, data), ("standard", "effective", "padded"))
    assert classifier.model.config._attn_implementation == before


def test_scores_are_those_of_the_logits_by_hand(setting: Callable[..., Setting]) -> None:
    trainer, classifier, data = setting()
    metrics = compare((trainer, classifier, data), ("standard",))
    split = data.split("validation")
    classifier.eval()
    with torch.no_grad():
        right = [
            int(classifier(batch).argmax(-1)) == int(batch["labels"])
            for batch in (data.collate(split, [index]) for index in range(24))
        ]
    assert 0 < sum(right) < 24
    assert metrics["test/standard/accuracy"] == pytest.approx(sum(right) / 24)
    assert scores_of(compare((trainer, classifier, data), ("standard",))) == scores_of(metrics), "starts from nothing"


def scores_of(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if "second" not in name}


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


# --- time ---


class Clock:
    """A clock that only moves while a model runs: by what its attention takes, times the machine's slowness."""

    def __init__(self, takes: dict[str, float], slowness: Callable[[int], float] = lambda _run: 1.0) -> None:
        self.takes = takes
        self.slowness = slowness
        self.now = 0.0
        self.ran: list[str] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        used = testing.use_attention

        @contextmanager
        def use(model: Any, kind: str) -> Iterator[Any]:
            with used(model, kind) as record:
                yield record
            self.now += 0  # what swapping costs is not the attention's
            self.ran.append(kind)

        def forward(classifier: Any, batch: Any) -> Any:
            kind = classifier.model.config._attn_implementation  # the hook: any attention
            assert kind == "hooked_attention"
            self.now += self.takes[self.kind] * self.slowness(len(self.ran))
            return original(classifier, batch)

        original = SequenceClassifier.forward
        run = AttentionComparison._run

        def named(comparison: Any, kind: str, batch: Any) -> Any:
            self.kind = kind
            return run(comparison, kind, batch)

        monkeypatch.setattr(testing, "use_attention", use)
        monkeypatch.setattr(SequenceClassifier, "forward", forward)
        monkeypatch.setattr(AttentionComparison, "_run", named)
        monkeypatch.setattr(AttentionComparison, "_clock", lambda _: self.now)


def test_attentions_take_turns_batch_by_batch(setting: Callable[..., Setting], monkeypatch: Any) -> None:
    clock = Clock({"standard": 1.0, "effective": 2.0})
    clock.install(monkeypatch)
    compare(setting(), repeats=2)
    warm_up = ["standard", "effective"]
    even = ["standard", "effective", "effective", "standard"]
    odd = ["effective", "standard", "standard", "effective"]
    assert clock.ran == [*warm_up, *even, *odd, *even, *odd, *even, *odd]


def test_a_slow_attention_shows(setting: Callable[..., Setting], monkeypatch: Any) -> None:
    Clock({"standard": 0.25, "effective": 0.75, "padded": 2.0}).install(monkeypatch)
    metrics = compare(setting(), ("standard", "effective", "padded"))
    assert metrics["test/standard/timed_batches"] == 6
    assert metrics["test/standard/seconds"] == 6 * 0.25
    assert metrics["test/effective/seconds"] == 6 * 0.75
    assert metrics["test/effective/examples_per_second"] == 24 / (6 * 0.75)
    assert [metrics[f"test/effective/seconds_ratio{end}"] for end in ("_low", "", "_high")] == [3.0, 3.0, 3.0]
    assert metrics["test/padded/seconds_ratio"] == 8.0


@pytest.mark.parametrize("at", [5, 8, 9])
def test_a_machine_that_slows_down_halfway_does_not_shift_the_ratio(
    at: int, setting: Callable[..., Setting], monkeypatch: Any
) -> None:
    """Check 14 runs, of which those from the ``at``-th on take ten times as long; before, the ratio was 15."""
    Clock({"standard": 1.0, "effective": 1.5}, lambda run: 10.0 if run >= at else 1.0).install(monkeypatch)
    metrics = compare(setting())
    assert metrics["test/effective/seconds_ratio"] == 1.5
    assert metrics["test/effective/seconds_ratio_low"] == 1.5
    assert metrics["test/effective/seconds_ratio_high"] == 1.5


def test_of_repeats_the_median_counts(setting: Callable[..., Setting], monkeypatch: Any) -> None:
    """Check that one disturbed run of three changes nothing: every third run takes a hundred times as long."""
    Clock({"standard": 1.0, "effective": 2.0}, lambda run: 100.0 if run % 6 == 0 else 1.0).install(monkeypatch)
    metrics = compare(setting(), repeats=3)
    assert metrics["test/standard/seconds"] == 6.0
    assert metrics["test/effective/seconds_ratio_high"] == 2.0


def test_few_batches_tell_no_time(setting: Callable[..., Setting], caplog: Any) -> None:
    metrics = compare(setting(limit=16))
    assert metrics["test/effective/timed_batches"] == 4
    assert not any("second" in name for name in metrics)
    assert {"test/effective/accuracy", "test/effective/max_logit_difference"} <= set(metrics)
    assert "4 batches are too few to tell times: none is given below 5" in caplog.text


def test_several_processes_work_side_by_side(monkeypatch: Any) -> None:
    """Check that their batches are put together, and that the time is that of the slowest."""
    parts = [
        Outcome(AttentionSwap("effective", heads=2, nontrivial=1), {0: torch.zeros(1)}, [1.0, 2.0]),
        Outcome(AttentionSwap("effective", heads=2, nontrivial=2), {1: torch.ones(1)}, [5.0]),
    ]
    monkeypatch.setattr(testing, "gather", lambda _own: parts)
    joined = _from_all_processes(parts[0])
    assert (joined.seconds, joined.total, joined.record.null_space_share) == ([1.0, 2.0, 5.0], 5.0, 0.75)
    assert sorted(joined.logits) == [0, 1]


# --- by hand ---


def _tested(
    logits: list[list[float]], seconds: Sequence[float] = (1.0,) * 5, order: Sequence[int] | None = None
) -> Outcome:
    order = order if order is not None else range(len(logits))
    rows = {index: torch.tensor(logits[index]) for index in order}
    return Outcome(AttentionSwap("effective"), rows, list(seconds), total=sum(seconds))


def test_relative_by_hand_whatever_the_order_of_the_examples() -> None:
    standard = _tested([[1.0, 0.0], [0.0, 1.0], [2.0, 2.5]])
    other = _tested([[1.0, 0.5], [0.5, 0.25], [2.0, 2.5]], seconds=[3.0, 90.0, 2.0, 1.0, 4.0], order=[2, 0, 1])
    assert _relative("effective", other, standard, has_classes=True) == {
        "test/effective/seconds_ratio_low": 2.0,
        "test/effective/seconds_ratio": 3.0,
        "test/effective/seconds_ratio_high": 4.0,
        "test/effective/max_logit_difference": 0.75,
        "test/effective/changed_predictions": 1,
    }


def test_absolute_by_hand() -> None:
    assert _absolute("standard", _tested([[0.0], [1.0]], seconds=[4.0, 1.0, 1.0, 1.0, 1.0])) == {
        "test/standard/timed_batches": 5,
        "test/standard/seconds": 8.0,
        "test/standard/examples_per_second": 0.25,
    }


# --- numbers that are not finite ---


@pytest.mark.parametrize("kind", ["standard", "effective", "padded"])
def test_logits_that_are_not_finite_name_attention_and_layer(kind: str, setting: Callable[..., Setting]) -> None:
    trainer, classifier, data = setting()
    with torch.no_grad():
        classifier.model.bert.encoder.layer[1].output.dense.bias[0] = torch.inf
    match = rf"^attention {kind}: .*logits are NaN or infinite .*first in layer bert\.encoder\.layer\.1\.output\.dense"
    with pytest.raises(NotFiniteError, match=match):
        compare((trainer, classifier, data), (kind,))


def test_mixed_precision_tests_in_it(setting: Callable[..., Setting], tmp_path: Path) -> None:
    _, classifier, data = setting()
    options = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    trainer = pl.Trainer(precision="bf16-mixed", **options)  # type: ignore[arg-type]
    types = set()
    classifier.model.classifier.register_forward_hook(lambda _module, _inputs, output: types.add(output.dtype))
    metrics = compare((trainer, classifier, data), ("standard", "effective", "padded"))
    assert types == {torch.bfloat16}
    assert metrics["test/effective/max_logit_difference"] < 0.1
    assert metrics["test/effective/null_space_share"] == 1.0
