"""Run every benchmark, and write what they print, with commands and machine, to benchmarks/RESULTS.md.

    make bench                                     # some hours on two cores: run it on a quiet machine
    python benchmarks/run_all.py training gather   # only some; the others' results stay as they are

Each runs in a process of its own, one after the other. What it printed replaces its section of the file, with the day
on which it ran; a benchmark that fails keeps its old section, and the command ends with an error.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"
COMMANDS = {
    "training": ("Training beside transformers' Trainer", "training.py"),
    "mixed_precision": ("Training in bfloat16", "mixed_precision.py"),
    "effective_overhead": ("Effective attention in a whole model", "effective_overhead.py --layers 2 --rounds 9"),
    "lengths": ("Effective attention at any length", "lengths.py"),
    "real_models": ("Effective attention in real models", "lengths.py --models smollm2 mpnet_base"),
    "long_texts": ("Memory of long texts", "long_texts.py"),
    "analysis_overhead": ("Analyses in one pass", "analysis_overhead.py"),
    "memory": ("Peak memory on ten times the examples", "analysis_overhead.py --memory"),
    "flow": ("Attention flow", "flow.py --tokens 32 --layers 6 --rounds 5"),
    "compiled_loops": ("Compiled loops", "compiled_loops.py"),
    "identified": ("Intervals of attention weights", "identified.py"),
    "token_mixing": ("Hidden token attribution", "token_mixing.py --texts 3 --rounds 1"),
    "costs": ("What an example costs", "costs.py"),
    "gather": ("Gathering 1 000 runs", "gather.py"),
    "first_use": ("First use on a fresh machine", "first_use.py"),
    "help_time": ("Time to --help", "help_time.py"),
}
HEAD = """# Results of the benchmarks

Written by `make bench`; ratios, measured in turns. Absolute times, where there are any, are the machine's.
"""


def machine() -> str:
    """Describe the machine and the versions that matter."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else []
    processor = names[0] if names else platform.processor() or platform.machine()
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "pytorch-lightning", "numba"))
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{processor}, {os.cpu_count()} cores, load {busy:.1f}; Python {platform.python_version()}, {packages}"


def sections(text: str) -> dict[str, str]:
    """Read the sections of an earlier file, by name."""
    parts = re.split(r"^<!-- (\w+) -->\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))


def run(name: str) -> str | None:
    """Run one benchmark; return its section, or None if it failed."""
    title, command = COMMANDS[name]
    print(f"== {name}: {title}", flush=True)
    before = machine()
    script, *options = command.split()
    call = [sys.executable, str(HERE / script), *options]
    done = subprocess.run(call, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(f"{name} failed; its earlier result stays", file=sys.stderr)
        return None
    lines = [line for line in done.stdout.splitlines() if line.strip() and "━" not in line]
    tables = [number for number, line in enumerate(lines) if line.startswith("---|")]
    body = "\n".join(lines[tables[0] - 1 :] if tables else ["```", *lines, "```"])  # what came before was progress
    print(body, flush=True)
    told = f"`python benchmarks/{command}`, {datetime.date.today()}, {before}."
    return f"## {title}\n\n{told}\n\n{body}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(COMMANDS)}; all by default")
    chosen = parser.parse_args().names or list(COMMANDS)
    unknown = [name for name in chosen if name not in COMMANDS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(COMMANDS)}")
    known = sections(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    failed = 0
    for name in chosen:
        section = run(name)
        failed += section is None
        if section is not None:
            known[name] = section
            ordered = [f"<!-- {key} -->\n{known[key]}\n" for key in COMMANDS if key in known]
            RESULTS.write_text("\n".join([HEAD, *ordered]), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
