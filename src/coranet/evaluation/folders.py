"""From a folder of predictions and a folder of labels to scores."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.names import scans, stem
from coranet.data.grid import mismatch
from coranet.data.problem import FileError
from coranet.data.readers import label_source
from coranet.evaluation.classes import class_map, classes_that_occur, declared_classes
from coranet.evaluation.rows import Classes, Row, score_pair, score_slices
from coranet.evaluation.scores import Scores
from coranet.geometry import Geometry

_OUR_MAPS = ("_uncertain", "_score", "_probabilities", "_conservative", "_radical")
"""How the names of maps end that `coranet predict` writes. They are passed over wherever they lie."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A prediction and its label as maps of classes, on one grid."""

    case: str
    file: Path
    """Of the prediction."""
    prediction: NDArray[np.uint8]
    """`(x, y, z)`."""
    label: NDArray[np.uint8]
    """`(x, y, z)`."""
    geometry: Geometry


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The files to score, each prediction with its label, and the classes they may hold."""

    predicted: dict[str, Path]
    """By case, in their natural order."""
    labelled: dict[str, Path]
    """By case; there may be more of them."""
    classes: Classes

    def read(self) -> Iterator[Pair]:
        """One after the other.

        Raises:
            InputError: a pair does not lie on one grid, a value is no class.
        """
        for case, file in self.predicted.items():
            prediction, label = label_source(file).read(), label_source(self.labelled[case]).read()
            if difference := mismatch(prediction.geometry, label.geometry):
                message = f"does not lie on the grid of its label {self.labelled[case]}: {difference}"
                raise FileError(file, message, "Resample the prediction to the grid of the label")
            yield Pair(
                case=case,
                file=file,
                prediction=class_map(prediction, self.classes),
                label=class_map(label, self.classes),
                geometry=label.geometry,
            )


def evaluate(predictions: Path, labels: Path, *, per_slice: bool = False) -> Scores:
    """Score every prediction `<case>.nii.gz` against the label of the same name, or one file against another.

    Classes are those of the `dataset.json` with the labels, above them or with the predictions; without one, the values
    that occur. Labels without a prediction are not scored, and a note names them.

    Raises:
        InputError: nothing to score, a prediction has no label, a pair does not lie on one grid, a value is no class.
    """
    pairs = pair_up(predictions, labels)
    rows: list[Row] = []
    slices: list[Row] = []
    for pair in pairs.read():
        scored = pair.prediction, pair.label, pairs.classes, pair.geometry.spacing
        rows += score_pair(*scored, case=pair.case)
        slices += score_slices(*scored, case=pair.case) if per_slice else ()
    unpredicted = [case for case in pairs.labelled if case not in pairs.predicted]
    return Scores(rows=tuple(rows), slices=tuple(slices), notes=_notes(unpredicted, len(pairs.labelled)))


def pair_up(predictions: Path, labels: Path) -> Pairs:
    """Find each prediction's label by its name, or set one file beside another.

    A file `<case>_<anything>` beside a prediction `<case>` is a map of that case, unless it has a label of its own.

    Raises:
        InputError: nothing to score, or a prediction has no label.
    """
    predicted, labelled = _cases(predictions), _cases(labels)
    if predictions.is_file() and labels.is_file():
        labelled = dict(zip(predicted, labelled.values(), strict=True))
    predicted = {case: file for case, file in predicted.items() if case in labelled or not _is_map(case, predicted)}
    _check_cases(predicted, labelled, predictions, labels)
    classes = declared_classes(predictions, labels)
    if classes is None:
        classes = classes_that_occur(file for case in predicted for file in (predicted[case], labelled[case]))
    return Pairs(predicted=predicted, labelled=labelled, classes=classes)


def class_maps(predictions: Path) -> dict[str, Path]:
    """The predicted classes in a folder by case, without the maps beside them."""
    files = _cases(predictions) if predictions.exists() else {}
    return {case: file for case, file in files.items() if not _is_map(case, files)}


def _cases(path: Path) -> dict[str, Path]:
    """The class maps of a folder by case, in their natural order, or one file by its name."""
    if not path.exists():
        raise FileError(path, "does not exist", "Check the path")
    if path.is_file():
        return {stem(path): path}
    cases: dict[str, Path] = {}
    for file in scans(path):
        if not (name := stem(file)).endswith(_OUR_MAPS) and (other := cases.setdefault(name, file)) != file:
            raise FileError(file, f"is the same case as {other.name}", "Keep one of the two")
    return cases


def _is_map(name: str, cases: Collection[str]) -> bool:
    """Whether the name is that of a case, an underscore and more."""
    return any(sign == "_" and name[:place] in cases for place, sign in enumerate(name))


def _check_cases(predicted: dict[str, Path], labelled: dict[str, Path], predictions: Path, labels: Path) -> None:
    if not predicted:
        raise FileError(predictions, "has no prediction to score", "Give the folder that holds <case>.nii.gz files")
    if unknown := [case for case in predicted if case not in labelled]:
        message = f"has no label for {len(unknown)} of {len(predicted)} predictions: {', '.join(unknown)}"
        raise FileError(labels, message, "Give each label its prediction's name, or move these predictions away")


def _notes(unpredicted: list[str], labels: int) -> tuple[str, ...]:
    if not unpredicted:
        return ()
    some = ", ".join(unpredicted[:5]) + (", ..." if len(unpredicted) > 5 else "")
    return (f"{len(unpredicted)} of {labels} labels have no prediction and are not scored: {some}",)
