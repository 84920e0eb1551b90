"""Decoders through the commands: trained, restored from the checkpoint, and looked at; nobody edits a config.json."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from effective_attention.reports.runs import PREDICTIONS
from effective_attention.run.experiment import evaluate, train
from effective_attention.run.setup import prepare
from helpers.decoders import FAMILIES, write_decoder
from helpers.small_analyses import SMALL as QUICK

SMALL = ("data.limit_train=8", "data.limit_eval=4", "data.max_length=24", "task=sst2")
CHOSEN = {
    "gpt2": ["token_types", "delimiters", "faithfulness", "token_mixing"],
    "llama": ["token_types", "delimiters", "entropy", "explorer"],
}
"""By family: what reads a position, or delimiters. All analyses of structure, without figures: models/test_decoders."""


@pytest.mark.parametrize("family", FAMILIES)
def test_there_and_back(family: str, composer: Callable[..., Any], tmp_path: Path) -> None:
    """What the checkpoint gives back answers as the trained model did, in batches and alone."""
    place = write_decoder(tmp_path, family)
    cfg = composer("train", tmp_path / "train", "model=bert_base", f"model.name={place}", *SMALL)
    trained = train(cfg)
    again = composer("evaluate", tmp_path / "evaluate", f"checkpoint={cfg.run_dir}", "data.batch_size=2", *SMALL)
    assert evaluate(again)["test/standard/accuracy"] == trained["test/standard/accuracy"]
    run = prepare(again, cfg.run_dir)
    data = run.datamodule
    assert data.tokenizer.pad_token_id is None
    assert run.classifier.model.config.pad_token_id == data.pad_id == data.tokenizer.eos_token_id
    assert run.pretrained_start().config.pad_token_id == data.pad_id
    split = data.split(data.eval_split)
    run.classifier.eval()
    with torch.no_grad():
        together = run.classifier(data.collate(split, range(4), padding="max_length"))
        alone = torch.cat([run.classifier(data.collate(split, [index])) for index in range(4)])
    assert torch.allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("family", CHOSEN)
def test_from_the_folder_to_the_report(
    family: str, composer: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = write_decoder(tmp_path, family)
    cfg = composer("train", tmp_path / "train", "model=bert_base", f"model.name={place}", *SMALL)
    with caplog.at_level(logging.INFO, logger="effective_attention"):
        train(cfg)
    assert "has no padding token: texts are filled up with '<|endoftext|>'" in caplog.text
    chosen = CHOSEN[family]
    more = [f"analysis=[{','.join(chosen)}]", *(option for name in chosen for option in QUICK.get(name, []))]
    cfg = composer("evaluate", tmp_path / "evaluate", f"checkpoint={cfg.run_dir}", *SMALL, *more)
    evaluate(cfg)
    (line,) = [record.message for record in caplog.records if "left out" in record.message]
    assert line == "left out, because the model's tokenizer sets no [CLS] and [SEP]: delimiters"
    tables = {path.stem: pd.read_parquet(path) for path in (Path(cfg.run_dir) / "tables").glob("*.parquet")}
    assert tables.keys() - {PREDICTIONS} == {*chosen} - {"delimiters"}
    special = {"special"} if family == "llama" else set()
    assert set(tables["token_types"]["token_type"]) == {"noun", "pronoun", "verb", "punctuation", *special}
    for name, column, value in (("entropy", "first_token", False), ("faithfulness", "receptive_field", True)):
        assert name not in tables or set(tables[name][column]) == {value}
    if "token_mixing" in tables:
        to_last = tables["token_mixing"].query("quantity == 'cls'")
        assert set(to_last["centre"]) == {"cls"}
        assert to_last["offset"].max() == 0  # nothing comes after the last token
    assert (Path(cfg.run_dir) / "report.html").is_file()


def test_a_gap_needs_a_masked_language_model(composer: Callable[..., Any], tmp_path: Path) -> None:
    from effective_attention.errors import UserError

    place = write_decoder(tmp_path, "gpt2")
    words = ["analysis=pronouns", "candidates=[his,her]", "referents=[author]", 'text="The author lost [MASK] book."']
    cfg = composer("evaluate", tmp_path / "run", "model=bert_base", f"model.name={place}", *SMALL, *words)
    with pytest.raises(UserError, match="pronouns needs a fast tokenizer with a mask token; add model=bert_base"):
        evaluate(cfg)
