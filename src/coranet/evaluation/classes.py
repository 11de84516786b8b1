"""Which classes there are to score: those a `dataset.json` declares, or those that occur."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.description import read_classes, read_dataset_json, read_ignore
from coranet.data.prepare.cases import label_values
from coranet.data.problem import FileError
from coranet.data.readers import Volume, label_source
from coranet.evaluation.rows import Classes


def declared_classes(predictions: Path, labels: Path) -> tuple[Classes, int | None] | None:
    """The foreground classes of the `dataset.json` with the labels, above them or with the predictions.

    Beside them the value of voxels that nobody drew, where it names one.
    """
    beside, with_predictions = (path if path.is_dir() else path.parent for path in (labels, predictions))
    for folder in (beside, beside.resolve().parent, with_predictions):
        if (path := folder / "dataset.json").exists():
            content = read_dataset_json(path)
            ignore = read_ignore(path, content)
            return {value: name for value, name in read_classes(path, content).items() if value != 0}, ignore
    return None


def ignored_value(labels: Path) -> int | None:
    """The value of voxels that nobody drew, where the `dataset.json` with labels or above them names one."""
    return (declared_classes(labels, labels) or (None, None))[1]


def classes_that_occur(files: Iterable[Path]) -> Classes:
    """All values but 0, each its own name."""
    values = {value for file in files for value in _values(label_values(label_source(file).read()))}
    return {value: str(value) for value in sorted(values - {0})}


def class_map(volume: Volume, classes: Classes, ignore: int | None = None) -> NDArray[np.uint8]:
    """The volume as a map of classes, in which `ignore` may occur too.

    Raises:
        InputError: a value is no whole number or no class.
    """
    array = label_values(volume)
    if unknown := sorted(_values(array) - classes.keys() - {0, ignore}):
        known = ", ".join(f"{value} {name}" for value, name in sorted(classes.items()) if value)
        message = f"has values that are no class: {', '.join(map(str, unknown))}"
        assert volume.path is not None
        raise FileError(volume.path, message, f"Classes are 0 background, {known}; correct the file or dataset.json")
    return array


def _values(array: NDArray[Any]) -> set[int]:
    """The values that occur; plane by plane, as sorting a whole scan takes long."""
    return {value for plane in array.T for value in np.unique(plane).tolist()}
