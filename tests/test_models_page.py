"""docs/models.md says what is so: its tables are held against the models and the code, its examples are run."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from effective_attention import trace, use_attention
from effective_attention.attention.families import _NO_MATRIX
from effective_attention.attention.interface import uses_interface
from effective_attention.attributions.registry import impossible, registered
from effective_attention.models.encoders import PretrainedEncoder
from helpers.paths import ROOT
from helpers.zoo import DECODERS, FAMILIES, TITLES, left_out, write_model

PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def rows_of(heading: str) -> list[list[str]]:
    """List the rows of the table under a heading, each a list of its cells."""
    part = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_every_family_of_the_zoo_has_its_row() -> None:
    assert [row[0] for row in rows_of("Families")] == [TITLES[family] for family in FAMILIES]
    assert len(FAMILIES) == 20


@pytest.mark.parametrize("family", FAMILIES)
def test_a_familys_row(family: str, tmp_path: Path) -> None:
    (row,) = [row for row in rows_of("Families") if row[0] == TITLES[family]]
    place = write_model(tmp_path, family)
    encoder = PretrainedEncoder(str(place))
    model: Any = encoder.classifier(2)
    inputs = dict(encoder.tokenizer()("The old cat sat.", return_tensors="pt"))
    seen = trace(model, inputs)
    methods = impossible(registered(), seen)
    names = [f"`{name}`" for name in left_out(family)]
    names += [f"methods {', '.join(f'`{name}`' for name in methods)}"] if methods else []
    views = "all views" if seen.layers[0].query is not None else "without neurons"
    written = "yes" if family in DECODERS and writes_alike(place, inputs["input_ids"]) else ""
    road = "interface" if uses_interface(model) else "watched"
    assert row[1:] == [road, ", ".join(names), views, written]


@torch.no_grad()
def writes_alike(place: Path, ids: torch.Tensor) -> bool:
    """Tell whether a model writes the same with effective attention, and attends to each new token once."""
    model: Any = AutoModelForCausalLM.from_pretrained(place).eval()
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    own = model.generate(ids, **options)
    with use_attention(model, "effective") as record:
        found = model.generate(ids, **options)
    return torch.equal(own, found) and record.calls == 2 * 4


def test_every_refused_family_has_its_reason() -> None:
    told = {name: reason for names, reason in rows_of("Refused") for name in re.findall(r"`(\w+)`", names)}
    assert told == {name: re.sub("^(it|its encoder) ", "", reason) for name, reason in _NO_MATRIX.items()}
    encoders = {name for name, reason in _NO_MATRIX.items() if reason.startswith("its encoder")}
    (line,) = [line for line in PAGE.splitlines() if line.endswith("it is the encoder that does so.")]
    assert encoders == {*re.findall(r"`(\w+)`", line)} - {"model_type"}


def test_a_model_of_ones_own(tokenizer: Any) -> None:
    names: dict[str, Any] = {"tokenizer": tokenizer}
    torch.manual_seed(0)
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(block, "docs/models.md", "exec"), names)
    torch.testing.assert_close(names["logits"], names["model"](**names["batch"]), atol=1e-5, rtol=1e-4)
    assert names["seen"].layers[0].attention.shape[:2] == (2, 4)
    assert all(len(table) > 0 for table in names["tables"].values())
    assert names["tables"].keys() == {"distance", "entropy", "null_space", "token_types"}
    assert "good" in names["page"].html
