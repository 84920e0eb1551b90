"""Models that pip fetches: which there are, and fetch one before it is needed.

``python -m effective_attention.models list`` and ``python -m effective_attention.models fetch smollm2``
"""

from __future__ import annotations

import argparse
import logging
import sys

from effective_attention.errors import UserError
from effective_attention.models.packaged.catalogue import PACKAGED
from effective_attention.models.packaged.fetching import fetch, is_whole, packaged_folder


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m effective_attention.models", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="say which models there are, and whether they are in the cache")
    fetching = commands.add_parser("fetch", help="fetch a model into the cache, after a question; print its folder")
    fetching.add_argument("name", choices=[*PACKAGED])
    fetching.add_argument("--yes", action="store_true", help="do not ask")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        print_list() if options.command == "list" else print(fetch(options.name, agree=True if options.yes else None))
    except (UserError, OSError) as error:  # the latter: a full disk, a folder of somebody else's
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped by SIGINT; nothing was kept")


def print_list() -> None:
    """Print one line a model."""
    for name, model in PACKAGED.items():
        folder = packaged_folder(name)
        state = f"in {folder}" if is_whole(model, folder) else f"not here; {model.download / 1e6:.0f} MB to fetch"
        print(f"{name:11} {model.title}, {model.licence}: {state}")


if __name__ == "__main__":
    main()
