"""How far to trust one explanation: does the model need the words it points at, more than words drawn at random?

Comprehensiveness and sufficiency (``erasure``) of one ranking of one text, beside those of random rankings of the same
words. What is ranked is what is shown: all tokens of a word carry the word's score, and so do random rankings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attributions.erasure import erasure
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.words import Word

RANDOM_RANKINGS = 20
_CHANCE = 0.05  # how often a ranking that guesses may beat chance
_ROUNDING = 1e-9  # of a probability: less is no difference


@dataclass(frozen=True)
class BesideRandom:
    """One measure of a ranking, beside random rankings of the same words.

    Attributes:
        value: Of the ranking.
        random: Mean of the random rankings.
        beaten: How many of them do worse.
    """

    value: float
    random: float
    beaten: int


@dataclass(frozen=True)
class Trust:
    """How faithful an explanation is to the model, on its very text; probabilities lost, or of a regression the score.

    Attributes:
        comprehensiveness: What is lost without the words ranked highest; more is better.
        sufficiency: What is lost with these words alone; less is better.
        rankings: How many random rankings stand beside.
    """

    comprehensiveness: BesideRandom
    sufficiency: BesideRandom
    rankings: int

    @property
    def verdict(self) -> str:
        """Say in a sentence how far the ranking can be trusted.

        A check beats chance where a permutation test says so: a ranking that guesses comes first of 21 once in 21.
        """
        needed, enough = (self._beats_chance(one) for one in (self.comprehensiveness, self.sufficiency))
        if needed and enough:
            return "Both checks beat chance: without these words more is lost, with them alone less than with others."
        if needed:
            return "One check beats chance: without these words more is lost than without random ones."
        if enough:
            return "One check beats chance: with these words alone less is lost than with random ones."
        return "Neither check beats chance: on this text, do not lean on this ranking."

    def _beats_chance(self, measure: BesideRandom) -> bool:
        return (1 + self.rankings - measure.beaten) / (1 + self.rankings) <= _CHANCE

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return the two checks as a table: what was done, what it cost, what random words cost, how many are beaten.

        >>> Trust(BesideRandom(0.5, 0.1, 20), BesideRandom(0.0, 0.3, 9), 20).rows()[1]
        ('with the top words alone (less is better)', '0', '+0.300', '9 of 20')
        """
        checks = {
            "without the top words (more is better)": self.comprehensiveness,
            "with the top words alone (less is better)": self.sufficiency,
        }
        return [
            (name, _signed(one.value), _signed(one.random), f"{one.beaten} of {self.rankings}")
            for name, one in checks.items()
        ]


def _signed(value: float) -> str:
    """Write a number with its sign; one that three digits would hide as a power of ten.

    >>> _signed(0.25), _signed(-4e-6), _signed(0.0)
    ('+0.250', '-4e-06', '0')
    """
    if value == 0:
        return "0"
    return f"{value:+.3f}" if abs(value) >= 5e-4 else f"{value:+.0e}"


def trust_in(
    request: AttributionRequest,
    scores: Sequence[float],
    words: Sequence[Word],
    *,
    seed: int = 0,
    rankings: int = RANDOM_RANKINGS,
) -> Trust:
    """Measure a ranking of a text's words, and random ones.

    Args:
        request: A batch of this one text, and its target.
        scores: One for each of ``words``; the highest come first.
        words: What is ranked; tokens that belong to none always stay.
        seed: Of the random rankings.
        rankings: How many of these.
    """
    random = torch.rand(
        rankings, len(words), generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )  # (ranking, word)
    every = torch.cat([torch.tensor([list(scores)], dtype=torch.float64).view(1, len(words)), random])
    ranked, special = _on_tokens(every, words, request.trace.mask.shape[1])
    device = request.trace.mask.device
    found = erasure(request, ranked[:, None].to(device), special[None].to(device), title="how far to trust it")
    more, less = found.comprehensiveness[:, 0], -found.sufficiency[:, 0]
    return Trust(_beside_random(more, 1), _beside_random(less, -1), rankings)


def _on_tokens(
    scores: Float[Tensor, "ranking word"], words: Sequence[Word], tokens: int
) -> tuple[Float[Tensor, "ranking token"], Tensor]:
    """Give every token the score of its word; tell which tokens have none."""
    ranked = torch.zeros(len(scores), tokens, dtype=torch.float64)
    special = torch.ones(tokens, dtype=torch.bool)
    for number, word in enumerate(words):
        places = list(word.tokens)
        ranked[:, places] = scores[:, number : number + 1]
        special[places] = False
    return ranked, special


def _beside_random(found: Float[Tensor, " ranking"], sign: int) -> BesideRandom:
    """Compare the first with the others; larger is better, and ``sign`` brings back the measure itself."""
    value, random = float(found[0]), found[1:]
    mean = float(random.mean()) if len(random) else float("nan")
    return BesideRandom(sign * value, sign * mean, int((value > random + _ROUNDING).sum()))
