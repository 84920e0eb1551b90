"""Folders with tiny random models of many families, each with a tokenizer that sets what the family's own sets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.decoders import FAMILIES as DECODERS
from helpers.decoders import write_decoder

TITLES = {
    "bert": "BERT", "roberta": "RoBERTa", "distilbert": "DistilBERT", "electra": "ELECTRA", "albert": "ALBERT",
    "mobilebert": "MobileBERT", "xlm_roberta": "XLM-RoBERTa", "modernbert": "ModernBERT", "ernie": "ERNIE",
    "mpnet": "MPNet", "deberta": "DeBERTa", "deberta_v2": "DeBERTa v2, v3", "roformer": "RoFormer", "xlnet": "XLNet",
    "gpt2": "GPT-2", "llama": "Llama", "qwen3": "Qwen 3", "gemma2": "Gemma 2", "gpt_neox": "GPT-NeoX", "opt": "OPT",
}  # fmt: skip
"""What docs/models.md calls them."""
INTERFACE = ("bert", "roberta", "distilbert", "electra", "albert", "mobilebert", "xlm_roberta", "modernbert", "ernie")
WATCHED = ("mpnet", "deberta", "deberta_v2", "roformer", "xlnet")
ENCODERS = (*INTERFACE, *WATCHED)
FAMILIES = (*ENCODERS, *DECODERS)
REFUSED = ("t5", "bart", "nystromformer", "longformer")
"""Families that the commands turn away in one line."""

_LIKE_ROBERTA = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] [SEP] $B [SEP]"}
_LIKE_XLNET = {"single": "$A:0 [SEP]:0 [CLS]:2", "pair": "$A:0 [SEP]:0 $B:1 [SEP]:1 [CLS]:2"}
_TEMPLATES = {"roberta": _LIKE_ROBERTA, "xlm_roberta": _LIKE_ROBERTA, "mpnet": _LIKE_ROBERTA, "xlnet": _LIKE_XLNET}
_NO_SEGMENTS = ("roberta", "xlm_roberta", "mpnet", "distilbert", "modernbert")
_POSITIONS = 66


def write_model(folder: Path, family: str) -> Path:
    """Write a tiny random model (two layers, width 32) and its tokenizer as ``save_pretrained`` does."""
    if family in DECODERS:
        return write_decoder(folder, family)
    import torch
    from transformers import AutoModel

    tokenizer = build_tokenizer(family)
    torch.manual_seed(0)
    place = folder / family
    AutoModel.from_config(build_config(family, len(tokenizer), tokenizer.pad_token_id)).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def build_tokenizer(family: str) -> Any:
    """Take the embedded model's words, and set special tokens, segments and padding as the family does."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    from effective_attention.models.encoders import PretrainedEncoder

    own: Any = PretrainedEncoder("minilm").tokenizer()
    words = Tokenizer.from_str(own.backend_tokenizer.to_str())
    template = _TEMPLATES.get(family)
    if template is not None:
        special = [(token, words.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
        words.post_processor = TemplateProcessing(**template, special_tokens=special)
    segments = [] if family in _NO_SEGMENTS else ["token_type_ids"]
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        **{f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "unk", "mask")},
        pad_token="[unused0]" if template is _LIKE_ROBERTA else "[PAD]",  # RoBERTa's is 1: positions start after it
        padding_side="left" if family == "xlnet" else "right",
        model_input_names=["input_ids", *segments, "attention_mask"],
    )


def build_config(family: str, vocabulary: int, pad_id: int) -> Any:
    """Describe an encoder, or a model that commands refuse, of two layers and width 32."""
    import transformers as hf

    common = {"vocab_size": vocabulary, "pad_token_id": pad_id}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    sizes = {**common, **sizes, "max_position_embeddings": _POSITIONS}
    narrow = {"embedding_size": 16}
    distances = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
    special = {"cls_token_id": 101, "sep_token_id": 102, "bos_token_id": 101, "eos_token_id": 102}
    made: dict[str, Callable[[], Any]] = {
        "bert": lambda: hf.BertConfig(**sizes),
        "roberta": lambda: hf.RobertaConfig(**sizes, type_vocab_size=1),
        "distilbert": lambda: hf.DistilBertConfig(
            **common, dim=32, n_layers=2, n_heads=4, hidden_dim=32, max_position_embeddings=_POSITIONS
        ),
        "electra": lambda: hf.ElectraConfig(**sizes, **narrow),
        "albert": lambda: hf.AlbertConfig(**sizes, **narrow),
        "mobilebert": lambda: hf.MobileBertConfig(**sizes, **narrow, intra_bottleneck_size=32, true_hidden_size=32),
        "xlm_roberta": lambda: hf.XLMRobertaConfig(**sizes, type_vocab_size=1),
        "modernbert": lambda: hf.ModernBertConfig(**sizes, **special, local_attention=8, global_attn_every_n_layers=2),
        "ernie": lambda: hf.ErnieConfig(**sizes),
        "mpnet": lambda: hf.MPNetConfig(**sizes),
        "deberta": lambda: hf.DebertaConfig(**sizes, **distances, type_vocab_size=0),
        "deberta_v2": lambda: hf.DebertaV2Config(**sizes, **distances, type_vocab_size=0),
        "roformer": lambda: hf.RoFormerConfig(**sizes, **narrow),
        "xlnet": lambda: hf.XLNetConfig(**common, d_model=32, n_layer=2, n_head=4, d_inner=32),
        "t5": lambda: hf.T5Config(**common, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4),
        "bart": lambda: hf.BartConfig(
            **common, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=_POSITIONS,
        ),
        "nystromformer": lambda: hf.NystromformerConfig(**sizes, segment_means_seq_len=32, num_landmarks=4),
        "longformer": lambda: hf.LongformerConfig(**sizes, attention_window=8),
    }  # fmt: skip
    return made[family]()


def left_out(family: str) -> dict[str, str]:
    """Name the analyses that the commands leave out, each with what they say of it."""
    if family == "xlnet":
        return {"protocols": "hands out copies of its embeddings, which no gradient reaches: protocols"}
    if family not in DECODERS:
        return {}
    return {"delimiters": "left out, because the model's tokenizer sets no [CLS] and [SEP]: delimiters"}


def methods_left_out(family: str) -> list[str]:
    """Begin each line in which ``faithfulness`` says that a model has not what some methods read for."""
    if family == "xlnet":
        return ["faithfulness leaves out norm, norm_rollout,", "faithfulness leaves out value_zeroing,"]
    if family in ("mobilebert", "modernbert", "deberta", "gemma2", "gpt_neox"):
        return ["faithfulness leaves out norm_residual, globenc, alti, decompx:"]
    return ["faithfulness leaves out globenc, decompx:"] if family in DECODERS else []
