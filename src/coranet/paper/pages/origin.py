"""What a run was made with: its steps and its commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from coranet.report.run_files import read_json


class Origin(NamedTuple):
    """Of one run, or of several in words."""

    steps: str
    commit: str


def origin_of(run: Path) -> Origin:
    """Of one run."""
    content = read_json(run / "run.json")
    return Origin(f"{content['train']['steps']:,}", str(content["made_with"]["commit"]))


def origins_of(runs: Sequence[Path]) -> Origin:
    """Of several, each named once."""
    steps, commits = (sorted(set(each)) for each in zip(*map(origin_of, runs), strict=True))
    return Origin(" or ".join(steps), ", ".join(commits))
