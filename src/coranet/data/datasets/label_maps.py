"""Label maps that lie among scans, known by their names and by their voxels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coranet.data.datasets.names import stem
from coranet.data.problem import FileError
from coranet.data.readers import label_source
from coranet.errors import InputError

WORDS = frozenset({"label", "labels", "mask", "masks", "seg", "segmentation", "gt", "truth", "manual", "uncertain"})
"""What names of label maps have in them."""

_VALUES = 64
"""As many classes, at most, has what is taken for a label map."""
_LOOKED_AT = 3
"""Files that may be label maps by their names and are read to be sure."""


def refuse_labels(folder: Path, files: Sequence[Path]) -> None:
    """Refuse to take the label maps in a folder for scans.

    A file is one if its name says so, or is another's name and more, and if its voxels are few whole numbers from 0 on.

    Raises:
        FileError: there are scans and label maps.
    """
    names = {stem(file) for file in files}
    named = [file for file in files if _is_named_so(stem(file), names)]
    if len(named) in (0, len(files)):
        return
    if label := next((file for file in named[:_LOOKED_AT] if _has_classes(file)), None):
        scan = next(file for file in files if file not in named)
        message = f"mixes scans, such as {scan.name}, with label maps, such as {label.name}"
        raise FileError(folder, message, "Move the label maps to a folder of their own, or give one scan")


def _is_named_so(name: str, others: set[str]) -> bool:
    words = re.split(r"[^a-z]+", name.lower())
    longer = any(sign in "_-." and name[:place] in others for place, sign in enumerate(name))
    return longer or not WORDS.isdisjoint(words)


def _has_classes(file: Path) -> bool:
    try:
        array = label_source(file).read().array
    except InputError:  # said when it is predicted, if it is
        return False
    low, high = array.min(), array.max()
    if low != 0 or not high < 256:
        return False
    return len(values := np.unique(array)) <= _VALUES and bool((values == np.floor(values)).all())
