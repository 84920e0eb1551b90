"""Build the list of many explorer pages: one HTML file, sorted and filtered by its own small script.

The rows stand in the file as a table, so that it can be read, and every link followed, without the script, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from effective_attention.explorer.maps import DEFAULT_MAPS
from effective_attention.explorer.page import fill
from effective_attention.explorer.sides import Side, best_label

_SCRIPT = 160_000  # bytes of a page without numbers
_PER_WEIGHT = 3.1  # bytes, of a standard and its effective weight together; measured on the embedded MiniLM
_PER_MAP = {"affine": 2.0, "sparse": 1.0, "smallest": 1.3}  # bytes more, of a weight of a map; likewise
_PER_NEURON = 2.1  # bytes, of a number of a query or a key; likewise
_MOST_LETTERS = 100  # of a text


@dataclass(frozen=True)
class IndexRow:
    """One example.

    Attributes:
        example: Number in the split.
        place: Where its page is, seen from the list.
        texts: The beginning of its text, or of the two of a pair.
        gold: What is right: a label, or a score; None: not known.
        answer: What the model predicts: a label, or a score; None: nothing.
        probability: Of the label; None: it is a score, or nothing.
        right: Whether the label is the gold one; None: unknown, or a score.
        tokens: How many the text has.
        bytes: How large the page is.
    """

    example: int
    place: str
    texts: tuple[str, ...]
    gold: str | float | None
    answer: str | float | None
    probability: float | None
    right: bool | None
    tokens: int
    bytes: int

    @classmethod
    def of(cls, example: int, place: str, side: Side, size: int) -> IndexRow:
        """Describe a page by its first side."""
        best = best_label(side.prediction)
        score = None if side.prediction is None else side.prediction.get("score")
        answer, probability = (score, None) if best is None else best
        texts = tuple(_beginning(text) for text in side.texts)
        return cls(example, place, texts, side.gold, answer, probability, side.right, side.size, size)

    @property
    def error(self) -> float | None:
        """Return how far the answer is from what is right, for sorting; None: unknown.

        Of a label, the probability of what is wrong about it: above 1 where it is wrong, below where it is right.
        """
        if isinstance(self.gold, float) and isinstance(self.answer, float):
            return abs(self.gold - self.answer)
        if self.right is None or self.probability is None:
            return None
        return 1 - self.probability if self.right else 1 + self.probability


def build_index(rows: Sequence[IndexRow], *, title: str, examples: int) -> str:
    """Build the list.

    Args:
        rows: One for each page.
        title: Whose attention the pages show.
        examples: How many the split has.
    """
    judged = [row.right for row in rows if row.right is not None]
    sizes = [row.bytes for row in rows]
    said = [f"{len(rows)} of {examples} examples"]
    if judged:
        said.append(f"{sum(judged)} right, {len(judged) - sum(judged)} wrong")
    said.append(f"{megabytes(sum(sizes))} in all, {megabytes(min(sizes))} to {megabytes(max(sizes))} a page")
    scores = any(isinstance(row.answer, float) for row in rows)
    return fill("index", "index.js", title=title, said=" · ".join(said), rows=rows, megabytes=megabytes, scores=scores)


def expected_bytes(
    tokens: int, layers: int, heads: int, width: int, *, sides: int, maps: Sequence[str] = DEFAULT_MAPS
) -> int:
    """Estimate the size of a page; weights of an untrained model, which are even, take a tenth less.

    Args:
        tokens: Of the text.
        layers: Of the model.
        heads: Of a layer.
        width: Of the hidden states, as wide as all queries of a layer together; 0: queries and keys are left out.
        sides: One, or two.
        maps: What stands beside standard and effective attention.
    """
    weight = _PER_WEIGHT + sum(_PER_MAP[name] for name in maps)
    numbers = heads * tokens**2 * weight + 2 * tokens * width * _PER_NEURON
    return round(_SCRIPT + sides * layers * numbers)


def megabytes(size: float) -> str:
    """Write a size as it is read: in MB, small ones in kB.

    >>> megabytes(1_234_567), megabytes(140_200)
    ('1.2 MB', '140 kB')
    """
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def _beginning(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_LETTERS else f"{flat[: _MOST_LETTERS - 1].rstrip()}…"
