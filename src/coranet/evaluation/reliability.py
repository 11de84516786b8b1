"""Whether a folder's uncertainty lies where its mistakes are: a row for each case, and what they say together.

Beside a prediction `<case>.nii.gz` lie `<case>_uncertain`, `<case>_score` and `<case>_probabilities`. Every voxel of a scan
counts alike, and every case does in the means.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.names import stem
from coranet.data.grid import mismatch
from coranet.data.prepare.cases import label_values
from coranet.data.prepare.resampling import class_counts
from coranet.data.problem import FileError
from coranet.data.readers import Source, Volume, nifti
from coranet.evaluation.folders import Pair, pair_up
from coranet.files import write_atomically
from coranet.metrics import Calibration, Summary, calibrate, summarise

Json = dict[str, Any]

MAPS = ("uncertain", "score", "probabilities")
"""What accompanies a prediction, as its file's name ends."""

MEASURES = (
    "error_share",
    "uncertain_share",
    "errors_held",
    "certain_error_share",
    "certain_ece",
    "score_held",
    "softmax_held",
    "score_ece",
    "softmax_ece",
    "retention_area",
    "area_at_random",
    "area_at_best",
)
"""The columns of numbers in their order."""

_AGAIN = "Predict the scan again with --probabilities"
_ROUNDING = 1e-3
"""How far a probability may lie outside 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class CalibrationRow(Calibration):
    """How well one case's uncertainty tells right from wrong."""

    case: str
    area_at_random: float
    """What `retention_area` would be of a score that knows nothing."""
    area_at_best: float
    """What it would be of a score that sets every error aside first."""


@dataclass(frozen=True, kw_only=True)
class Calibrations:
    """Rows in the order of cases."""

    rows: tuple[CalibrationRow, ...]

    def by_case(self, measure: str) -> dict[str, float]:
        """One of `MEASURES` for each case; NaN where it is a share of nothing."""
        return {row.case: getattr(row, measure) for row in self.rows}

    def mean(self) -> dict[str, Summary]:
        """Each measure over cases; a case without a value is left out."""
        return {measure: summarise(list(self.by_case(measure).values())) for measure in MEASURES}

    def to_json(self) -> Json:
        """All of it as plain values, None for NaN; `std` and `intervals` have the form of `mean`."""
        mean = self.mean().items()
        return {
            "mean": {measure: _plain(summary.mean) for measure, summary in mean},
            "per_case": {row.case: {name: _plain(getattr(row, name)) for name in MEASURES} for row in self.rows},
            "std": {measure: _plain(summary.std) for measure, summary in mean},
            "intervals": {measure: [_plain(summary.low), _plain(summary.high)] for measure, summary in mean},
        }

    def write_csv(self, path: Path) -> None:
        """One line a case, numbers in full, nothing where a number is NaN.

        Raises:
            InputError: the file cannot be written.
        """
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(("case", *MEASURES))
        lines.writerows((row.case, *(_plain(getattr(row, name)) for name in MEASURES)) for row in self.rows)
        write_atomically(path, text.getvalue().encode())

    @classmethod
    def read_csv(cls, path: Path) -> Calibrations:
        """Read what this or another version of `write_csv` wrote; a measure that the file does not have is NaN.

        Raises:
            InputError: the file is missing or is not a table of calibration.
        """
        try:
            with path.open(encoding="utf-8", newline="") as file:
                titles, *lines = csv.reader(file)
            if "case" not in titles or not set(MEASURES) & set(titles):
                raise ValueError("other columns")
            return cls(rows=tuple(_row_of(dict(zip(titles, line, strict=True))) for line in lines))
        except OSError as error:
            raise FileError(path, f"cannot be read ({error.strerror})", "Check the path") from error
        except (TypeError, ValueError, csv.Error) as error:
            remedy = "Evaluate the predictions again with --calibration"
            raise FileError(path, "is not a table of calibration", remedy) from error


def evaluate_calibration(predictions: Path, labels: Path) -> Calibrations:
    """Compare every prediction's uncertainty with its mistakes; predictions and labels are found as `evaluate` does.

    Raises:
        InputError: what `evaluate` raises; a map is missing, lies on another grid, or holds what it cannot.
    """
    pairs = pair_up(predictions, labels)
    maps = {case: _maps_beside(file) for case, file in pairs.predicted.items()}
    _check_maps(maps, predictions)
    drawn = (pair for pair in pairs.read() if pair.drawn is None or pair.drawn.any())
    return Calibrations(rows=tuple(calibrate_pair(pair, maps[pair.case]) for pair in drawn))


def calibrate_pair(pair: Pair, maps: Mapping[str, Path]) -> CalibrationRow:
    """One case, with the files of its `MAPS`."""
    said = (
        pair.prediction,
        pair.label,
        _confidence(maps["probabilities"], pair),
        ~_uncertain(maps["uncertain"], pair),
        _score(maps["score"], pair),
    )
    found = calibrate(*(said if pair.drawn is None else (array[pair.drawn] for array in said)))
    wrong = found.error_share
    return CalibrationRow(case=pair.case, area_at_random=wrong / 2, area_at_best=wrong**2 / 2, **asdict(found))


def _maps_beside(prediction: Path) -> dict[str, Path]:
    case = stem(prediction)
    files = ((name, prediction.with_name(f"{case}_{name}{ending}")) for name in MAPS for ending in nifti.ENDINGS[::-1])
    return {name: file for name, file in files if file.exists()}


def _check_maps(maps: Mapping[str, Mapping[str, Path]], predictions: Path) -> None:
    lacking = {name: [case for case, files in maps.items() if name not in files] for name in MAPS}
    if not any(lacking.values()):
        return
    said = (
        f"<case>_{name}.nii.gz of {len(cases)} of {len(maps)} cases ({', '.join(cases[:3])}{', ...' * (len(cases) > 3)})"
        for name, cases in lacking.items()
        if cases
    )
    without = ", and without --no-uncertainty" if lacking["uncertain"] else ""
    remedy = f"Make them with coranet predict RUN SCANS --out DIR --probabilities{without}"
    raise FileError(predictions, f"lacks what calibration is read from: {'; '.join(said)}", remedy)


def _read(path: Path, pair: Pair, *inside: tuple[str, int]) -> Volume:
    """A map that lies on the grid of its prediction."""
    volume = Source(path=path, inside=inside).read()
    if difference := mismatch(volume.geometry, pair.geometry):
        raise FileError(path, f"does not lie on the grid of its prediction {pair.file}: {difference}", _AGAIN)
    return volume


def _uncertain(path: Path, pair: Pair) -> NDArray[np.bool_]:
    mask = label_values(_read(path, pair))
    if mask.max() > 1:
        raise FileError(path, "has values other than 0, certain, and 1, uncertain", _AGAIN)
    return mask.astype(np.bool_)


def _score(path: Path, pair: Pair) -> NDArray[Any]:
    score = _read(path, pair).array
    if not np.isfinite(score).all():
        raise FileError(path, "has scores that are not finite", _AGAIN)
    return score


def _confidence(path: Path, pair: Pair) -> NDArray[np.float32]:
    """The probability of the class that is predicted, `(x, y, z)`."""
    confidence = np.empty(pair.prediction.shape, np.float32)
    for value in np.flatnonzero(class_counts(pair.prediction)).tolist():
        here = pair.prediction == value
        confidence[here] = _read(path, pair, ("channel", value)).array[here]
    if not (np.abs(confidence - 0.5) <= 0.5 + _ROUNDING).all():
        raise FileError(path, "has values that are no probabilities", _AGAIN)
    return confidence.clip(0, 1)


def _row_of(line: Mapping[str, str]) -> CalibrationRow:
    return CalibrationRow(case=line["case"], **{name: float(line.get(name) or "nan") for name in MEASURES})


def _plain(value: float) -> float | None:
    return None if isnan(value) else value
