"""What every kind shares: a refusal is one short line that a terminal can show; how many there were is counted."""

LONGEST_LINE = 1200
refusals = 0


def problem_with(error: Exception) -> str | None:
    """Say what is wrong with a refusal; None: it is as it should be."""
    global refusals
    refusals += 1
    line = str(error)
    if not line or not line.isprintable():
        return f"not one line: {line[:LONGEST_LINE]!r}"
    return f"{len(line)} characters: {line[:100]!r}" if len(line) > LONGEST_LINE else None
