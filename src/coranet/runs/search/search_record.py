"""What was searched, on which cases, and what came of it: search.json in the folder of a comparison.

`notes` in it are what a page says of the search, in words.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from coranet.errors import InputError
from coranet.files import write_atomically
from coranet.json_files import read_object
from coranet.runs.search.ranking import ranked

RECORD = "search.json"
NOTES = "notes"
_SHOWN = 5
"""Rows of a round that the page names; search.json has all."""


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

    @classmethod
    def read(cls, out: Path) -> SearchRecord | None:
        """From the folder of a comparison; None where nothing was searched.

        Raises:
            InputError: search.json is broken.
        """
        file, way_out = out / RECORD, "Delete it, and give the command that made it again"
        if not file.exists():
            return None
        try:
            return cls(**{name: value for name, value in read_object(file, way_out).items() if name != NOTES})
        except TypeError as error:
            raise InputError(f"{file}: is no record of a search ({error}). {way_out}.") from error

    def begun(self, out: Path) -> SearchRecord:
        """The same search as the folder has it, where it was begun before.

        Raises:
            InputError: the folder holds another search, or a comparison without one.
        """
        kept = SearchRecord.read(out)
        if kept is None:
            if any(out.glob("*/run.json")):
                raise InputError(f"{out}: holds runs that were begun without this search. Use another --out.")
            return self
        mine = json.loads(json.dumps(asdict(self)))
        for name in ("how", "varied", "asked"):
            if getattr(kept, name) != mine[name]:
                was = f"{getattr(kept, name)}, now {mine[name]}"
                raise InputError(f"{out}: was begun with another search ({was}). Use the same, or another --out.")
        return kept

    def write(self, out: Path) -> None:
        """To search.json."""
        content = {**asdict(self), NOTES: self.notes()}
        write_atomically(out / RECORD, (json.dumps(content, indent=1) + "\n").encode())

    def with_round(self, **facts: Any) -> SearchRecord:
        """With what one more round found."""
        return replace(self, rounds=[*self.rounds, facts])

    def notes(self) -> list[str]:
        """For the reader of the page."""
        cases = sorted({case for some in self.validation.values() for case in some})
        lines = [f"Searched by {self.how}: {self.varied or 'the methods as they are'}."]
        lines += [_said(one["step"], one["dice"]) for one in self.rounds]
        if cases:
            lines.append(f"Numbers are the Dice of validation cases, a seed each: {', '.join(cases)}.")
        if self.how == "optuna" and self.rounds:
            lines.append("How trials did one after the other, and which field mattered: search.png, beside this page.")
        if self.chosen is None:
            return [*lines, "No row is chosen yet. The command that began the search, given again, goes on with it."]
        return [*lines, f"Chosen by these alone: {self.chosen}. No test case was looked at before."]


def _said(step: int, dice: dict[str, list[float]]) -> str:
    best = ranked(dice)
    rows = [f"{row} {' '.join(f'{value:.3f}' for value in dice[row])}" for row in best[:_SHOWN]]
    rows += [f"and {len(best) - _SHOWN} that did worse"] if len(best) > _SHOWN else []
    return f"At step {step}: {', '.join(rows)}."
