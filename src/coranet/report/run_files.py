"""What a finished run left in its folder: settings, log, film, predictions and scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from coranet.data.datasets.names import patient_of
from coranet.data.problem import FileError
from coranet.evaluation import Scores
from coranet.evaluation.patients import read_patients

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A run folder as read, under the name it is shown by."""

    name: str
    folder: Path
    settings: Json
    """run.json."""
    log: tuple[Json, ...]
    """The lines of log.jsonl."""
    scores: Scores

    @property
    def classes(self) -> dict[int, str]:
        """Names of the objects by value, without background."""
        return {int(value): name for value, name in self.settings["data"]["classes"].items() if int(value)}

    @property
    def film(self) -> tuple[Path, ...]:
        """One file for each check, in the order of steps."""
        return tuple(sorted((self.folder / "film").glob("*.npz")))

    @property
    def seconds(self) -> float:
        """Of training. The log's clock starts anew where a run was continued, so the peaks are added."""
        clock = [float(record["seconds"]) for record in self.log]
        return sum(now for now, then in pairwise([*clock, -1.0]) if then < now)

    def prediction(self, case: str) -> Path:
        """The file of predicted classes."""
        return self.folder / "predictions" / f"{case}.nii.gz"

    def region(self, case: str, kind: str) -> Path:
        """The file of another map of a case: `conservative`, `radical` or `uncertain`."""
        return self.folder / "predictions" / f"{case}_{kind}.nii.gz"


def patients_of(folder: Path, scores: Iterable[Scores]) -> dict[str, str]:
    """The patient of each case that was scored: as the folder of its comparison says, or as its name tells."""
    told = read_patients(folder)
    return {row.case: told.get(row.case, patient_of(row.case)) for one in scores for row in one.rows}


def read_runs(runs: Mapping[str, Path]) -> tuple[FinishedRun, ...]:
    """Read run folders by name; the first is the one that others are compared with.

    Raises:
        InputError: a file is missing or broken, or two runs were not scored on the same cases.
    """
    assert runs
    first, *others = (_read_run(name, folder) for name, folder in runs.items())
    for other in others:
        if unshared := sorted(first.scores.by_case("dsc").keys() ^ other.scores.by_case("dsc").keys()):
            message = f"is not about the same cases as {first.folder / 'scores.csv'}: {', '.join(unshared)}"
            raise FileError(other.folder / "scores.csv", message, "Predict and score the same cases with both runs")
    return first, *others


def _read_run(name: str, folder: Path) -> FinishedRun:
    trained = "Give the folder that `coranet train --out` made"
    settings = _read_lines(folder / "run.json", whole=True, remedy=trained)[0]
    log = _read_lines(folder / "log.jsonl", whole=False, remedy=trained)
    scores = folder / "scores.csv"
    if not scores.exists():
        remedy = f"Make it with `coranet evaluate {folder / 'predictions'} LABELS --out {scores}`"
        raise FileError(scores, "does not exist", remedy)
    run = FinishedRun(name=name, folder=folder, settings=settings, log=log, scores=Scores.read_csv(scores))
    if not log:
        raise FileError(folder / "log.jsonl", "is empty", "Finish the run with `coranet train --resume`")
    if all(row.status == "absent" for row in run.scores.rows):
        raise FileError(scores, "is about no object at all", "Score predictions against labels that show one")
    return run


def read_json(file: Path) -> Json:
    """What `coranet reproduce` wrote beside a run or a setting.

    Raises:
        FileError: the file is broken.
    """
    return _read_lines(file, whole=True, remedy="Delete it, and make it anew with `coranet reproduce`")[0]


def _read_lines(file: Path, *, whole: bool, remedy: str) -> tuple[Json, ...]:
    """The JSON of a file, or of each of its lines."""
    try:
        text = file.read_text(encoding="utf-8")
        return tuple(json.loads(part) for part in ([text] if whole else text.splitlines()))
    except OSError as error:
        raise FileError(file, f"cannot be read ({error.strerror})", remedy) from error
    except ValueError as error:
        raise FileError(file, f"is broken JSON ({error})", remedy) from error
