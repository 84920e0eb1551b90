"""Twenty architectures, tiny and random: trained, restored, and looked at by every analysis of the papers.

Figures are not drawn here: they are drawn from tables, and every analysis has its own test of them.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
import torch

from effective_attention.analyses.common.registry import analysis_names, find_analysis
from effective_attention.data.annotation.tagging import sets_delimiters
from effective_attention.errors import UserError
from effective_attention.reports.runs import PREDICTIONS
from effective_attention.run.analysing import AnalysisResults
from effective_attention.run.experiment import evaluate, train
from effective_attention.run.setup import prepare
from helpers.paths import CONF
from helpers.small_analyses import OPTIONS
from helpers.zoo import DECODERS, ENCODERS, FAMILIES, REFUSED, left_out, methods_left_out, write_model

SMALL = ("task=sst2", "data=local", "data.max_length=32", "model=bert_base")
TEXTS = (
    "The old cat sat on the mat, and the dogs ran.",
    "A car that the men drove was red.",
    "Why did they not say so?",
    "It stopped at the house on Friday, the company said.",
)
"""Of four lengths, in words that the decoders' tokenizer has been trained on."""
QUICK = (
    *OPTIONS,
    "analysis.token_identity.maps=[naive,linear]",
    "analysis.token_identity.solver=ridge",
    "analysis.alternative_attention.bound=false",
)
GROUPS = ("paper", "structure", "faithfulness", "protocols", "identifiability", "sinks", "explorer")
REASONS = {
    "t5": "reads one text and writes another, which commands cannot train or evaluate",
    "bart": "reads one text and writes another, which commands cannot train or evaluate",
    "nystromformer": "has no attention matrix to split: it approximates attention by landmarks",
    "longformer": "has no attention matrix to split: it attends in overlapping chunks",
}


class Visit(NamedTuple):
    """What the two commands left of one family."""

    family: str
    folder: Path
    lines: list[str]
    trained: dict[str, Any]
    again: Any

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        return {path.stem: pd.read_parquet(path) for path in (self.folder / "tables").glob("*.parquet")}


@pytest.fixture(scope="module", params=FAMILIES)
def visit(request: Any, composer: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Visit:
    family = request.param
    base = tmp_path_factory.mktemp(family)
    small = (f"model.name={write_model(base, family)}", f"data.dir={write_texts(base)}", *SMALL)
    first = composer("train", base / "train", *small)
    chosen = (f"analysis=[{','.join(GROUPS)}]", *QUICK)
    again = composer("evaluate", base / "evaluate", f"checkpoint={first.run_dir}", *small, *chosen)
    said = _Lines()
    logger = logging.getLogger("effective_attention")
    logger.addHandler(said)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AnalysisResults, "write", lambda *_: None)
            trained = train(first)
            evaluate(again)
    finally:
        logger.removeHandler(said)
    return Visit(family, Path(again.run_dir), said.lines, trained, again)


def write_texts(folder: Path) -> Path:
    rows = [f'"{text}",{number % 2}' for number, text in enumerate(TEXTS)]
    for split in ("train", "validation"):
        (folder / f"{split}.csv").write_text("\n".join(["sentence,label", *rows]) + "\n", encoding="utf-8")
    return folder


class _Lines(logging.Handler):
    """Keeps what the commands say."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def wanted() -> set[str]:
    """Name the analyses of the groups, as the configs list them."""
    listed = [line.strip("- \n") for name in GROUPS for line in _defaults(CONF / "analysis" / f"{name}.yaml")]
    return {*listed, "faithfulness", "protocols", "sinks", "explorer"}


def _defaults(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("  - ")]


def test_every_table_is_there_and_whole(visit: Visit) -> None:
    tables = visit.tables
    assert tables.keys() - {PREDICTIONS} == wanted() - left_out(visit.family).keys()
    for name, table in tables.items():
        if name in analysis_names():
            schema = find_analysis(name).schema
            assert schema is not None
            schema.check(table[list(schema.names)], name)
        assert len(table) > 0 or name == "timing"  # five batches are the fewest that tell a time
        assert set(table["model"]) <= {str(visit.again.model.name)}


def test_what_is_left_out_is_said_in_one_line(visit: Visit) -> None:
    lines = [line for line in visit.lines if "left out" in line or "leaves out" in line]
    reasons = [*left_out(visit.family).values(), *methods_left_out(visit.family)]
    if visit.family == "xlnet":
        reasons += ["null_space leaves out the comparison with T = V H"]
    assert len(lines) == len(reasons)
    for reason in reasons:
        assert sum(reason in line for line in lines) == 1, reason
    assert all("\n" not in line for line in lines)


def test_both_attentions_give_the_same_answer(visit: Visit) -> None:
    metrics = json.loads((visit.folder / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["test/effective/max_logit_difference"] < 1e-5
    assert metrics["test/effective/changed_predictions"] == 0
    assert metrics["test/effective/null_space_share"] == 1  # heads of width 8, texts of more tokens
    assert metrics["test/standard/accuracy"] == visit.trained["test/standard/accuracy"]


def test_the_checkpoint_answers_alike_alone_and_in_batches(visit: Visit) -> None:
    run = prepare(visit.again, visit.again.checkpoint)
    data = run.datamodule
    split = data.split(data.eval_split)
    classifier = run.classifier.eval()
    with torch.no_grad():
        together = {}
        for batch in data.val_dataloader():
            together.update(zip(batch["index"].tolist(), classifier(batch), strict=True))
        alone = {index: classifier(data.collate(split, [index]))[0] for index in together}
    assert len({*split.encoded.lengths.tolist()}) > 1
    assert together.keys() == {*range(len(TEXTS))}
    for index, logits in together.items():
        torch.testing.assert_close(logits, alone[index], rtol=1e-4, atol=1e-6)
    spread = torch.stack([*alone.values()]).std(dim=0).max()
    assert spread > 0  # not one answer to all
    assert data.equal_lengths == (visit.family == "xlnet")


def test_tokens_are_what_the_familys_tokenizer_sets(visit: Visit) -> None:
    """A row of the checks above would pass with any tokenizer; these differ."""
    run = prepare(visit.again, visit.again.checkpoint)
    tokenizer = run.datamodule.tokenizer
    assert sets_delimiters(tokenizer) == (visit.family in ENCODERS)
    ids = tokenizer("some words")["input_ids"]
    if visit.family in ENCODERS:
        assert ids.index(tokenizer.cls_token_id) == (len(ids) - 1 if visit.family == "xlnet" else 0)
    else:
        assert tokenizer.pad_token_id is None
        assert visit.family in DECODERS


@pytest.mark.parametrize("family", REFUSED)
def test_others_are_turned_away_in_one_line(family: str, composer: Callable[..., Any], tmp_path: Path) -> None:
    place = write_model(tmp_path, family)
    with pytest.raises(UserError, match=REASONS[family]) as error:
        train(composer("train", tmp_path / "run", f"model.name={place}", f"data.dir={write_texts(tmp_path)}", *SMALL))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run" / "run").exists()


@pytest.mark.parametrize("option", ["data.padding=max_length", "reading=padded", "attention=padded"])
def test_nothing_pads_a_model_that_would_answer_from_padding(
    option: str, composer: Callable[..., Any], tmp_path: Path
) -> None:
    small = (f"model.name={write_model(tmp_path, 'xlnet')}", f"data.dir={write_texts(tmp_path)}", *SMALL)
    name = option.replace("attention=", "attention ")
    with pytest.raises(UserError, match=f"{name} fills texts up, which changes what XLNetFor.* answers"):
        train(composer("train", tmp_path / "run", *small, option))


def test_an_analysis_that_is_not_possible_is_left_out_and_the_others_run(
    trained: Any, compose: Callable[..., Any], tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from effective_attention.analyses.token_mixing import first_layer

    monkeypatch.setattr(first_layer, "_same", lambda *_: False)
    monkeypatch.setattr(AnalysisResults, "write", lambda *_: None)
    options = [f"checkpoint={trained.folder}", "analysis=[token_mixing,distance]"]
    with caplog.at_level(logging.WARNING, logger="effective_attention"):
        evaluate(compose("evaluate", *options))
    (line,) = [record.message for record in caplog.records if "left out" in record.message]
    assert line.startswith("left out, because where BertModel's first layer reads its input cannot be found")
    assert line.endswith(": token_mixing")
    found = sorted(path.stem for path in (tmp_path / "run" / "tables").glob("*.parquet"))
    assert found == ["distance", "predictions"]
