"""What a reader of results is told: how to get the real thing, with the model that the user chose."""

from collections.abc import Callable
from typing import Any

import pytest

from effective_attention.models.encoders import Encoder, PretrainedEncoder, RandomEncoder
from effective_attention.run.origins import Head, Origin
from effective_attention.run.real_thing import real_command

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


def test_the_users_model_wins_over_that_of_the_experiment(compose: Callable[..., Any]) -> None:
    assert compose("train", "model=mpnet_base", "+experiment=paper", "task=mrpc").model.name == "mpnet_base"
