"""XLNet, the family that differs most: [CLS] and the batch come second, and padding would change its answer."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from effective_attention import analyse, explore
from effective_attention.analyses.faithfulness import Faithfulness
from effective_attention.analyses.token_mixing.first_layer import from_first_layer
from effective_attention.attention.trace import one_text, trace
from effective_attention.errors import UserError
from effective_attention.explorer.sides import side_of
from effective_attention.models.encoders import PretrainedEncoder
from helpers.zoo import write_model

TEXTS = ["A cat sat on the mat.", "It purred.", "Then the dog came in."]
QUICK = {"steps": 2, "shares": [0.5]}


@pytest.fixture(scope="module")
def xlnet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    encoder = PretrainedEncoder(str(write_model(tmp_path_factory.mktemp("xlnet"), "xlnet")))
    torch.manual_seed(0)
    return encoder.classifier(2).eval(), encoder.tokenizer()


def test_texts_run_in_batches_of_one_length(xlnet: Any) -> None:
    shapes: list[Any] = []
    hook = xlnet[0].register_forward_pre_hook(
        lambda _module, _args, given: shapes.append(given["attention_mask"]), with_kwargs=True
    )
    try:
        batches = analyse(*xlnet, [*TEXTS, TEXTS[1]], ["entropy", "token_types"], progress=False)
    finally:
        hook.remove()
    assert max(len(mask) for mask in shapes) == 2  # the two texts that are the same
    assert sum(not bool(mask.all()) for mask in shapes) == 1  # the try that finds out
    singles = analyse(*xlnet, [*TEXTS, TEXTS[1]], ["entropy", "token_types"], batch_size=1, progress=False)
    for name, table in batches.items():
        pd.testing.assert_frame_equal(table, singles[name], atol=1e-6, rtol=1e-5)
    with pytest.raises(ValueError, match="reading must be exact for XLNetForSequenceClassification, whose answer"):
        analyse(*xlnet, TEXTS, ["entropy"], reading="padded", progress=False)


def test_methods_that_it_has_not_got_what_they_read_for(xlnet: Any, caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {"labels": [0, 1, 0], "progress": False}
    with caplog.at_level(logging.WARNING, logger="effective_attention"):
        table = analyse(*xlnet, TEXTS, [Faithfulness(**QUICK)], **options)["faithfulness"]
    lines = [record.message for record in caplog.records if "leaves out" in record.message]
    assert len(lines) == 2
    assert re.match("faithfulness leaves out norm, norm_rollout, .*: XLNetFor.* to no linear map", lines[0])
    assert re.match("faithfulness leaves out value_zeroing, .*: XLNetFor.* no module that is one layer", lines[1])
    assert {"raw", "rollout", "input_gradient", "integrated_gradients"} <= set(table["method"])
    assert not {"norm", "norm_rollout", "alti", "decompx", "value_zeroing"} & set(table["method"])
    with pytest.raises(UserError, match=r"analysis.faithfulness.methods: norm cannot explain this model: XLNetFor"):
        analyse(*xlnet, TEXTS, [Faithfulness(methods=["raw", "norm"], **QUICK)], **options)


def test_its_first_layer_is_found(xlnet: Any) -> None:
    model, tokenizer = xlnet
    seen = trace(model, tokenizer(TEXTS[0], return_tensors="pt"))
    with torch.no_grad(), from_first_layer(model, one_text(seen, 0)) as (run, x):
        torch.testing.assert_close(x, seen.hidden[0])
        for got, expected in zip(run(x), seen.hidden[1:], strict=True):
            torch.testing.assert_close(got, expected)
        assert (run(x.flip(-1))[-1] - run(x)[-1]).abs().max() > 1e-3


@pytest.mark.parametrize(("texts", "segments"), [(TEXTS[:1], [0]), (TEXTS[:2], [0, 1])])
def test_the_last_token_belongs_to_the_last_text(xlnet: Any, texts: list[str], segments: list[int]) -> None:
    """Its tokenizer gives [CLS] a segment of its own, the third."""
    model, tokenizer = xlnet
    inputs = tokenizer(*texts, return_tensors="pt")
    assert int(inputs["token_type_ids"][0, -1]) == 2
    side = side_of(trace(model, inputs), tokenizer, texts)
    assert sorted(set(side.segments)) == segments
    assert side.segments[-1] == segments[-1]


def test_its_page(xlnet: Any, tmp_path: Path) -> None:
    page = explore(*xlnet, TEXTS[0]).save(tmp_path / "page.html").read_text(encoding="utf-8")
    assert json.dumps("[CLS]") in page
