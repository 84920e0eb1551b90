"""Tiny random models that read one text and write another, and one batch for them."""

from typing import Any

FAMILIES = ("t5", "bart", "marian", "pegasus", "bert2bert")
LAYERS = 2
HEADS = 2
READ = (13, 9)  # tokens of the texts that are read: more than a head is wide (4)
WRITTEN = (8, 11)  # and of those that are written


def build_writer(family: str, vocabulary: int = 60) -> Any:
    """Build a model with random weights, less uniform than by the usual initialisation."""
    import torch

    torch.manual_seed(0)
    model = _build(family, vocabulary).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(2 if family == "t5" else 8)
    return model


def _build(family: str, vocabulary: int) -> Any:
    import transformers as hf

    if family == "t5":
        sizes = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": LAYERS, "num_heads": HEADS}
        return hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=vocabulary, decoder_start_token_id=0, **sizes))
    if family == "bert2bert":
        shape = {"hidden_size": 8, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 12}
        halves = [hf.BertConfig(vocab_size=vocabulary, max_position_embeddings=64, **shape) for _ in range(2)]
        config = hf.EncoderDecoderConfig.from_encoder_decoder_configs(*halves, decoder_start_token_id=2, pad_token_id=0)
        return hf.EncoderDecoderModel(config=config)
    kinds: dict[str, Any] = {
        "bart": (hf.BartConfig, hf.BartForConditionalGeneration),
        "marian": (hf.MarianConfig, hf.MarianMTModel),
        "pegasus": (hf.PegasusConfig, hf.PegasusForConditionalGeneration),
    }
    parts = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": 12}
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in parts.items()}
    config, model = kinds[family]
    marks = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    return model(config(vocab_size=vocabulary, d_model=8, max_position_embeddings=64, **sizes, **marks))


def build_batch() -> dict[str, Any]:
    """Make two texts to read and two that were written, of different lengths."""
    read, written = _texts(READ, 1), _texts(WRITTEN, 2)
    return read | {f"decoder_{name}": value for name, value in written.items()}


def _texts(lengths: tuple[int, ...], seed: int) -> dict[str, Any]:
    import torch

    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, 60, mask.shape, generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids * mask, "attention_mask": mask}


def reading_tokenizer(tokenizer: Any) -> Any:
    """Return a copy of a tokenizer for a model that takes no segments."""
    import copy

    copied = copy.deepcopy(tokenizer)
    copied.model_input_names = ["input_ids", "attention_mask"]
    return copied
