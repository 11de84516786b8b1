"""Some cases of a folder in nnU-Net's layout: those of which a text lists a scan."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from coranet.data.datasets.folder import PARTS, Dataset
from coranet.data.datasets.listed_scans import listed
from coranet.data.problem import FileError


def home_of(path: Path) -> Path:
    """The folder in nnU-Net's layout whose scans a text lists.

    Raises:
        FileError: they lie elsewhere, or in several.
    """
    homes: dict[Path, None] = {}
    for file in map(_whole, listed(path)):
        if file.parent.name not in {f"images{part}" for part in PARTS}:
            raise FileError(file, "does not lie in imagesTr or imagesTs of a dataset", f"Take it out of {path}")
        homes[file.parent.parent] = None
    if len(homes) > 1:
        first, second, *_ = homes
        raise FileError(path, f"lists scans of {first} and of {second}", "Write a list for each")
    return next(iter(homes))


def only_listed(dataset: Dataset, path: Path) -> Dataset:
    """The cases of which a text lists a file or more.

    Raises:
        FileError: it lists something else.
    """
    wanted = set(map(_whole, listed(path)))
    owned = {case.name: {_whole(image.path) for image in case.images} for case in dataset.cases}
    if strange := sorted(wanted.difference(*owned.values())):
        raise FileError(strange[0], f"is no scan of {dataset.root}", f"Take it out of {path}")
    return replace(dataset, cases=tuple(case for case in dataset.cases if owned[case.name] & wanted))


def _whole(path: Path) -> Path:
    """From the root on, and without `..`."""
    return Path(os.path.abspath(path))  # noqa: PTH100  links stay as they are: scans may be links into an archive
