"""What happens while the page is open: scans are predicted, prepared and put in order, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isnan
from pathlib import Path
from typing import Any

from coranet.data.datasets.folder import Case
from coranet.errors import InputError
from coranet.evaluation.quality import read_qualities
from coranet.files import make_folder
from coranet.review.corrections_folder import CorrectionsFolder
from coranet.review.prediction_maker import PredictionMaker
from coranet.review.prepared_case import CaseOverview, PreparedCase


@dataclass(kw_only=True)
class Workshop:
    """The cases under review. One thread makes what is missing; others ask how far it is."""

    cases: Mapping[str, Case]
    predictions: Path
    corrections: CorrectionsFolder
    maker: Callable[[], PredictionMaker] | None = None
    """Gives what makes predictions, where some may be missing."""
    problems: dict[str, str] = field(default_factory=dict)
    """Of cases that cannot be used."""
    ready: dict[str, CaseOverview] = field(default_factory=dict)
    """Of cases that can be opened, without their pieces: of hundreds of scans these would fill memory."""
    busy: str = ""
    """The case that is being made."""

    def prepared(self, name: str) -> PreparedCase:
        """The files of a case."""
        return PreparedCase(
            case=self.cases[name],
            predictions=self.predictions,
            cache=self.corrections.root / ".cache" / name,
            classes=self.corrections.classes,
        )

    def facts(self, name: str) -> CaseOverview | None:
        """Of a case that is ready, with its pieces; None too where its files have changed since."""
        return self.prepared(name).facts() if name in self.ready else None

    def work(self, stop: threading.Event) -> None:
        """Predict and prepare every case that is not ready; what cannot be done is noted, and the next one follows."""
        make_folder(self.corrections.root / ".cache")
        maker = self.maker() if self.maker else None
        for name in self.cases:
            if stop.is_set():
                return
            self.busy = name
            try:
                files = self.prepared(name)
                if maker:
                    maker.make(files.case)
                elif not files.is_predicted:
                    raise InputError(
                        f"{self.predictions}: has no prediction of it. Leave out --predictions to have it made."
                    )
                self.ready[name] = replace(files.facts() or files.make(), pieces=())
            except InputError as error:
                self.problems[name] = str(error)
            except (OSError, MemoryError, RuntimeError, ValueError, LookupError, ArithmeticError) as error:
                self.problems[name] = f"{name}: could not be prepared ({error}). Check the scan and the disk."
        if maker:
            maker.finish()
        self.busy = ""

    def queue(self) -> list[dict[str, Any]]:
        """All cases, those that are expected to be worst first; those that are not ready come last."""
        expected = read_expected(self.predictions)
        rows = [self._row(name, expected.get(name, {})) for name in self.cases]
        return sorted(rows, key=lambda row: (not row["ready"], row["order"], row["name"]))

    def _row(self, name: str, expected: Mapping[str, Any]) -> dict[str, Any]:
        facts = self.ready.get(name)
        try:
            note, problem = self.corrections.note(name), self.problems.get(name, "")
        except InputError as error:
            note, problem = {"status": "to do"}, str(error)
        order = expected.get("expected_dice", 1 - facts.share if facts else 0.0)
        return {
            "name": name,
            "ready": facts is not None,
            "problem": problem,
            "status": note["status"],
            "seconds": note.get("seconds", 0),
            "changed": note.get("changed", 0),
            "share": facts.share if facts else None,
            "millilitres": facts.millilitres if facts else {},
            "order": order,
            "expected": expected,
        }


def read_expected(predictions: Path) -> dict[str, dict[str, Any]]:
    """What `cases.csv` says of whole cases: expected Dice, its interval and flags; nothing where there is none."""
    try:
        rows = [row for row in read_qualities(predictions) if row.whole]
    except InputError:  # not there yet, or someone else's: cases are in order by what is uncertain
        return {}
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        numbers = {"expected_dice": row.expected, "low": row.low, "high": row.high}
        known = {name: number for name, number in numbers.items() if not isnan(number)}
        found[row.case] = {**known, "flags": list(row.flags)}
    return found
