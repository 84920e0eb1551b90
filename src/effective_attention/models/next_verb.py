"""A causal language model as it is, asked for a verb's number: which of the verb's two forms is the likelier next word?

``NextVerb`` answers with logits (batch, 2): the log-probabilities of the singular and of the plural form as the token
behind the text's last, over the whole vocabulary. Their softmax is the model's choice between the two, so that the
log-odds of a class are ``log p(is) - log p(are)``: what Linzen et al. (2016) and Gulordava et al. (2018) compare. No
classification head is added, nothing is trained, and every explanation of a class is one of that choice.

Deviations. Only the first token of a form is asked for, and its probability is that of every word that begins with it;
verbs whose forms begin with the same token cannot be asked for (``data.agreement.verbs`` leaves them out). A text
without a verb of its own is asked for *is* and *are*.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from effective_attention.attention.hook import evaluation_mode
from effective_attention.data.agreement.verbs import DEFAULT, check_ends, first_tokens
from effective_attention.errors import UserError
from effective_attention.models.encoders import Encoder, PretrainedEncoder

_ADVICE = "choose a causal language model, such as model=smollm2 or model.name=<hub id or folder>"


class NextVerb(PreTrainedModel):
    """A causal language model that answers with the two forms of a verb.

    Args:
        language_model: One of transformers', with ``logits`` (batch, token, vocabulary).
        verb_ids: The tokens that are asked for where a batch does not say: singular, plural.
    """

    base_model_prefix = "language_model"
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True

    def __init__(self, language_model: PreTrainedModel, verb_ids: Sequence[int]) -> None:
        super().__init__(language_model.config)
        self.language_model = language_model
        self.register_buffer("verb_ids", torch.tensor(list(verb_ids)), persistent=False)
        self._options = inspect.signature(language_model.forward).parameters.keys()

    @property
    def base_model(self) -> Any:
        """Return the language model without its head."""
        return self.language_model.base_model

    def get_input_embeddings(self) -> Any:
        """Return the language model's."""
        return self.language_model.get_input_embeddings()

    def set_input_embeddings(self, value: Any) -> None:
        """Set the language model's."""
        self.language_model.set_input_embeddings(value)

    def forward(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Int[Tensor, "batch token"] | None = None,
        verb_ids: Int[Tensor, "batch 1 2"] | None = None,
        output_hidden_states: bool | None = None,
    ) -> SequenceClassifierOutput:
        """Return ``logits`` (batch, 2); see the module's docstring.

        The text's last token is the last that the mask shows, whichever side is padded.

        Args:
            input_ids: The text up to its verb.
            attention_mask: None: nothing is padded.
            verb_ids: The first tokens of the verb's singular and plural; None: *is* and *are*.
            output_hidden_states: Whether to return the layers' outputs too.
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        last = (mask.long() * torch.arange(1, mask.shape[1] + 1, device=mask.device)).argmax(dim=-1)
        places, place = torch.unique(last, return_inverse=True)
        given = {"input_ids": input_ids, "attention_mask": attention_mask, **self._given(mask, places)}
        output = self.language_model(**given, output_hidden_states=output_hidden_states)
        read = place if "logits_to_keep" in given else last
        logits = output.logits[torch.arange(len(mask), device=mask.device), read]  # (batch, vocabulary)
        asked = (self.verb_ids if verb_ids is None else verb_ids).reshape(-1, 2).expand(len(mask), 2)
        chances = _at_least_float32(logits).log_softmax(dim=-1)
        return SequenceClassifierOutput(logits=chances.gather(1, asked), hidden_states=output.hidden_states)

    def _given(self, mask: Tensor, places: Tensor) -> dict[str, Any]:
        """Return options that the language model has: the vocabulary only where it is read, and places of its own."""
        wanted: dict[str, Any] = {"logits_to_keep": places, "use_cache": False}
        if not bool(mask[:, 0].all()):  # padded on the left: many count places without asking the mask
            wanted["position_ids"] = (mask.long().cumsum(dim=-1) - 1).clamp_min(0)
        return {name: value for name, value in wanted.items() if name in self._options}


def _at_least_float32(logits: Float[Tensor, "batch vocabulary"]) -> Float[Tensor, "batch vocabulary"]:
    return logits if logits.dtype == torch.float64 else logits.float()


def load_next_verb(encoder: Encoder, place: str) -> NextVerb:
    """Load a causal language model with its own head.

    Args:
        encoder: Where it comes from.
        place: What an error calls it: the option that names it.

    Raises:
        UserError: It is none, or its files lack the head, or its tokenizer ends texts with a token.
    """
    if not isinstance(encoder, PretrainedEncoder):
        raise UserError(f"head=verb asks a language model, and {place} has random weights; {_ADVICE}")
    model = encoder.causal_lm()
    if not _is_causal(model):
        raise UserError(f"head=verb: {place} reads a text in both directions, and so predicts no next word; {_ADVICE}")
    tokenizer = encoder.tokenizer()
    check_ends(tokenizer)
    return NextVerb(model, first_tokens([DEFAULT], tokenizer)[0].tolist()).eval()


@torch.no_grad()
def _is_causal(model: PreTrainedModel) -> bool:
    """Try out whether what is said of the first tokens is the same whatever comes behind them."""
    texts = torch.tensor([[1, 2, 3], [1, 2, 4]], device=model.device)
    with evaluation_mode(model):
        first, second = model(input_ids=texts).logits[:, :2].float()
    return bool(torch.allclose(first, second, rtol=1e-3, atol=1e-4))
