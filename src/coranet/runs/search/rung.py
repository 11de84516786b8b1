"""A rung: rows that are trained up to the same step and judged there, by validation cases alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from coranet.json_files import read_object
from coranet.runs.comparison import Compare, Job

Attempt = Callable[[Compare], dict[str, str]]
"""Runs what is not finished of a comparison; returns the errors by row, as `jobs.attempt_all` does."""


class RungScores(NamedTuple):
    """What came of a rung."""

    dice: dict[str, list[float]]
    """The mean Dice of validation cases, for each seed, by row."""
    failed: dict[str, str]
    """Errors by row."""


@dataclass(frozen=True, kw_only=True)
class Rung(Compare):
    """A comparison that pauses, and is finished where validation cases were scored at that step."""

    @classmethod
    def of(cls, compare: Compare, rows: Sequence[str], step: int) -> Rung:
        """Some rows of a comparison, up to a step."""
        return cls(**(vars(compare) | {"rows": tuple(rows), "until": step}))

    def finished(self, job: Job) -> bool:
        """Whether its validation cases were scored."""
        return self.dice_of(job) is not None

    def dice_of(self, job: Job) -> float | None:
        """Of validation cases at that step, as the log of the run says."""
        found = [line["val"]["mean"] for line in _log(self.folder(job)) if line["step"] == self.until and line["val"]]
        return float(found[-1]) if found else None

    def judge(self, attempt: Attempt) -> RungScores:
        """Train what is not there yet, and read how it did."""
        failed, dice = attempt(self), dict[str, list[float]]()
        for row in (row for row in self.rows if row not in failed):
            found = [value for seed in range(self.seeds) if (value := self.dice_of(Job(row, seed))) is not None]
            if len(found) == self.seeds:
                dice[row] = found
            else:
                failed[row] = f"was trained past step {self.until} before it was judged there. Use another --out."
        return RungScores(dice, failed)

    def validation_cases(self) -> dict[str, list[str]]:
        """Whom rows were judged by, for each seed: without a file of a split, each seed draws its own."""
        files = {
            str(seed): next((file for row in self.rows if (file := self._settings_of(row, seed)).exists()), None)
            for seed in range(self.seeds)
        }
        way_out = "Start anew, in another --out"
        return {seed: list(read_object(file, way_out)["split"]["val"]) for seed, file in files.items() if file}

    def _settings_of(self, row: str, seed: int) -> Path:
        return self.folder(Job(row, seed)) / "run.json"


def _log(folder: Path) -> list[dict[str, Any]]:
    """The lines of log.jsonl; one that is being written has no end yet."""
    file = folder / "log.jsonl"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
