"""One text, every layer and head, to look around in: the interactive page; or a page for each of many, and a list.

Vig (2019), "A multiscale visualization of attention in the transformer model": attention-head view, model view and
neuron view; Vig & Belinkov (2019) use them to find and show their heads. Ours has effective and null attention beside
standard attention, and a second model or text beside the first. What a page shows is put together in
``explorer.compared``; ``explorer.page`` makes it one HTML file, ``explorer.index`` the list.

The text is one of the split, or the user's own. It is run through the model on its own, whichever batch it is in.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, TextAnalysis
from effective_attention.analyses.common.options import check_flag, check_maps, check_number, is_whole_number
from effective_attention.attention.model_facts import device_of
from effective_attention.attention.trace import Trace, for_model, one_text, trace
from effective_attention.errors import UserError
from effective_attention.explorer.compared import Comparison, check_beside
from effective_attention.explorer.index import IndexRow, build_index, expected_bytes, megabytes
from effective_attention.explorer.maps import DEFAULT_MAPS
from effective_attention.explorer.page import build_page, title_of
from effective_attention.explorer.sides import Prediction, Side
from effective_attention.explorer.table import OWN_TEXT, SCHEMA, answers, rows_of, written
from effective_attention.processes import gather

log = logging.getLogger(__name__)
_OPTION = "analysis.explorer"


@dataclass(frozen=True)
class _Seen:
    """What is kept of an example until its page is made: next to nothing."""

    inputs: dict[str, Tensor]
    prediction: Prediction | None
    gold: str | float | None


class ExplorerPage(TextAnalysis):
    """One text, every layer and head, as an interactive page; ``SCHEMA`` describes the table.

    Args:
        example: Which example of the split, counted from 0; not read where the user wrote a text, or with ``examples``.
        examples: A page for each of so many examples, evenly spread over the split, and a list of them; None: one. More
            than the split has: all of it.
        most_pages: More pages than this are refused before anything runs.
        beside: To compare with: ``pretrained`` for the model as it was before finetuning, or a run directory or .ckpt
            file; None: nothing.
        beside_text: To compare with: the same model on another text.
        beside_text_pair: Its second half.
        neurons: Whether queries and keys go into the page, for its neuron view.
        maps: Which of ``affine``, ``sparse`` and ``smallest`` go into it beside standard and effective attention.
    """

    schema = SCHEMA
    comparison: Comparison

    @classmethod
    def analysis_name(cls) -> str:
        """Return the name that configs and the page have."""
        return "explorer"

    def __init__(
        self,
        *,
        example: int = 0,
        examples: int | None = None,
        most_pages: int = 1000,
        beside: object = None,
        beside_text: object = None,
        beside_text_pair: object = None,
        neurons: bool = True,
        maps: Sequence[str] = DEFAULT_MAPS,
    ) -> None:
        super().__init__(example=example)
        check_beside(beside, beside_text, beside_text_pair)
        check_flag("analysis.explorer.neurons", neurons)
        if examples is not None and not is_whole_number(examples):
            raise UserError(f"analysis.explorer.examples must be at least 1, or null for one page, got {examples!r}")
        check_number(f"{_OPTION}.most_pages", most_pages, 1)
        self.examples = examples
        self.most_pages = most_pages
        self.beside = None if beside is None else str(beside)
        self.neurons = neurons
        self.maps = check_maps(f"{_OPTION}.maps", maps)
        self.other_texts = tuple(str(text) for text in (beside_text, beside_text_pair) if text is not None)
        self.sides: list[Side] = []
        self.seen: dict[int, _Seen] = {}

    def setup(self, context: Context) -> Analysis:
        """Check that there is a text to show, and a model to compare with where one is wanted."""
        super().setup(context)
        if context.text is not None and not context.text.texts[0].strip():
            raise UserError("text is empty; add text=<some words>, or leave it out to see an example of the split")
        self._check_examples(context)
        self.comparison = Comparison(context, self.beside, self.other_texts, self.neurons, self.maps)
        self.comparison.check()
        self.sides = []
        self.seen = {}
        return self

    def _check_examples(self, context: Context) -> None:
        """Refuse more pages than anybody can have meant; say so where the split has fewer examples than were asked for.

        Raises:
            UserError: There would be too many, or the user wrote a text.
        """
        if self.examples is None:
            return
        if context.text is not None:
            raise UserError(f"{_OPTION}.examples shows examples of the split; leave out that, or text=...")
        pages = min(self.examples, context.examples)
        asked = f"{_OPTION}.examples={self.examples}"
        if pages > self.most_pages:
            lengths = context.split.lengths
            size = "" if lengths is None else f" of about {megabytes(self._expected(lengths[self.chosen()]))} in all"
            raise UserError(
                f"{asked} would write {pages} pages{size}, and {_OPTION}.most_pages is {self.most_pages}; "
                "ask for fewer, or raise that"
            )
        if pages < self.examples:
            log.warning("%s: the split has %d, and each gets a page", asked, pages)

    def chosen(self) -> list[int]:
        """List the examples that have a page."""
        total = self.context.examples
        if self.examples is None:
            return [self.example]
        count = min(self.examples, total)
        return [number * total // count for number in range(count)]

    def wants(self, indices: Sequence[int]) -> bool:
        """Ask for the batches that have the examples."""
        return self.context.text is None and not set(self.chosen()).isdisjoint(indices)

    def update(self, trace: Trace) -> None:
        """Look at the example; of many, keep what their pages can be made of later, one by one."""
        if self.examples is None:
            super().update(trace)
            return
        wanted = set(self.chosen())
        for row, number in enumerate(trace.inputs["index"].tolist()):
            if number in wanted:
                own = trace.example(row)
                inputs = {name: value.cpu() for name, value in _inputs(trace, row).items()}
                self.seen[number] = _Seen(inputs, self.comparison.learnt(own), self._gold(own))

    def look(self, trace: Trace) -> pd.DataFrame:
        """Put together what the page shows: one side, or two to compare."""
        seen = trace if trace.layers[0].reading.pads else _alone(trace)
        prediction, gold = self.comparison.learnt(seen), self._gold(trace)
        self.sides = self.comparison.sides(seen, self._texts(self.example), prediction, gold)
        number = OWN_TEXT if self.context.text is not None else self.example
        return pd.DataFrame(rows_of(number, self.sides))

    def compute(self) -> pd.DataFrame:
        """Bring table, sides and what was kept to every process; only one is asked for pages."""
        if self.examples is None:
            table = super().compute()
            self.sides = next(sides for sides in gather(self.sides) if sides)
            return table
        self.seen = dict(sorted(item for part in gather(self.seen) for item in part.items()))
        return pd.DataFrame([row for number in self.seen for row in self._row(number)])

    def pages(self) -> Iterator[tuple[str, str]]:
        """Yield the page; or one for each example, made when it is asked for, and then the list of them all."""
        if self.examples is None:
            yield "explorer.html", build_page(self.sides)
            return
        lengths = [_length(seen.inputs) for seen in self.seen.values()]
        log.info("explorer: %d pages, about %s in all", len(lengths), megabytes(self._expected(lengths)))
        rows = []
        for number, seen in self.seen.items():
            sides = self._sides(number, seen)
            place = f"explorer/{number}.html"
            page = build_page(sides, title=f"{title_of(sides)}, example {number}", index="../explorer.html")
            rows.append(IndexRow.of(number, place, sides[0], len(page.encode())))
            yield place, page
        log.info("explorer: %d pages written, %s in all", len(rows), megabytes(sum(row.bytes for row in rows)))
        yield "explorer.html", build_index(rows, title=title_of(sides), examples=self.context.examples)

    def _sides(self, number: int, seen: _Seen) -> list[Side]:
        probe = self.context.probe
        assert probe is not None, "the explorer needs the model (Context.probe)"
        inputs = {name: value.to(device_of(probe.model)) for name, value in seen.inputs.items()}
        own = trace(probe.model, inputs, reading=probe.layers[0].reading)
        return self.comparison.sides(own.example(0), self._texts(number), seen.prediction, seen.gold)

    def _texts(self, number: int) -> tuple[str, ...]:
        """Return the texts that were tokenised."""
        context = self.context
        if context.text is not None:
            return context.text.texts
        if context.split.texts is None:
            raise ValueError("the explorer needs to know the split's texts (SplitFacts.texts)")
        return context.split.texts(number)

    def _gold(self, seen: Trace) -> str | float | None:
        labels = seen.inputs.get("labels")
        return self.comparison.gold(None if labels is None else labels[0].item())

    def _row(self, number: int) -> list[dict[str, Any]]:
        """Make the rows of one example of many, whose page is not there yet."""
        seen, facts = self.seen[number], self.context.facts
        row = {
            "examples": len(self.seen),
            "example": number,
            "side": 0,
            "name": "",
            "model": facts.get("run/model", ""),
            "checkpoint": facts.get("run/checkpoint") or "",
            "layers": self.context.layers,
            "heads": self.context.heads,
            "tokens": _length(seen.inputs),
            "gold": written(seen.gold),
        }
        return [row | answer for answer in answers(seen.prediction)]

    def _expected(self, lengths: Iterable[int]) -> int:
        """Estimate how many bytes the pages of texts of so many tokens will have."""
        sides = 1 if self.beside is None and not self.other_texts else 2
        shape = (self.context.layers, self.context.heads, self.context.width if self.neurons else 0)
        return sum(expected_bytes(int(length), *shape, sides=sides, maps=self.maps) for length in lengths)


def _alone(seen: Trace) -> Trace:
    """Trace the text again, without companions and padding."""
    return trace(seen.model, one_text(seen, 0), reading=seen.layers[0].reading)


def _inputs(seen: Trace, row: int) -> dict[str, Tensor]:
    """Return what one text of a batch is run with on its own; with the padding where that is part of the reading."""
    if not seen.layers[0].reading.pads:
        return one_text(seen, row)
    return {name: value[row : row + 1] for name, value in for_model(seen.inputs).items()}


def _length(inputs: dict[str, Tensor]) -> int:
    return int(inputs["attention_mask"].sum()) if "attention_mask" in inputs else inputs["input_ids"].shape[1]
