"""A run's model from Python."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from effective_attention import analyse, load_run
from effective_attention.errors import UserError


def test_the_model_of_a_run_answers_as_the_run_did(trained: Any) -> None:
    model, tokenizer = load_run(trained.folder)
    assert not model.training
    assert model.config.id2label == {0: "not_equivalent", 1: "equivalent"}
    answers = pd.read_parquet(trained.folder / "tables" / "predictions.parquet").head(4)
    for row in answers.itertuples():
        with torch.no_grad():
            chances = model(**tokenizer(row.text, row.text_pair, return_tensors="pt")).logits.softmax(-1)[0]
        assert model.config.id2label[int(chances.argmax())] == row.predicted
        assert float(chances.max()) == pytest.approx(row.probability, abs=1e-5)
    assert len(analyse(model, tokenizer, ["A cat sat.", "It purred."], ["distance"], progress=False)["distance"]) > 0


def test_where_there_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^run={tmp_path}: the folder has no checkpoints/last.ckpt"):
        load_run(tmp_path)
