"""The tables of the page on identifiability, made of the numbers that ``identifiability.py`` keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from page import Numbers, interval, markdown

from effective_attention.reports.papers.brunner2020 import (
    BRUNNER_NOT_LARGEST,
    BRUNNER_OWN,
    BRUNNER_SIZES,
)

LENGTHS = (16, 32, 48, 64, 96, 128)
TYPES = {"cls": "[CLS]", "sep": "[SEP]", "punctuation": "period, comma", "other": "other"}
MAPS = {"naive": "naive", "linear": "linear, closed form", "mlp": "MLP"}
PLACES = ("layer 0, before", "last layer, before", "layer 0, after", "last layer, after")
DISTANCES = {"cosine": "cosine", "l2": "L2"}


def tables(numbers: Mapping[str, Numbers]) -> dict[str, str]:
    """Write the tables of the page; those of parts that are not measured have no rows."""
    seen, maps, sizes, mixed = (numbers.get(part) for part in ("attention", "identity", "size", "mixing"))
    return {
        "correlation": markdown(["tokens", "correlation, mean over heads"], [] if seen is None else correlation(seen)),
        "types": layered("attention to", [] if seen is None else to_types(seen)),
        "sep": layered("attention to [SEP]", [] if seen is None else to_sep(seen)),
        "identity": layered("tokens identified", [] if maps is None else identity(maps)),
        "size": size(sizes),
        "mixing": layered("own contribution", [] if mixed is None else mixing(mixed), "the paper, 12 layers from 1"),
        "tags": markdown(["Penn tag", "tokens", *PLACES], [] if mixed is None else tags(mixed["tags"])),
    }


def layered(what: str, rows: Sequence[Sequence[str]], *more: str) -> str:
    """Write a table with a column for each layer."""
    layers = max((len(row) for row in rows), default=1 + len(more)) - 1 - len(more)
    return markdown([what, *(f"layer {layer}" for layer in range(layers)), *more], rows)


def correlation(found: Numbers) -> list[list[str]]:
    """Return Fig. 1a: by length."""
    return [[length, interval(*found["pearson"][length])] for length in map(str, LENGTHS)]


def to_types(found: Numbers) -> list[list[str]]:
    """Return Fig. 1b and c: from all tokens to each type."""
    return [
        [f"{said}, {kind}", *cells(found["types"][kind]["all"][name])]
        for name, said in TYPES.items()
        for kind in ("standard", "effective")
    ]


def to_sep(found: Numbers) -> list[list[str]]:
    """Return Fig. 5: from [SEP] itself, and from all tokens that are neither delimiter nor period or comma."""
    return [
        [f"from {TYPES[source]}, {kind}", *cells(found["types"][kind][source]["sep"])]
        for source in ("sep", "other")
        for kind in ("standard", "effective")
    ]


def cells(line: Sequence[Sequence[float]]) -> list[str]:
    return [interval(*one, digits=2) for one in line]


def identity(found: Numbers) -> list[list[str]]:
    """Return Fig. 2a, and guessing."""
    rows = [
        [_map(name), *(_rate(line[layer]["1"]) for layer in sorted(line, key=int))]
        for name, line in _in_order(found["rates"])
    ]
    return [*rows, ["guessing", *[f"{found['guess']:.3f}"] * (len(rows[0]) - 1)]]


def size(found: Numbers | None) -> str:
    """Return appendix B.2: by share of the training texts, with the tokens that are in them."""
    if found is None:
        return markdown(["share of the training texts"], [])
    shares = sorted(found["trained"], key=float)
    rows = [["tokens trained on", *(f"{found['trained'][share]:,.0f}" for share in shares)]]
    for name, line in _in_order(found["rates"]):
        rows += [
            [f"{_map(name)}, layer {layer}", *(_rate(at[share]) for share in shares)] for layer, at in line.items()
        ]
    paper = [f"{BRUNNER_SIZES[float(share)]:.2f}" if float(share) in BRUNNER_SIZES else "" for share in shares]
    rows.append(["the paper: MLP, L2, layer 11 of 12 from 1, MRPC", *paper])
    return markdown(["share of the training texts", *(f"{100 * float(share):.0f} %" for share in shares)], rows)


def _in_order(rates: Numbers) -> list[tuple[str, Numbers]]:
    names = [f"{kind} {distance}" for kind in MAPS for distance in DISTANCES]
    return [(name, rates[name]) for name in names if name in rates]


def _map(name: str) -> str:
    kind, distance = name.split()
    return f"{MAPS[kind]}, {DISTANCES[distance]}"


def _rate(found: tuple[float, float, int]) -> str:
    """Write a rate, with its standard deviation where there are several folds."""
    mean, deviation, folds = found
    return f"{mean:.3f} ± {deviation:.3f}" if folds > 1 else f"{mean:.3f}"


def mixing(found: Numbers) -> list[list[str]]:
    """Return Fig. 3 before and after the embeddings' LayerNorm, and the difference."""
    said = {"normalised": "after the LayerNorm", "summed": "before it", "more, summed": "before, less after"}
    paper = {"own": BRUNNER_OWN, "not the largest": BRUNNER_NOT_LARGEST}
    title = {"own": "median own contribution", "not the largest": "share of tokens that are not their largest source"}
    return [
        [
            f"{title[quantity]}, {words}",
            *(interval(*one) for one in found[name][quantity]),
            "" if name.startswith("more") else _printed(paper[quantity]),
        ]
        for quantity in title
        for name, words in said.items()
    ]


def _printed(line: Mapping[int, float]) -> str:
    return ", ".join(f"{value:.3f} (layer {layer})" for layer, value in line.items())


def tags(found: Numbers) -> list[list[str]]:
    """Return Fig. 26 and 37: median and quartiles by tag, the highest of the last layer first."""
    order = sorted(found, key=lambda tag: -found[tag]["summed"][1][0])
    return [
        [
            tag,
            str(found[tag]["tokens"]),
            *(interval(*one) for one in (*found[tag]["summed"], *found[tag]["normalised"])),
        ]
        for tag in order
    ]
