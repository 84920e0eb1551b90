"""Where models come from, and what is said when they do not come."""

import shutil
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch

from effective_attention.errors import UserError
from effective_attention.models.encoders import (
    PretrainedEncoder,
    RandomEncoder,
    TinyEncoder,
    encoder_from_dict,
)
from helpers.writers import build_writer


def one_line(error: pytest.ExceptionInfo[UserError]) -> bool:
    return "\n" not in str(error.value)


# --- embedded ---


def test_embedded_model_is_the_known_one() -> None:
    encoder = PretrainedEncoder("minilm")
    assert encoder.embedded
    model = encoder.classifier(3)
    config = model.config
    assert (config.num_hidden_layers, config.num_attention_heads, config.hidden_size, config.num_labels) == (
        6,
        12,
        384,
        3,
    )
    assert len(encoder.tokenizer()) == config.vocab_size


# --- the hub ---


def _fill_hub_cache(cache: Path, repository: str, folder: Path, commit: str = "a" * 40) -> None:
    """Fill a cache in huggingface_hub's layout."""
    place = cache / f"models--{repository.replace('/', '--')}"
    shutil.copytree(folder, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def test_hub_id_from_the_cache_without_a_network(hub_cache: Path, tiny_folder: Path) -> None:
    _fill_hub_cache(hub_cache, "somebody/some-bert", tiny_folder)
    encoder = PretrainedEncoder("somebody/some-bert")
    assert not encoder.embedded
    assert len(encoder.tokenizer()) == 30522
    model = encoder.classifier(2)
    original = PretrainedEncoder(str(tiny_folder)).classifier(2)
    assert torch.equal(model.bert.embeddings.word_embeddings.weight, original.bert.embeddings.word_embeddings.weight)


def test_hub_revision_is_respected(hub_cache: Path, tiny_folder: Path) -> None:
    _fill_hub_cache(hub_cache, "somebody/some-bert", tiny_folder)
    assert len(PretrainedEncoder("somebody/some-bert", revision="a" * 40).tokenizer()) == 30522
    with pytest.raises(UserError, match="some-bert"):
        PretrainedEncoder("somebody/some-bert", revision="b" * 40).tokenizer()


@pytest.mark.parametrize("part", ["tokenizer", "classifier"])
@pytest.mark.parametrize("name", ["somebody/some-bert", "no-such-bert", "two words", "/no/such/folder"])
def test_unknown_or_unreachable_model(name: str, part: str, hub_cache: Path) -> None:
    encoder = PretrainedEncoder(name)
    with pytest.raises(UserError, match=r"neither a folder nor available on the hub.*add model=minilm") as error:
        encoder.tokenizer() if part == "tokenizer" else encoder.classifier(2)
    assert one_line(error)
    assert name in str(error.value)


# --- a folder ---


def test_folder_by_name(tiny_folder: Path) -> None:
    encoder = PretrainedEncoder(str(tiny_folder))
    assert encoder.classifier(3).config.num_labels == 3
    assert encoder.tokenizer()("a cat")["input_ids"] == TinyEncoder().tokenizer()("a cat")["input_ids"]


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _without_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: [path.unlink() for path in folder.iterdir()],
        lambda folder: (folder / "config.json").unlink(),
        lambda folder: (folder / "config.json").write_text("{"),
        lambda folder: (folder / "model.safetensors").unlink(),
        lambda folder: _half(folder / "model.safetensors"),
        lambda folder: (folder / "model.safetensors").write_bytes(b"nonsense" * 20),
        lambda folder: _half(folder / "tokenizer.json"),
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        _without_tokenizer,
    ],
    ids=[
        "empty", "no config", "config no json", "no weights", "half the weights", "nonsense weights",
        "half a tokenizer", "empty tokenizer", "no tokenizer",
    ],
)  # fmt: skip
def test_damaged_folder(damage: Any, tiny_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    damage(folder)
    encoder = PretrainedEncoder(str(folder))
    with pytest.raises(UserError, match=r"model folder .* cannot be loaded .*it needs config\.json, weights") as error:
        encoder.classifier(2), encoder.tokenizer()
    assert one_line(error)


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_a_model_that_writes_is_refused_before_anything_is_read(family: str, tmp_path: Path) -> None:
    build_writer(family).config.save_pretrained(tmp_path)  # neither weights nor a vocabulary are needed to say so
    encoder = PretrainedEncoder(str(tmp_path))
    for load in (encoder.tokenizer, lambda: encoder.classifier(2), encoder.masked_lm):
        with pytest.raises(UserError, match=rf"\({family}\) reads one text and writes another, .*\.analyse") as error:
            load()
        assert one_line(error)


def test_weights_of_something_else_are_not_taken_in_silence(
    tiny_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(tiny_folder, tmp_path, dirs_exist_ok=True)
    weights = load_file(tiny_folder / "model.safetensors")
    save_file(
        {f"unknown.{name}": tensor for name, tensor in weights.items()},
        tmp_path / "model.safetensors",
        {"format": "pt"},
    )
    PretrainedEncoder(str(tmp_path)).classifier(2)
    assert f"lacks {len(weights)} of the encoder's weights" in caplog.text


def test_a_complete_model_gives_no_warning(tiny_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    PretrainedEncoder(str(tiny_folder)).classifier(2)
    assert [record.message for record in caplog.records if record.name.startswith("effective_attention")] == []


# --- tiny, and what a checkpoint keeps ---


def test_tiny_has_the_shape_it_was_given() -> None:
    config = TinyEncoder(layers=3, heads=2, width=8).classifier(2).config
    assert (config.num_hidden_layers, config.num_attention_heads, config.hidden_size) == (3, 2, 8)


def test_random_encoder_as_it_comes_is_tiny() -> None:
    assert TinyEncoder is RandomEncoder
    config = RandomEncoder().classifier(2).config
    assert (config.hidden_size, config.intermediate_size, config.hidden_dropout_prob) == (32, 64, 0.1)
    config = RandomEncoder(name="mine", width=16, widening=4, dropout=0.0).classifier(5).config
    assert (config.hidden_size, config.intermediate_size, config.num_labels) == (16, 64, 5)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, r"model\.layers must be a whole number, at least 1, got 0"),
        ({"width": 2.5}, r"model\.width must be a whole number, at least 1, got 2\.5"),
        ({"width": 10}, r"model\.width must be a multiple of model\.heads, got width 10 and 4 heads"),
        ({"dropout": 1.0}, r"model\.dropout must be from 0 to below 1, got 1\.0"),
    ],
)
def test_impossible_shapes_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        RandomEncoder(**options).classifier(2)
    assert one_line(error)


def test_checkpoints_from_before_still_name_their_encoder() -> None:
    old = {"name": "tiny", "layers": 3, "heads": 2, "width": 8}
    assert encoder_from_dict(old) == RandomEncoder(layers=3, heads=2, width=8)


@pytest.mark.parametrize(
    "encoder",
    [
        RandomEncoder(layers=3),
        RandomEncoder("abnar", layers=6, heads=8, width=128, widening=4, embedded=False),
        PretrainedEncoder("a/b", revision="c"),
        PretrainedEncoder("minilm"),
    ],
)
def test_round_trip_through_a_dict(encoder: Any) -> None:
    assert encoder_from_dict(encoder.to_dict()) == encoder
