"""Run generated cases of every kind and print what was refused, accepted, and went wrong.

    python scripts/fuzz.py                        # 10 000 cases; ends with 1 if any of them failed
    python scripts/fuzz.py --cases 500 --seed 3 tensors files

A kind is a module of ``tests/fuzz`` with ``cases(count, seed)`` and ``check(case)``, which returns what went wrong or
None. The same seed gives the same cases; a failure is printed with its case.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
SHARES = {"files": 0.3, "texts": 0.1, "tensors": 0.3, "checkpoints": 0.1, "overrides": 0.2}
"""Kind → its part of all cases: the dearer, the fewer."""
SHOWN = 10


@dataclass
class Outcome:
    """What came of one kind; ``refused`` is None where the kind does not count."""

    kind: str
    cases: int = 0
    refused: int | None = None
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)


def load(kind: str) -> ModuleType | None:
    """Return the module of a kind; None: there is none yet."""
    return importlib.import_module(f"fuzz.{kind}") if (ROOT / "tests" / "fuzz" / f"{kind}.py").is_file() else None


def run(kind: str, module: ModuleType, count: int, seed: int) -> Outcome:
    """Check every case of a kind, and show how far it has got."""
    from fuzz import lines

    outcome = Outcome(kind)
    print(f"{kind}: {count} cases", file=sys.stderr)
    before = lines.refusals
    started = time.perf_counter()
    for case in module.cases(count, seed):
        outcome.cases += 1
        try:
            problem = module.check(case)
        except Exception as error:  # what nobody expected is what is looked for
            problem = f"{type(error).__name__}: {str(error)[:200]}"
        if problem is not None:
            outcome.failures.append(f"{kind} {str(case)[:500]}: {problem}")
        if sys.stderr.isatty() and outcome.cases % 20 == 0:
            print(f"\r{kind} {outcome.cases} of {count}", end="", file=sys.stderr)
    outcome.seconds = time.perf_counter() - started
    outcome.refused = lines.refusals - before or None
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """Write a line for each kind."""
    lines = [f"\n{'kind':<12}{'cases':>8}{'refused':>9}{'accepted':>10}{'failures':>10}{'seconds':>9}"]
    for outcome in outcomes:
        accepted = "" if outcome.refused is None else outcome.cases - outcome.refused - len(outcome.failures)
        refused = "" if outcome.refused is None else outcome.refused
        lines.append(
            f"{outcome.kind:<12}{outcome.cases:>8}{refused:>9}{accepted:>10}{len(outcome.failures):>10}{outcome.seconds:>9.0f}"
        )
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description="Run generated cases: files, texts, tensors, checkpoints, overrides.")
    options.add_argument("kinds", nargs="*", metavar="kind", help=f"any of {', '.join(SHARES)}; all by default")
    options.add_argument("--cases", type=int, default=10_000, help="how many, of all kinds together")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    sys.path.insert(0, str(ROOT / "tests"))
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    kinds = chosen.kinds or list(SHARES)
    unknown = [kind for kind in kinds if kind not in SHARES]
    if unknown:
        options.error(f"no such kind: {', '.join(unknown)}; choose from {', '.join(SHARES)}")
    whole = sum(SHARES[kind] for kind in kinds)
    outcomes = []
    for kind in kinds:
        module = load(kind)
        if module is None:
            print(f"{kind}: no tests/fuzz/{kind}.py", file=sys.stderr)
            continue
        outcomes.append(run(kind, module, round(chosen.cases * SHARES[kind] / whole), chosen.seed))
        for failure in outcomes[-1].failures[:SHOWN]:
            print(failure)
    print(table(outcomes))
    return 1 if any(outcome.failures for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
