"""An explanation as HTML: for a notebook, and as a page of its own that runs nothing and fetches nothing."""

from __future__ import annotations

import math
from html import escape

from effective_attention.attributions.erasure import SHARES
from effective_attention.attributions.explanation import Explanation
from effective_attention.attributions.highlight import AGAINST, FOR, highlighted, look_of, strengths
from effective_attention.policy import content_policy

MOST_BARS = 20
_MOST_DECIMALS = 6
_SOFT = "opacity: .75; font-size: .9em"
_STYLE = """
:root { color-scheme: light dark; }
body { max-width: 50rem; margin: 0 auto; padding: 1rem 1rem 3rem; font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.4rem; line-height: 1.25; margin: .6rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 1.8rem 0 .4rem; }
table.bars { width: 100%; border-collapse: collapse; table-layout: fixed; }
.bars td { padding: .12rem .4rem; vertical-align: middle; }
.bars .word { width: 8rem; text-align: right; overflow-wrap: anywhere; }
.bars .number { width: 5rem; text-align: right; font-variant-numeric: tabular-nums; font-size: .9em; }
.bars .bar { position: relative; padding: 0; }
.bars i { display: block; height: 1em; border-radius: .15em; }
.bars .zero::before { content: ""; position: absolute; inset: 0 auto 0 var(--zero); border-left: 1px solid #888; }
.bars .sides { padding: 0 0 .2rem; font-size: .85em; opacity: .75; white-space: nowrap; }
.sides span + span { float: right; }
"""


def page_of(explanation: Explanation) -> str:
    """Build the whole page."""
    title = escape(f"Why {explanation.target}?" if not explanation.is_regression else "Why this score?")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{content_policy(None, images="data:")}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{title}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body_of(explanation)}\n"
        f"<h2>The strongest words</h2>\n{_bars(explanation)}\n</body>\n</html>\n"
    )


def body_of(explanation: Explanation) -> str:
    """Build what a notebook shows: prediction, highlighted text, legend, and how far to trust it."""
    asked = ""
    if explanation.target != explanation.predicted:
        asked = f", explained is {explanation.target} (probability {explanation.target_probability:.3f})"
    parts = [
        f"<div><strong>{escape(explanation.prediction)}</strong>{escape(asked)}</div>",
        highlighted(explanation.texts, explanation.words, explanation.scores),
        f'<div style="{_SOFT}">{_legend(explanation)}</div>',
        _trust(explanation),
    ]
    return f'<div class="explanation">{"".join(parts)}</div>'


def _legend(explanation: Explanation) -> str:
    target = "a higher score" if explanation.is_regression else explanation.target
    signed = any(score < 0 for score in explanation.scores)
    said = f"speaks for {target}" if signed else f"matters for {target}"
    legend = f"{escape(explanation.made_with)}: {_swatch(1)} {escape(said)}"
    legend += f", {_swatch(-1)} speaks against it" if signed else ""
    return legend + ("; the model was given no more than it can take, the rest has no colour" * explanation.is_cut)


def _swatch(strength: float) -> str:
    name = "blue" if strength > 0 else "orange, underlined"
    return f'<span style="{look_of(strength)}; padding: .1em .35em">{name}</span>'


def _trust(explanation: Explanation) -> str:
    trust = explanation.trust
    lost = "the score" if explanation.is_regression else f"the probability of {explanation.target}"
    sizes = ", ".join(f"{100 * share:g}" for share in SHARES)
    cell = "padding: .15em .7em .15em 0; text-align: {}; vertical-align: top; font-variant-numeric: tabular-nums"
    head = ("what is lost", "these words", "random words", "better than")

    def line(tag: str, cells: tuple[str, ...], wrap: str) -> str:
        sides = ("left", *[f"right; white-space: {wrap}"] * 3)
        made = [
            f'<{tag} style="{cell.format(side)}">{escape(text)}</{tag}>'
            for side, text in zip(sides, cells, strict=True)
        ]
        return f"<tr>{''.join(made)}</tr>"

    rows = line("th", head, "normal") + "".join(line("td", row, "nowrap") for row in trust.rows())
    return (
        f'<div style="margin-top: .8em"><strong>How far to trust this.</strong> {escape(trust.verdict)}</div>'
        f'<table style="border-collapse: collapse; font-size: .9em; margin: .3em 0">{rows}</table>'
        f'<div style="{_SOFT}">Lost is {escape(lost)}: comprehensiveness, without the words ranked highest, and '
        f"sufficiency, with them alone; means over the top {sizes} % of the tokens, of random words over "
        f"{trust.rankings} rankings.</div>"
    )


def _bars(explanation: Explanation) -> str:
    """Draw the strongest words in the order of the text: bars to the right speak for the target, to the left against.

    Zero stands where the longest of both sides find room; without negative scores that is the left edge.
    """
    shares = strengths(explanation.scores, explanation.words)
    strongest = sorted(sorted(range(len(shares)), key=lambda place: -abs(shares[place]))[:MOST_BARS])
    left, right = (max([0.0, *(sign * shares[place] for place in strongest)]) for sign in (-1, 1))
    whole = left + right or 1.0
    written = _as_written([explanation.scores[place] for place in strongest])
    rows = "".join(_bar(explanation, place, shares[place], left, whole, written) for place in strongest)
    sides = f"<span>← against</span><span>{'for →' if right else ''}</span>"
    head = f'<thead><tr><td class="word"><td class="sides">{sides}<td class="number"></tr></thead>' if left else ""
    return f'<table class="bars" style="--zero: {100 * left / whole:.1f}%">{head}<tbody>{rows}</tbody></table>'


def _as_written(scores: list[float]) -> str:
    """Return the format of all scores, by which their points stand in line: the largest has three digits."""
    largest = max((abs(score) for score in scores), default=0.0)
    decimals = 2 - math.floor(math.log10(largest)) if largest > 0 else 0
    return f"+.{max(0, decimals)}f" if decimals <= _MOST_DECIMALS else "+.2e"


def _bar(explanation: Explanation, place: int, share: float, left: float, whole: float, written: str) -> str:
    """Draw the row of one word; ``left`` is the room left of zero, ``whole`` that of both sides."""
    start = 100 * (left + min(share, 0.0)) / whole
    look = f"margin-left: {start:.1f}%; width: {100 * abs(share) / whole:.1f}%; "
    look += f"background: rgb({FOR if share > 0 else AGAINST})"
    number = format(explanation.scores[place], written).replace("-", "\N{MINUS SIGN}")
    return (
        f'<tr><td class="word">{escape(explanation.words[place].text)}</td>'
        f'<td class="bar{" zero" if left > 0 else ""}"><i style="{look}"></i></td>'
        f'<td class="number">{number}</td></tr>'
    )
