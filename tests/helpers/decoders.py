"""Folders with tiny random decoders and a tokenizer without a padding token, as GPT-2's on the hub are."""

from pathlib import Path
from typing import Any

FAMILIES = ("gpt2", "llama", "qwen3", "gemma2", "gpt_neox", "opt")
STARTS = {"llama": "<s>", "gemma2": "<s>", "opt": "<s>"}
"""What the family's tokenizer sets in front of a text; the others set nothing."""
LINES = (
    "The old cat sat on the mat, and the dogs ran.",
    "A car that the men drove was red; it stopped at the house.",
    "Profits fell in the last year, the company said on Friday.",
    "Why did they not say so before?",
)


VERBS = ("is are was were has have sits sit stands stand " * 9,)
"""What a tokenizer learns too that is to know verbs as tokens of their own."""


def build_tokenizer(family: str, lines: tuple[str, ...] = LINES, vocabulary: int = 320) -> Any:
    """Train a byte-level tokenizer on a few lines; it has no padding token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    start = STARTS.get(family)
    end = "<|endoftext|>"
    tokens = Tokenizer(models.BPE())
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    special = [end] if start is None else [start, end]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokens.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet)
    )
    tokens.post_processor = processors.ByteLevel(trim_offsets=True)
    if start is not None:
        tokens.post_processor = processors.TemplateProcessing(
            single=f"{start} $A", pair=f"{start} $A {start}:1 $B:1", special_tokens=[(start, tokens.token_to_id(start))]
        )
    side = "left" if family == "gemma2" else "right"
    return PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        eos_token=end,
        bos_token=start or end,
        padding_side=side,
        model_input_names=["input_ids", "attention_mask"],
    )


def build_config(family: str, vocabulary: int, **options: Any) -> Any:
    """Describe a decoder of two layers and width 32; the last layer of Gemma 2 sees a window of 8 tokens."""
    import transformers as hf

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    sizes |= {"max_position_embeddings": 128, "vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 0, **options}
    grouped = {"num_key_value_heads": 2, "head_dim": 8}
    if family == "gpt2":
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
            sizes.pop(name)
        del sizes["max_position_embeddings"]
        return hf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=128, **sizes)
    if family == "opt":
        del sizes["intermediate_size"]
        return hf.OPTConfig(ffn_dim=32, word_embed_proj_dim=32, pad_token_id=None, **sizes)
    if family == "gpt_neox":
        return hf.GPTNeoXConfig(**sizes)
    windows = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 8}
    made = {"llama": hf.LlamaConfig, "qwen3": hf.Qwen3Config, "gemma2": hf.Gemma2Config}[family]
    return made(**sizes, **grouped, **({"pad_token_id": None, **windows} if family == "gemma2" else {}))


def write_decoder(folder: Path, family: str, *, with_head: bool = False) -> Path:
    """Write a tiny random decoder and its tokenizer as ``save_pretrained`` does.

    ``with_head`` it predicts the next word, and the tokenizer knows ``VERBS``.
    """
    import torch
    from transformers import AutoModel, AutoModelForCausalLM

    tokenizer = build_tokenizer(family, (*LINES, *VERBS), 360) if with_head else build_tokenizer(family)
    torch.manual_seed(0)
    kind = AutoModelForCausalLM if with_head else AutoModel
    model = kind.from_config(build_config(family, len(tokenizer)))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and "embed" not in name and "wte" not in name:
                weight.mul_(4)
    place = folder / family
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place
