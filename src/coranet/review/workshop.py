"""What happens while the page is open: scans are predicted, prepared and put in order, one after the other."""

from __future__ import annotations

import csv
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coranet.data.datasets.folder import Case
from coranet.engine.prediction.trained import Trained
from coranet.errors import InputError
from coranet.files import make_folder, part_of
from coranet.review.corrections_folder import CorrectionsFolder
from coranet.review.prepared_case import CaseOverview, PreparedCase

TABLE = "cases.csv"
"""Beside predictions: what is expected of each."""


@dataclass(kw_only=True)
class Workshop:
    """The cases under review. One thread makes what is missing; others ask how far it is."""

    cases: Mapping[str, Case]
    predictions: Path
    corrections: CorrectionsFolder
    trained: Callable[[], Trained] | None = None
    """Loads what predicts, where predictions may be missing."""
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
        trained: Trained | None = None
        for name in self.cases:
            if stop.is_set():
                return
            self.busy = name
            try:
                files = self.prepared(name)
                if not files.is_predicted:
                    trained = trained or self._load()
                    self._predict(trained, files.case)
                self.ready[name] = replace(files.facts() or files.make(), pieces=())
            except InputError as error:
                self.problems[name] = str(error)
            except (OSError, MemoryError, RuntimeError) as error:
                self.problems[name] = f"{name}: could not be prepared ({error}). Check the scan and the disk."
        self.busy = ""

    def _load(self) -> Trained:
        if self.trained is None:
            raise InputError(f"{self.predictions}: has no prediction of it. Leave out --predictions to have it made.")
        return self.trained()

    def _predict(self, trained: Trained, case: Case) -> None:
        """Write a prediction with its maps, the label last: where it is, the case is finished."""
        volumes = [image.read() for image in case.images]
        answer = trained.predict_volumes(volumes)
        aside = part_of(self.predictions / case.name)
        make_folder(aside)
        try:
            answer.write(aside, case.name, volumes[0].geometry, flat=volumes[0].flat, masks=True)
            for file in sorted(aside.iterdir(), key=lambda file: file.name == f"{case.name}.nii.gz"):
                file.replace(self.predictions / file.name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def queue(self) -> list[dict[str, Any]]:
        """All cases, those that are expected to be worst first; those that are not ready come last."""
        expected = read_expected(self.predictions / TABLE)
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


def read_expected(table: Path) -> dict[str, dict[str, Any]]:
    """What `cases.csv` says of whole cases: expected Dice, its interval and flags; nothing where there is none."""
    if not table.exists():
        return {}
    found: dict[str, dict[str, Any]] = {}
    with table.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row.get("class") != "all":
                continue
            numbers = {
                name: number
                for name in ("expected_dice", "low", "high")
                if (number := _number(row.get(name))) is not None
            }
            found[str(row.get("case"))] = {**numbers, "flags": _flags(row.get("flags"))}
    return found


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _flags(text: str | None) -> Sequence[str]:
    return [flag for part in (text or "").split(";") if (flag := part.strip())]
