"""Pictures and masks: `images/` beside `labels/` or `masks/`, with files of the same names, in folders or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from coranet.data.datasets.folder import Case
from coranet.data.datasets.walk import files_below
from coranet.data.problem import Problem, fatal
from coranet.data.readers import Source
from coranet.data.readers.picture import ENDINGS


def holds_pictures(root: Path) -> bool:
    """Whether a folder has pictures in `images/`."""
    return bool(_pictures(root / "images"))


def picture_cases(root: Path, patient_of: Callable[[Path], str]) -> tuple[list[Case], list[Problem]]:
    """One case for each picture; one without a mask is unlabelled.

    Args:
        root: the folder that holds `images/`.
        patient_of: whose a picture is, from its path below `images/`.
    """
    images = _pictures(root / "images")
    folder = next((root / name for name in ("labels", "masks") if (root / name).is_dir()), root / "labels")
    masks = {file.relative_to(folder).with_suffix(""): file for file in _pictures(folder)}
    cases = []
    for file in images:
        place = file.relative_to(root / "images")
        mask = masks.pop(place.with_suffix(""), None)
        cases.append(
            Case(
                name="_".join(place.with_suffix("").parts),
                images=(Source(path=file, reader="image"),),
                label=Source(path=mask, reader="mask", inside=(("of", "image"),)) if mask else None,
                part="Tr",
                patient=patient_of(place),
            )
        )
    return cases, [fatal(mask, "is a mask without a picture", "Rename it, or move it away") for mask in masks.values()]


def array_cases(root: Path) -> list[Case]:
    """Slices saved by NumPy, `img_000.npy` beside `mask_000.npy`: whose they are is not said, so they are one patient's."""
    return [
        Case(
            name=file.stem,
            images=(Source(path=file, reader="npy"),),
            label=Source(path=mask, reader="mask", inside=(("of", "npy"),)) if mask.exists() else None,
            part="Tr",
            patient="unknown",
        )
        for file in files_below(root)
        if file.match("img_*.npy")
        for mask in (file.with_name(file.name.replace("img_", "mask_")),)
    ]


def _pictures(folder: Path) -> list[Path]:
    return [file for file in files_below(folder) if file.suffix.lower() in ENDINGS]
