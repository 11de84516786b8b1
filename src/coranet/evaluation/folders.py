"""From a folder of predictions and a folder of labels to scores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.names import MAPS, map_of, scans, stem
from coranet.data.grid import mismatch
from coranet.data.problem import FileError
from coranet.data.readers import label_source
from coranet.evaluation.classes import class_map, classes_that_occur, declared_classes
from coranet.evaluation.rows import Classes, Row, score_pair, score_slices
from coranet.evaluation.scores import Scores
from coranet.geometry import Geometry

_OURS = tuple(f"_{name}" for name in MAPS)


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
    drawn: NDArray[np.bool_] | None = None
    """`(x, y, z)`: where the label says something; None where it does everywhere. Elsewhere both maps are 0."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The files to score, each prediction with its label, and the classes they may hold."""

    predicted: dict[str, Path]
    """By case, in their natural order."""
    labelled: dict[str, Path]
    """By case; there may be more of them."""
    classes: Classes
    ignore: int | None = None
    """The value of labels where nobody drew."""

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
            said, truth = class_map(prediction, self.classes), class_map(label, self.classes, self.ignore)
            drawn = None
            if self.ignore is not None and self.ignore in truth:
                drawn = truth != self.ignore
                said, truth = np.where(drawn, said, 0), np.where(drawn, truth, 0)
            yield Pair(case=case, file=file, prediction=said, label=truth, geometry=label.geometry, drawn=drawn)


def evaluate(predictions: Path, labels: Path, *, per_slice: bool = False) -> Scores:
    """Score every prediction `<case>.nii.gz` against the label of the same name, or one file against another.

    Classes are those of the `dataset.json` with the labels, above them or with the predictions; without one, the values
    that occur. Labels without a prediction are not scored, and voxels that nobody drew are left out; notes say so.

    Raises:
        InputError: nothing to score, a prediction has no label, a pair does not lie on one grid, a value is no class.
    """
    pairs = pair_up(predictions, labels)
    rows: list[Row] = []
    slices: list[Row] = []
    shares: dict[str, float] = {}
    for pair in pairs.read():
        if pair.drawn is not None:
            shares[pair.case] = float(pair.drawn.mean())
            if not shares[pair.case]:
                continue
        scored = pair.prediction, pair.label, pairs.classes, pair.geometry.spacing
        rows += score_pair(*scored, case=pair.case)
        slices += score_slices(*scored, case=pair.case, drawn=pair.drawn) if per_slice else ()
    unpredicted = [case for case in pairs.labelled if case not in pairs.predicted]
    if not rows:
        raise FileError(labels, "has no voxel that is drawn, and so nothing to score by", "Give labels that are drawn")
    notes = (*_notes(unpredicted, len(pairs.labelled)), *_partial_notes(shares))
    return Scores(rows=tuple(rows), slices=tuple(slices), notes=notes)


def pair_up(predictions: Path, labels: Path) -> Pairs:
    """Find each prediction's label by its name, or set one file beside another.

    A file `<case>_<anything>` beside a prediction `<case>` is a map of that case, unless it has a label of its own. So is
    one that is named like a map of ours, wherever it lies.

    Raises:
        InputError: nothing to score, a prediction has no label, or they number their classes otherwise.
    """
    predicted, labelled = _cases(predictions), _cases(labels)
    labelled = {case: file for case, file in labelled.items() if not map_of(case, labelled)}
    if predictions.is_file() and labels.is_file():
        labelled = dict(zip(predicted, labelled.values(), strict=True))
    predicted = {
        case: file
        for case, file in predicted.items()
        if case in labelled or not (_is_map(case, predicted) or case.endswith(_OURS))
    }
    _check_cases(predicted, labelled, predictions, labels)
    _check_numbers(predictions, labels)
    classes, ignore = declared_classes(predictions, labels) or (None, None)
    if classes is None:
        said, drawn = (classes_that_occur(files[case] for case in predicted) for files in (predicted, labelled))
        if said and drawn and not said.keys() & drawn.keys():  # every Dice would be 0, and nobody would know why
            message = f"holds the values {', '.join(drawn.values())}, and the predictions {', '.join(said.values())}"
            raise FileError(labels, message, "Number classes alike; or name all of them in a dataset.json beside it")
        classes = dict(sorted({**said, **drawn}.items()))
    return Pairs(predicted=predicted, labelled=labelled, classes=classes, ignore=ignore)


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
        if (other := cases.setdefault(stem(file), file)) != file:
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


def _check_numbers(predictions: Path, labels: Path) -> None:
    """Refuse classes that have one name and two numbers: each would be scored as another."""
    declared = [(declared_classes(one, one) or ({}, None))[0] for one in (predictions, labels)]
    said, meant = ({name.lower(): number for number, name in classes.items()} for classes in declared)
    for name in said.keys() & meant.keys():
        if said[name] != meant[name]:
            message = f"has {name} as {meant[name]}, and {predictions} has it as {said[name]}"
            raise FileError(labels, message, "Number classes alike in both, as each dataset.json says they are")


def _notes(unpredicted: list[str], labels: int) -> tuple[str, ...]:
    if not unpredicted:
        return ()
    some = ", ".join(unpredicted[:5]) + (", ..." if len(unpredicted) > 5 else "")
    return (f"{len(unpredicted)} of {labels} labels have no prediction and are not scored: {some}",)


def _partial_notes(shares: Mapping[str, float]) -> tuple[str, ...]:
    """What is to be said of labels that are drawn in part, by the share that is."""
    notes = []
    if empty := [case for case, share in shares.items() if not share]:
        notes.append(f"Nothing is drawn in {len(empty)} labels, which are not scored: {', '.join(empty[:5])}")
    if scored := [share for share in shares.values() if share]:
        low, high = 100 * min(scored), 100 * max(scored)
        notes.append(
            f"{len(scored)} labels are drawn in part ({low:.3g} to {high:.3g} % of their voxels): the rest is left out of "
            "all scores, and distances are measured within what is drawn"
        )
    return tuple(notes)
