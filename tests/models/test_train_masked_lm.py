"""The script that trains a masked-language-model head for the embedded model."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from effective_attention.models.embedded import embedded_folder
from effective_attention.models.encoders import PretrainedEncoder
from helpers.paths import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_masked_lm", ROOT / "scripts" / "train_masked_lm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_articles_are_read_without_headings(script: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "wiki.txt"
    file.write_text(" \n = One = \n \n A @-@ b , 1 @,@ 000 . \n \n = = Part = = \n \n C . \n = Two = \n \n D . \n")
    assert script.articles(file) == ["A-b , 1,000 .\nC .", "D ."]


def test_masking_is_berts(script: ModuleType) -> None:
    tokenizer = PretrainedEncoder("minilm").tokenizer()
    ids = torch.full((200, 128), tokenizer.convert_tokens_to_ids("house"))
    ids[:, 0], ids[:, -1] = tokenizer.cls_token_id, tokenizer.sep_token_id
    given, wanted = script.Masking(tokenizer, seed=0)(ids)
    chosen = wanted != script.NOTHING
    assert not chosen[:, [0, -1]].any()
    assert chosen.float().mean().item() == pytest.approx(0.15, abs=0.01)
    assert torch.equal(wanted[chosen], ids[chosen])
    assert torch.equal(given[~chosen], ids[~chosen])
    hidden = (given[chosen] == tokenizer.mask_token_id).float().mean().item()
    assert hidden == pytest.approx(0.8, abs=0.02)
    assert (given[chosen] == ids[chosen]).float().mean().item() == pytest.approx(0.1, abs=0.02)
    given, wanted = script.Masking(tokenizer, seed=0)(ids, hide_all=True)
    assert (given[wanted != script.NOTHING] == tokenizer.mask_token_id).all()


def test_only_head_and_top_layers_learn_and_are_kept(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = " ".join(f"the house number {place} was built in the year and sold again ." for place in range(80))
    file = tmp_path / "wiki.txt"
    file.write_text("".join(f" = Title {place} = \n {words} \n" for place in range(3)))
    output = tmp_path / "made"
    options = ["--layers", "1", "--epochs", "1", "--batch-size", "4"]
    monkeypatch.setattr("sys.argv", ["train_masked_lm.py", "--texts", str(file), "--output", str(output), *options])
    script.main()
    kept = load_file(output / "masked_lm.safetensors")
    assert {name.split(".layer.")[-1][0] for name in kept if ".layer." in name} == {"5"}
    assert all(name.startswith(("cls.predictions.", "bert.encoder.layer.5.")) for name in kept)
    before = load_file(embedded_folder() / "model.safetensors")
    name = "bert.encoder.layer.5.attention.self.query.weight"
    assert not torch.equal(kept[name].float(), before[name.removeprefix("bert.")].half().float())
    about = json.loads((output / "masked_lm.json").read_text())
    assert about["articles"] == 3
    assert about["held_out"]["masked"] > 0
    assert 0 <= about["held_out"]["accuracy"] <= 1
    assert about["held_out"]["perplexity"] > 1


@pytest.mark.parametrize("text", [None, "too short .\n"])
def test_bad_texts_are_one_line(
    script: ModuleType, text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = tmp_path / "wiki.txt"
    if text is not None:
        file.write_text(text)
    output = tmp_path / "made"
    monkeypatch.setattr("sys.argv", ["train_masked_lm.py", "--texts", str(file), "--output", str(output)])
    with pytest.raises(SystemExit):
        script.main()
    assert "error: --texts: " in capsys.readouterr().err.splitlines()[-1]
    assert not output.exists()
