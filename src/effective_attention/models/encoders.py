"""Where a model's weights and tokenizer come from: a package, the hub, a folder, or a random draw.

Every encoder answers the same calls, ``tokenizer()``, ``classifier(num_outputs)`` and ``masked_lm()``, so that nothing
downstream knows the difference.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from types import NoneType
from typing import Any

from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, BertConfig, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention.errors import UserError, quoted, shorten
from effective_attention.models.embedded import EMBEDDED_NAME, embedded_folder
from effective_attention.models.pretrained import PretrainedEncoder

__all__ = ["Encoder", "PretrainedEncoder", "RandomEncoder", "TinyEncoder", "embedded_folder", "encoder_from_dict"]

_LONGEST_NAME = 1024  # characters
_NOT_STORED = ("fetch", "option")  # no checkpoint holds them


@dataclass(frozen=True)
class RandomEncoder:
    """A BERT that starts from random weights, with the embedded model's tokenizer.

    As it comes it is tiny, for tests and dry runs: it learns nothing worth knowing, in no time.

    Attributes:
        name: Name of the model in results.
        layers: Number of layers.
        heads: Heads a layer.
        width: Width of the hidden states.
        widening: Width of the feed-forward layers, in widths.
        dropout: Dropout of hidden states and attention, while training.
        embedded: Whether results are to be called a demonstration.
    """

    name: str = "tiny"
    layers: int = 2
    heads: int = 4
    width: int = 32
    widening: int = 2
    dropout: float = 0.1
    embedded: bool = True

    def tokenizer(self) -> Tokenizer:
        return PretrainedEncoder(EMBEDDED_NAME).tokenizer()

    def classifier(self, num_outputs: int) -> PreTrainedModel:
        return AutoModelForSequenceClassification.from_config(self.config(num_outputs))

    def config(self, num_outputs: int) -> BertConfig:
        """Describe the model to transformers."""
        self._check()
        return BertConfig(
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            hidden_size=self.width,
            intermediate_size=self.widening * self.width,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
            num_labels=num_outputs,
        )

    def masked_lm(self) -> PreTrainedModel:
        """Build the encoder with a masked-language-model head, all weights random."""
        return AutoModelForMaskedLM.from_config(self.classifier(2).config)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _check(self) -> None:
        for name in ("layers", "heads", "width", "widening"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise UserError(f"model.{name} must be a whole number, at least 1, got {value!r}")
        if self.width % self.heads:
            raise UserError(
                f"model.width must be a multiple of model.heads, got width {self.width} and {self.heads} heads"
            )
        if not 0 <= self.dropout < 1:
            raise UserError(f"model.dropout must be from 0 to below 1, got {self.dropout!r}")


TinyEncoder = RandomEncoder  # as it comes: tiny
Encoder = PretrainedEncoder | RandomEncoder


def encoder_from_dict(options: dict[str, Any]) -> Encoder:
    """Build an encoder from what its ``to_dict`` returned, by way of a checkpoint that may be a stranger's.

    This never goes through ``_target_``: what a checkpoint says must not decide what code runs. It does decide whose
    tokenizer is loaded, from the hub or a folder, as data (``trust_remote_code=False``). Whether a model may be fetched
    it cannot say.

    Raises:
        ValueError: An option is unknown, missing, or not of its type.
    """
    encoder_class = RandomEncoder if "layers" in options else PretrainedEncoder
    kinds = {one.name: _KINDS[str(one.type)] for one in fields(encoder_class) if one.name not in _NOT_STORED}
    for name, value in options.items():
        if type(value) not in kinds.get(name, ()) or (isinstance(value, str) and not _is_name(value)):
            raise ValueError(f"no encoder has {shorten(str(name))}={quoted(value)}")
    if "name" not in options:
        raise ValueError("the encoder has no name")
    encoder = encoder_class(**options)
    return replace(encoder, option="checkpoint") if isinstance(encoder, PretrainedEncoder) else encoder


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, NoneType),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
}


def _is_name(text: str) -> bool:
    """Tell whether a text can be a folder, a hub id or a revision."""
    return 0 < len(text) <= _LONGEST_NAME and text.isprintable()
