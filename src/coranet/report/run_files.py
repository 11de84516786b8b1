"""What a run left in its folder: settings, log, film, predictions and scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from coranet.data.datasets.names import patient_of
from coranet.data.problem import FileError
from coranet.evaluation import Scores
from coranet.evaluation.patients import read_patients
from coranet.file_names import special_kind
from coranet.json_files import JsonError, parse_json, read_object
from coranet.report.run_contract import RECORD, SETTINGS, check_contract

Json = dict[str, Any]

LOG = "log.jsonl"
SCORES = "scores.csv"
_TRAINED = "Give the folder that `coranet train --out` made"
_COPIED = "Copy the run folder again"


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
    """Of no row where its predictions are not scored."""
    predictions: Path | None = None
    """The folder of its predictions, where that is not `predictions` in its own."""

    @property
    def classes(self) -> dict[int, str]:
        """Names of the objects by value, without background."""
        return {int(value): name for value, name in self.settings["data"]["classes"].items() if int(value)}

    @property
    def film(self) -> tuple[Path, ...]:
        """One file for each check, in the order of steps."""
        return tuple(sorted(file for file in (self.folder / "film").glob("*.npz") if file.stem.isdecimal()))

    @property
    def seconds(self) -> float:
        """Of training. The log's clock starts anew where a run was continued, so the peaks are added."""
        clock = [float(record["seconds"]) for record in self.log]
        return sum(now for now, then in pairwise([*clock, -1.0]) if then < now)

    @property
    def predicted(self) -> Path:
        """The folder of its predictions."""
        return self.predictions or self.folder / "predictions"

    @property
    def scored(self) -> bool:
        """Whether there are scores of at least one object."""
        return any(row.status != "absent" for row in self.scores.rows)

    def prediction(self, case: str) -> Path:
        """The file of predicted classes."""
        return self.predicted / f"{case}.nii.gz"

    def region(self, case: str, kind: str) -> Path:
        """The file of another map of a case: `conservative`, `radical` or `uncertain`."""
        return self.predicted / f"{case}_{kind}.nii.gz"


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
    first, *others = (_checked(read_run(name, folder)) for name, folder in runs.items())
    for other in others:
        if unshared := unshared_cases(first, other):
            message = f"is not about the same cases as {first.folder / SCORES}: {', '.join(unshared)}"
            raise FileError(other.folder / SCORES, message, "Predict and score the same cases with both runs")
    return first, *others


def read_run(name: str, folder: Path) -> FinishedRun:
    """A run as far as it has come: its log and its scores may be empty.

    Raises:
        InputError: it has no settings, or a file is broken.
    """
    settings = _read_lines(folder / "run.json", whole=True)[0]
    check_contract(folder / "run.json", settings, SETTINGS, _COPIED)
    return replace(read_scored(name, folder), settings=settings)


def read_scored(name: str, folder: Path) -> FinishedRun:
    """The log and the scores of a run, whose settings nobody asks for."""
    log = _read_lines(folder / LOG, whole=False) if (folder / LOG).exists() else ()
    for record in log:
        check_contract(folder / LOG, record, RECORD, _COPIED)
    scores = Scores.read_csv(folder / SCORES) if (folder / SCORES).exists() else Scores(rows=())
    return FinishedRun(name=name, folder=folder, settings={}, log=log, scores=scores)


def unshared_cases(first: FinishedRun, other: FinishedRun) -> list[str]:
    """The cases that only one of two runs was scored on."""
    return sorted(first.scores.by_case("dsc").keys() ^ other.scores.by_case("dsc").keys())


def _checked(run: FinishedRun) -> FinishedRun:
    """The run, if it has all that a comparison needs."""
    if not run.log:
        there = (run.folder / LOG).exists()
        remedy = "Finish the run with `coranet train --resume`" if there else _TRAINED
        raise FileError(run.folder / LOG, "is empty" if there else "does not exist", remedy)
    if not run.scores.rows:
        message = "has no row" if (run.folder / SCORES).exists() else "does not exist"
        remedy = f"Make it with `coranet evaluate {run.predicted} LABELS --out {run.folder / SCORES}`"
        raise FileError(run.folder / SCORES, message, remedy)
    if not run.scored:
        remedy = "Score predictions against labels that show one"
        raise FileError(run.folder / SCORES, "is about no object at all", remedy)
    return run


def read_json(file: Path) -> Json:
    """What `coranet reproduce` wrote beside a run or a setting.

    Raises:
        FileError: the file is broken.
    """
    return _read_lines(file, whole=True, remedy="Delete it, and make it anew with `coranet reproduce`")[0]


def _read_lines(file: Path, *, whole: bool, remedy: str = _TRAINED) -> tuple[Json, ...]:
    """The JSON of a file, or of each of its lines; a last line that has no end is still being written."""
    try:
        if whole:
            return (read_object(file),)
        if kind := special_kind(file):
            raise FileError(file, f"is {kind}, not a file", remedy)
        return tuple(parse_json(part, file) for part in file.read_text(encoding="utf-8").split("\n")[:-1])
    except FileError:
        raise
    except OSError as error:
        raise FileError(file, f"cannot be read ({error.strerror})", remedy) from error
    except JsonError as error:
        missing = isinstance(error.__cause__, OSError)
        raise FileError(file, error.message if missing else f"is broken JSON ({error.message})", remedy) from error
    except ValueError as error:
        raise FileError(file, f"is broken JSON ({error})", remedy) from error
