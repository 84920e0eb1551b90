"""A tiny model with real texts: heads of width 8, texts of 15 and more tokens, so every null space is non-trivial."""

from pathlib import Path
from typing import Any

from helpers.paths import CONF


class StubTagger:
    """A tagger that goes by the length of words, each depending on the one before: not English, but checked by hand."""

    name = "stub"
    version = "1"
    tags = ("NOUN", "PRON", "VERB", "ADJ")

    def tag(self, texts):
        from effective_attention.data.annotation.tagging import TaggedText

        return [self._tag(TaggedText, text) for text in texts]

    def _tag(self, made, text):
        import re

        words = list(re.finditer(r"\w+|[^\w\s]", text))
        tags = tuple(self.tags[len(word[0]) % len(self.tags)] for word in words)
        return made(
            start=tuple(word.start() for word in words),
            end=tuple(word.end() for word in words),
            upos=tags,
            xpos=tags,
            head=tuple(max(place - 1, 0) for place in range(len(words))),
            relation=tuple("root" if place == 0 else tags[place].lower() for place in range(len(words))),
        )


def build_subject(
    cache: Path, *, batch_size: int = 4, padding: str = "longest", examples: int = 9, **changes: Any
) -> Any:
    """Make a finetuned and a pretrained tiny model on the first examples of a sample task."""
    import torch
    from hydra import compose, initialize_config_dir
    from hydra.utils import instantiate

    from effective_attention.analyses.common.subject import Subject
    from effective_attention.data.annotation.tagging import annotate
    from effective_attention.data.datamodule import TextDataModule
    from effective_attention.data.sources import SampleSource
    from effective_attention.models.encoders import TinyEncoder

    with initialize_config_dir(str(CONF), version_base="1.3"):
        task = instantiate(compose(overrides=[f"+task={changes.pop('task', 'mrpc')}"]).task)
    encoder = TinyEncoder()
    tokenizer = encoder.tokenizer()
    data = TextDataModule(
        task,
        SampleSource(),
        tokenizer,
        batch_size=batch_size,
        max_length=changes.pop("max_length", 64),
        padding=padding,
        limit_eval=examples,
        token_cache=str(cache),
    )
    models = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        models.append(encoder.classifier(task.num_outputs).eval())
    with torch.no_grad():  # a random model's attention is nearly uniform; make it worth looking at
        for model in models:
            for name, weight in model.named_parameters():
                if "query" in name or "key" in name:
                    weight.mul_(8)
    split = data.split("validation")
    annotated = annotate(split.examples.texts, tokenizer, data.max_length, StubTagger(), None)
    return Subject(models[0], models[1], data, split, annotated, torch.device("cpu"))


def join_two(rank: int, folder: str, tokens: str = "tokens") -> Any:
    """Join a group of two spawned processes that share the work; return a subject cached in ``folder``/``tokens``."""
    import os

    import torch

    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "HF_HUB_OFFLINE": "1"}
    store = torch.distributed.FileStore(f"{folder}/store", 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    return build_subject(Path(folder) / tokens)


def make_context(
    *, layers: int = 2, heads: int = 2, width: int = 8, max_length: int = 16, examples: int = 1, **more: Any
) -> Any:
    """Make a context without a model behind it; facts of the split go into its ``split``."""
    from effective_attention.analyses.common.base import Context, SplitFacts

    of_split = {name: more.pop(name) for name in ("lengths", "token_ids", "texts", "relations") if name in more}
    return Context(layers, heads, width, SplitFacts(examples, max_length, **of_split), **more)
