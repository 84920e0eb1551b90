"""Look every pinned version up in the database of known vulnerabilities, with pip-audit in an environment of its own.

    python scripts/audit.py constraints.txt

Ends with 1 if something is found. Where the database cannot be reached it says so and ends with 0: a machine without a
network can still check a change. pip-audit itself says "No known vulnerabilities found" where it could look up nothing,
so what it skipped is counted here.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

REQUIREMENT = "pip-audit>=2.10,<3"
OPTIONS = ["--no-deps", "--disable-pip", "--progress-spinner=off", "--timeout=10", "--format=json"]


def verdict(dependencies: list[dict[str, Any]]) -> tuple[int, str]:
    """Return the exit code and what to say of pip-audit's report."""
    skipped = [entry["name"] for entry in dependencies if "skip_reason" in entry]
    found = [
        f"{entry['name']} {entry['version']}: {problem['id']}, fixed in {' or '.join(problem['fix_versions'])}"
        for entry in dependencies
        for problem in entry.get("vulns", [])
    ]
    if found:
        return 1, "known vulnerabilities:\n  " + "\n  ".join(found)
    looked_up = len(dependencies) - len(skipped)
    if looked_up == 0:
        return 0, "not audited: the database of known vulnerabilities could not be reached"
    unknown = f"; not in the database: {', '.join(skipped)}" if skipped else ""
    return 0, f"{looked_up} versions without a known vulnerability{unknown}"


def audit(constraints: Path) -> tuple[list[dict[str, Any]], str]:
    """Return what pip-audit found of each version, and the last line of what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        venv.create(Path(folder) / "venv", with_pip=True)
        python = str(Path(folder) / "venv" / "bin" / "python")
        commands = [
            [python, "-m", "pip", "install", "--quiet", REQUIREMENT],
            [python, "-m", "pip_audit", "--requirement", str(constraints), *OPTIONS, "--output", str(report)],
        ]
        for command in commands:
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode and not report.is_file():
                return [], (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return json.loads(report.read_text(encoding="utf-8"))["dependencies"], ""


def main() -> int:
    dependencies, problem = audit(Path(sys.argv[1]))
    code, words = verdict(dependencies)
    print(f"audit of {sys.argv[1]}: {words}{f' ({problem})' if problem else ''}")
    return code


if __name__ == "__main__":
    sys.exit(main())
