"""Measure what the pages of findings say, and write their tables.

    python scripts/findings --data path/to/data                 # all that is missing; hours on a CPU
    python scripts/findings --data path/to/data main-paper      # one page
    python scripts/findings --data path/to/data main-paper:mrpc-1 main-paper:rte-1
    python scripts/findings --data path/to/data --again league             # also what is kept, as make league does
    python scripts/findings --tables                            # only write the tables, from the numbers that are kept
    python scripts/findings --list

The folder of data has ``glue``, ``treebank``, ``wiki``, ``agreement`` and ``pronouns`` in it, as far as a page needs
them. What was measured is kept (see ``page.py``), so a stopped run is begun again by the same command.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from page import ROOT, Page, Place
from pages import PAGES

from effective_attention.io import write_text

WORK = Path("runs/findings")


def wanted(names: list[str]) -> list[tuple[Page, list[str]]]:
    """Return the pages to measure, and which of their parts."""
    if not names:
        return [(page, list(page.parts)) for page in PAGES]
    found = []
    for name in names:
        about, _, part = name.partition(":")
        page = next((page for page in PAGES if page.name == about), None)
        if page is None:
            sys.exit(f"{about} is no page; choose from {', '.join(page.name for page in PAGES)}")
        if part and part not in page.parts:
            sys.exit(f"{part} is no part of {about}; choose from {', '.join(page.parts)}")
        found.append((page, [part] if part else list(page.parts)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="page", help="a page, or page:part; default: all")
    parser.add_argument("--data", type=Path, help="folder with glue, treebank, wiki, agreement, pronouns")
    parser.add_argument("--work", type=Path, default=WORK, help="where runs go (%(default)s)")
    parser.add_argument("--options", nargs="+", default=[], help="for every command, such as trainer=gpu")
    parser.add_argument(
        "--again", action="store_true", help="measure what is kept, too; runs in --work are not repeated"
    )
    parser.add_argument("--tables", action="store_true", help="measure nothing, only write the tables")
    parser.add_argument("--list", action="store_true", help="list pages and parts, and what is kept")
    options = parser.parse_args()
    chosen = wanted(options.pages)
    if options.list:
        listed(chosen)
        return
    if not options.tables:
        if options.data is None or not options.data.is_dir():
            parser.error("--data must be the folder with glue, treebank, wiki, agreement and pronouns in it")
        place = Place(options.data.resolve(), options.work.resolve(), tuple(options.options))
        for page, parts in chosen:
            page.measure_parts(parts, place, again=options.again)
    for page, _ in chosen:
        page.draw()
        write_text(page.file, page.written())
        print(f"wrote {page.file.relative_to(ROOT)}")


def listed(chosen: list[tuple[Page, list[str]]]) -> None:
    """Print the parts, and which of them are missing."""
    for page, parts in chosen:
        for part in parts:
            print(f"{page.name}:{part}{'' if page.kept(part).exists() else ' (missing)'}")


if __name__ == "__main__":
    main()
