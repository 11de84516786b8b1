"""What was searched, on which cases, and what came of it: search.json in the folder of a comparison."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from coranet.errors import InputError
from coranet.files import write_atomically
from coranet.json_files import read_object
from coranet.runs.comparison import SETTINGS

RECORD = "search.json"


@dataclass(frozen=True, kw_only=True)
class SearchRecord:
    """A search, as far as it has come."""

    how: str
    """`halving` or `optuna`."""
    varied: str
    """Fields and their values, in words."""
    asked: dict[str, Any]
    """What the search was begun with, and goes on with."""
    validation: dict[str, list[str]] = field(default_factory=dict)
    """The cases that rows were judged by, for each seed. No others were."""
    rounds: list[dict[str, Any]] = field(default_factory=list)
    """For each: the step, the Dice of every row by seed, what failed, and which rows were kept."""
    chosen: str | None = None

    def begun(self, out: Path) -> SearchRecord:
        """The same search as the folder has it, where it was begun before.

        Raises:
            InputError: the folder holds another search, or a comparison without one.
        """
        file = out / RECORD
        if not file.exists():
            if (out / SETTINGS).exists() and any(out.glob("*/run.json")):
                raise InputError(f"{out}: holds runs that were begun without this search. Use another --out.")
            return self
        kept = SearchRecord(**read_object(file, "Delete it, and give the same command again"))
        mine = json.loads(json.dumps(asdict(self)))
        for name in ("how", "varied", "asked"):
            if getattr(kept, name) != mine[name]:
                was = f"{getattr(kept, name)}, now {mine[name]}"
                raise InputError(f"{out}: was begun with another search ({was}). Use the same, or another --out.")
        return kept

    def write(self, out: Path) -> None:
        """To search.json."""
        write_atomically(out / RECORD, (json.dumps(asdict(self), indent=1) + "\n").encode())

    def with_round(self, **facts: Any) -> SearchRecord:
        """With what one more round found."""
        return replace(self, rounds=[*self.rounds, facts])

    def notes(self) -> list[str]:
        """For the reader of the page."""
        cases = sorted({case for some in self.validation.values() for case in some})
        lines = [f"Searched by {self.how}: {self.varied or 'the methods as they are'}."]
        lines += [
            f"At step {one['step']}: "
            + ", ".join(f"{row} {' '.join(f'{value:.3f}' for value in dice)}" for row, dice in one["dice"].items())
            for one in self.rounds
        ]
        lines.append(f"Numbers are the Dice of validation cases, a seed each: {', '.join(cases)}.")
        if self.how == "optuna":
            lines.append("How trials did one after the other, and which field mattered: search.png, beside this page.")
        return [*lines, f"Chosen by these alone: {self.chosen}. No test case was looked at before."]
