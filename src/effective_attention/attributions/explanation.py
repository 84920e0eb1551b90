"""What ``explain`` returns: the words of a text, their scores, the prediction, and how far to trust the scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from effective_attention.attention.trace import Part
from effective_attention.attributions.trust import Trust
from effective_attention.attributions.words import Unit, Word
from effective_attention.io import write_text

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Explanation:
    """Which words decided a prediction, by one method. A notebook shows the text with highlighted words.

    Attributes:
        texts: The text, or the two of a pair, as the user wrote them.
        words: Its words; of ``unit="token"`` its tokens, special ones too.
        scores: One for each word; positive speaks for the target. Methods that only say how much a word matters, not
            in which direction, have none below 0.
        predicted: The class that the model finds most probable; of a regression ``score``.
        probability: Its probability; of a regression the score itself.
        target: What is explained: the predicted class, or the one that was asked for.
        target_probability: Its probability; of a regression the score itself.
        method: Name of the method.
        title: Its title.
        attention: Which attention it read; None: it reads none.
        layer: Which layer's scores these are, from 0; None: the method has none.
        unit: ``word`` or ``token``.
        trust: How far to trust it, measured on this very text.
        is_regression: Whether the model has one output, a score.
        is_cut: Whether the text is longer than what the model was given.
    """

    texts: tuple[str, ...]
    words: tuple[Word, ...]
    scores: tuple[float, ...]
    predicted: str
    probability: float
    target: str
    target_probability: float
    method: str
    title: str
    attention: Part | None
    layer: int | None
    unit: Unit
    trust: Trust
    is_regression: bool = False
    is_cut: bool = False

    @property
    def prediction(self) -> str:
        """Say what the model predicts, in a few words."""
        chance = f"{self.probability:.3f}"
        return f"score {chance}" if self.is_regression else f"{self.predicted} (probability {chance})"

    @property
    def made_with(self) -> str:
        """Say how the scores were made, in a few words."""
        return (
            self.title if self.attention is None else f"{self.title} ({self.attention} attention, layer {self.layer})"
        )

    def to_frame(self) -> DataFrame:
        """Return a table with one row a word: position, word, score, segment, start, end, special."""
        import pandas

        rows = [
            {
                "position": position,
                "word": word.text,
                "score": score,
                "segment": word.segment,
                "start": word.start,
                "end": word.end,
                "special": word.special,
            }
            for position, (word, score) in enumerate(zip(self.words, self.scores, strict=True))
        ]
        names = ["position", "word", "score", "segment", "start", "end", "special"]
        return pandas.DataFrame(rows, columns=names).astype({"start": "Int64", "end": "Int64"})

    def save(self, path: str | Path) -> Path:
        """Write a page that needs neither network nor notebook, completely or not at all."""
        from effective_attention.attributions.explanation_page import page_of

        write_text(Path(path), page_of(self))
        return Path(path)

    def __repr__(self) -> str:
        ranked = sorted(zip(self.scores, self.words, strict=True), key=lambda pair: -abs(pair[0]))
        first = ", ".join(f"{word.text} {score:+.3g}" for score, word in ranked[:3])
        return f"Explanation({self.prediction}; {self.made_with}: {first}; .save(path) writes a page)"

    def _repr_html_(self) -> str:
        """Show the highlighted text and how far to trust it."""
        from effective_attention.attributions.explanation_page import body_of

        return body_of(self)
