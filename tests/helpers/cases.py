"""Tiny random classifiers of several families, and one batch of made-up texts for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

PAD, CLS, SEP, UNK = range(4)
WORDS = 4  # the first id of a word
ENCODERS = ("bert", "roberta", "distilbert", "electra")
DECODERS = ("gpt2", "llama")


@dataclass(frozen=True)
class Case:
    """A traced batch with a question, and what its tokens are."""

    request: Any
    special: Any
    index: Any  # the examples' places in a split, as the seeds of random scores

    @property
    def trace(self) -> Any:
        return self.request.trace

    @property
    def model(self) -> Any:
        return self.request.trace.model

    @property
    def words(self) -> Any:
        return self.trace.mask & ~self.special

    def alone(self, row: int) -> "Case":
        """Return the case of one text, without the others and without padding."""
        return self.part([row], self.trace.mask[row])

    def part(self, rows: list[int], places: Any) -> "Case":
        from effective_attention.attention.trace import trace

        inputs = {name: value[rows][:, places] for name, value in self.trace.inputs.items()}
        request = replace(self.request, trace=trace(self.model, inputs), target=self.request.target[rows])
        return Case(request, self.special[rows][:, places], self.index[rows])

    def padded(self, more: int) -> "Case":
        """Return the case of the same texts with more padding."""
        from torch.nn.functional import pad

        from effective_attention.attention.trace import trace

        inputs = {name: pad(value, (0, more)) for name, value in self.trace.inputs.items()}
        return Case(replace(self.request, trace=trace(self.model, inputs)), pad(self.special, (0, more)), self.index)

    def work(self, **settings: Any) -> Any:
        """Return the batch as methods get it, with no shared work done yet."""
        from effective_attention.attributions.shared_work import Settings, SharedWork

        known = replace(self.trace, inputs={**self.trace.inputs, "index": self.index})
        return SharedWork(replace(self.request, trace=known), self.words, Settings(UNK, **settings))

    @contextmanager
    def runs(self) -> Iterator[list[dict[str, Any]]]:
        """Record the inputs of every run of the model inside the block."""
        found: list[dict[str, Any]] = []
        hook = self.model.register_forward_pre_hook(
            lambda _module, _args, kwargs: found.append(kwargs), with_kwargs=True
        )
        try:
            yield found
        finally:
            hook.remove()


def build_model(family: str, classes: int = 2) -> Any:
    """Build a model with random weights, less uniform than by the usual initialisation.

    ELECTRA's embeddings are narrower than its layers.
    """
    import torch
    import transformers as hf

    sizes = {
        "vocab_size": 30,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 24,
    }
    common: dict[str, Any] = {"num_labels": classes, "pad_token_id": PAD}
    configs = {
        "bert": hf.BertConfig(**sizes, **common),
        "roberta": hf.RobertaConfig(**sizes, **common, max_position_embeddings=40),
        "distilbert": hf.DistilBertConfig(vocab_size=30, dim=16, n_layers=2, n_heads=4, hidden_dim=24, **common),
        "electra": hf.ElectraConfig(**sizes, **common, embedding_size=8),
        "gpt2": hf.GPT2Config(
            vocab_size=30, n_embd=16, n_layer=2, n_head=4, bos_token_id=CLS, eos_token_id=SEP, **common
        ),
        "llama": hf.LlamaConfig(**sizes, **common, num_key_value_heads=2),
        "xlnet": hf.XLNetConfig(vocab_size=30, d_model=16, n_layer=2, n_head=4, d_inner=24, **common),
    }
    torch.manual_seed(0)
    model = hf.AutoModelForSequenceClassification.from_config(configs[family]).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(12) if parameter.ndim > 1 else parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def build_inputs(family: str, lengths: tuple[int, ...]) -> tuple[dict[str, Any], Any]:
    """Make texts with [CLS] and [SEP] around the words, second halves of another token type.

    Decoders' texts are words only.
    """
    import torch

    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(WORDS, 30, mask.shape, generator=torch.Generator().manual_seed(1)) * mask
    special = torch.zeros_like(mask)
    if family in ENCODERS:
        for row, length in enumerate(lengths):
            for place, token in ((0, CLS), (length - 1, SEP)) if length else ():
                ids[row, place] = token
                special[row, place] = True
    inputs = {"input_ids": ids, "attention_mask": mask.long()}
    if family in ("bert", "electra"):
        inputs["token_type_ids"] = ((torch.arange(max(lengths)) >= 4) & mask).long()
    return inputs, special


def build_case(
    family: str = "bert",
    lengths: tuple[int, ...] = (9, 6, 4),
    *,
    classes: int = 2,
    double: bool = False,
    model: Any = None,
) -> Case:
    import torch

    from effective_attention.attention.trace import trace
    from effective_attention.attributions.request import AttributionRequest

    model = model or build_model(family, classes)
    model = model.double() if double else model
    inputs, special = build_inputs(family, lengths)
    index = torch.arange(len(lengths))
    return Case(AttributionRequest(trace(model, inputs), index % classes), special, index + 40)
