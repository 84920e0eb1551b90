"""Six families of decoders with tiny random weights, and a tokenizer without a padding token, as they come in a folder.

Gemma 2 caps its scores, sees a window in its second layer, and its tokenizer says that it pads on the left.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from effective_attention import analyse, explore
from effective_attention.analyses.attention_graph import AttentionGraph
from effective_attention.attention.trace import trace
from effective_attention.attributions.answer import answer_position
from effective_attention.data.padding import agree_on_padding, padded
from effective_attention.models.encoders import PretrainedEncoder
from helpers.decoders import FAMILIES, LINES, write_decoder
from helpers.subjects import StubTagger

STRUCTURE = ("distance", "entropy", "variability", "pos_attention", "dependency_alignment", "exemplars")


@pytest.fixture(scope="module", params=FAMILIES)
def decoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Load a classifier and its tokenizer, as the commands do."""
    encoder = PretrainedEncoder(str(write_decoder(tmp_path_factory.mktemp("decoders"), request.param)))
    torch.manual_seed(0)
    return encoder.classifier(2).eval(), encoder.tokenizer()


def batch_of(tokenizer: Any, texts: list[str], pad_id: int) -> dict[str, Any]:
    rows = [dict(tokenizer(text, return_tensors="pt")) for text in texts]
    longest = max(row["input_ids"].shape[1] for row in rows)
    rows = [padded(row, longest, pad_id) for row in rows]
    return {name: torch.cat([row[name] for row in rows]) for name in ("input_ids", "attention_mask")}


def test_a_text_alone_and_in_a_padded_batch(decoder: tuple[Any, Any]) -> None:
    model, tokenizer = decoder
    assert tokenizer.pad_token_id is None
    assert model.config.pad_token_id is None
    with torch.no_grad():
        alone = [model(**tokenizer(text, return_tensors="pt")).logits[0] for text in LINES]
        pad_id = agree_on_padding(model, tokenizer)
        together = trace(model, batch_of(tokenizer, list(LINES), pad_id))
    assert torch.allclose(torch.stack(alone), together.logits, atol=1e-5)
    assert together.logits.std() > 1e-4  # not the same for every text
    assert together.causal
    assert answer_position(together).tolist() == (together.lengths - 1).tolist()
    head = model.score(together.hidden[-1])
    assert torch.allclose(head[torch.arange(len(LINES)), together.lengths - 1], together.logits, atol=1e-5)
    model.config.pad_token_id = None


def test_every_analysis_of_structure_in_batches(decoder: tuple[Any, Any]) -> None:
    """Batches of one need no padding token: theirs are the numbers to meet."""
    model, tokenizer = decoder
    options: dict[str, Any] = {"tagger": StubTagger(), "progress": False}
    names = [*STRUCTURE, "token_type_profile", "token_types", AttentionGraph(example=1)]
    batches = analyse(model, tokenizer, list(LINES), names, batch_size=4, **options)
    singles = analyse(model, tokenizer, list(LINES), names, batch_size=1, **options)
    assert model.config.pad_token_id is None
    for name, table in batches.items():
        assert len(table) > 0
        for column in table.columns:
            one, other = table[column], singles[name][column]
            if one.dtype.kind == "f":
                assert one.to_numpy() == pytest.approx(other.to_numpy(), abs=2e-5, nan_ok=True), (name, column)
            else:
                assert one.tolist() == other.tolist(), (name, column)
    for name in STRUCTURE:
        assert set(batches[name]["first_token"]) == {False}
    graph = batches["attention_graph"]
    assert set(graph["receptive_field"]) == {True}
    length = len(tokenizer(LINES[1])["input_ids"])
    assert set(graph.loc[graph["method"] == "flow", "query"]) == {length - 1}
    with pytest.raises(ValueError, match=r"delimiters is about \[CLS\] and \[SEP\], which the tokenizer lacks"):
        analyse(model, tokenizer, list(LINES), ["delimiters"], progress=False)


def test_explore(decoder: tuple[Any, Any], tmp_path: Path) -> None:
    model, tokenizer = decoder
    page = explore(model, tokenizer, LINES[0], beside=LINES[1])
    assert page.save(tmp_path / "page.html").stat().st_size > 10_000
    assert model.config.pad_token_id is None
