"""What a reader of results is told: how to get the real thing, with the model that the user chose."""

from collections.abc import Callable
from typing import Any

import pytest

from effective_attention.models.encoders import Encoder, PretrainedEncoder, RandomEncoder
from effective_attention.program import as_typed
from effective_attention.run.origins import Head, Origin
from effective_attention.run.real_thing import note_on, real_command

TEXT = "task=text data=local data.file=<file>"
MRPC = "+experiment=paper task=mrpc"
HUB = "(needs the hub)"


@pytest.mark.parametrize(
    ("task", "encoder", "head", "checkpoint", "command"),
    [
        ("text", PretrainedEncoder("minilm"), "random", None, f"evaluate.py model=bert_base {TEXT} {HUB}"),
        ("text", RandomEncoder(), "random", None, f"evaluate.py model=bert_base {TEXT} {HUB}"),
        ("text", RandomEncoder("abnar"), "trained here", "runs/a", f"evaluate.py model=bert_base {TEXT} {HUB}"),
        ("text", PretrainedEncoder("smollm2"), "random", None, f"evaluate.py model=smollm2 {TEXT}"),
        ("text", PretrainedEncoder("smollm2"), "trained here", "runs/a", f"evaluate.py checkpoint=runs/a {TEXT}"),
        ("text", PretrainedEncoder("my/bert"), "random", None, f"evaluate.py model.name=my/bert {TEXT}"),
        ("mrpc", PretrainedEncoder("minilm"), "random", None, f"train.py {MRPC} {HUB}"),
        ("mrpc", PretrainedEncoder("mpnet_base"), "random", None, f"train.py model=mpnet_base {MRPC} {HUB}"),
        ("mrpc", PretrainedEncoder("a/b"), "finetuned", "a/b", f"evaluate.py checkpoint=a/b task=mrpc data=hub {HUB}"),
        ("mrpc", PretrainedEncoder("a/b"), "finetuned", None, f"evaluate.py checkpoint=a/b task=mrpc data=hub {HUB}"),
    ],
)
def test_the_real_thing_keeps_the_users_model(
    task: str, encoder: Encoder, head: Head, checkpoint: str | None, command: str, make_task: Callable[[str], Any]
) -> None:
    origin = Origin(encoder, "model", is_trained=False)
    assert real_command(make_task(task), origin, head, checkpoint) == command


def test_a_command_that_needs_the_hub_is_shown_unless_the_hub_is_switched_off(
    make_task: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = make_task("mrpc"), Origin(RandomEncoder(), "model", is_trained=False), "random", None
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    shown = note_on(*given, is_sample=True)
    assert shown is not None
    assert shown.endswith(f"; for the real thing: {as_typed(f'train.py {MRPC} {HUB}')}")
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "yes")
    assert note_on(*given, is_sample=True) == shown.partition("; for")[0]
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "0")
    assert note_on(*given, is_sample=True) == shown


def test_a_command_that_needs_no_hub_is_always_shown(
    make_task: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    origin = Origin(PretrainedEncoder("smollm2"), "model", is_trained=False)
    note = note_on(make_task("text"), origin, "random", None, is_sample=True)
    assert note is not None
    assert "evaluate.py model=smollm2" in note or "evaluate model=smollm2" in note


def test_the_users_model_wins_over_that_of_the_experiment(compose: Callable[..., Any]) -> None:
    assert compose("train", "model=mpnet_base", "+experiment=paper", "task=mrpc").model.name == "mpnet_base"
