"""What became of attacks, as a table for a page and as lines for a person."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.attacks.attack import Outcome

COLUMNS = (
    "attacks on",
    "tried",
    "refused in one line",
    "accepted",
    "bad",
    "skipped",
    "most memory (MB)",
    "longest (s)",
)
SHOWN = 12
"""Bad ones of a kind that are listed."""


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """A row for each kind, and one for all."""
    kinds = list(dict.fromkeys(outcome.trial.kind for outcome in outcomes))
    parts = [(kind, [outcome for outcome in outcomes if outcome.trial.kind == kind]) for kind in sorted(kinds)]
    return [_row(kind, part) for kind, part in (*parts, ("all", list(outcomes)))]


def _row(kind: str, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    fates = [outcome.fate for outcome in outcomes]
    counts = [len(outcomes), *(fates.count(fate) for fate in ("refused", "accepted", "bad", "skipped"))]
    most, longest = (max((getattr(one, name) for one in outcomes), default=0.0) for name in ("megabytes", "seconds"))
    return kind, *(f"{count:,}" for count in counts), f"{most:,.0f}", f"{longest:.1f}"


def as_markdown(outcomes: Sequence[Outcome], command: str) -> str:
    """The table, with all that it depends on."""
    lines = [COLUMNS, ("---", *("---:" for _ in COLUMNS[1:])), *rows(outcomes)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n`{command}`, commit {commit()}, {device()}, {time.strftime('%Y-%m-%d')}.\n"


def as_text(outcomes: Sequence[Outcome]) -> str:
    """The table for a terminal."""
    lines = [COLUMNS, *rows(outcomes)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(COLUMNS))]
    return "".join(
        "  ".join(
            cell.ljust(width) if not place else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + "\n"
        for line in lines
    )


def bad_ones(outcomes: Iterable[Outcome], most: int = SHOWN) -> str:
    """The first bad ones of each kind, with the command that repeats one."""
    bad = [outcome for outcome in outcomes if outcome.fate == "bad"]
    lines, shown = [], dict[str, int]()
    for one in sorted(bad, key=lambda one: one.trial):
        shown[one.trial.kind] = shown.get(one.trial.kind, 0) + 1
        if shown[one.trial.kind] <= most:
            lines.append(f"{one.trial}  {one.what}\n    {one.reason}\n")
    if bad:
        lines.append(f"Repeat one with: python -m tests.attacks --repeat '{min(one.trial for one in bad)}'\n")
    return "".join(lines)


def commit() -> str:
    """Of the checkout, with a mark where it was changed since."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        told = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()


def device() -> str:
    """What the attacks ran on."""
    import os

    return f"{len(os.sched_getaffinity(0))} cores ({platform.machine()}), Python {platform.python_version()}"
