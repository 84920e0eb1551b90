"""What a reader of results is told: how to get the real thing, with the model that the user chose."""

from collections.abc import Callable
from typing import Any

import pytest

from effective_attention.models.encoders import Encoder, PretrainedEncoder, RandomEncoder
from effective_attention.run.setup import _real_command

TEXT = "task=text data=local data.file=<file>"
MRPC = "+experiment=paper task=mrpc"


@pytest.mark.parametrize(
    ("task", "encoder", "checkpoint", "command"),
    [
        ("text", PretrainedEncoder("minilm"), None, f"evaluate.py model=bert_base {TEXT}"),
        ("text", RandomEncoder(), None, f"evaluate.py model=bert_base {TEXT}"),
        ("text", RandomEncoder("abnar", embedded=False), "runs/a", f"evaluate.py model=bert_base {TEXT}"),
        ("text", PretrainedEncoder("smollm2"), None, f"evaluate.py model=smollm2 {TEXT}"),
        ("text", PretrainedEncoder("smollm2"), "runs/a", f"evaluate.py checkpoint=runs/a {TEXT}"),
        ("text", PretrainedEncoder("my/bert"), None, f"evaluate.py model.name=my/bert {TEXT}"),
        ("mrpc", PretrainedEncoder("minilm"), None, f"train.py {MRPC}"),
        ("mrpc", PretrainedEncoder("mpnet_base"), None, f"train.py model=mpnet_base {MRPC}"),
    ],
)
def test_the_real_thing_keeps_the_users_model(
    task: str, encoder: Encoder, checkpoint: str | None, command: str, make_task: Callable[[str], Any]
) -> None:
    assert _real_command(make_task(task), encoder, checkpoint) == command


def test_the_users_model_wins_over_that_of_the_experiment(compose: Callable[..., Any]) -> None:
    assert compose("train", "model=mpnet_base", "+experiment=paper", "task=mrpc").model.name == "mpnet_base"
