"""A folder of corrections, as `coranet review` leaves it: labels that a person has looked at, and a note beside each.

    labelsTr/<case>.nii.gz     the label, on the scan's own grid
    labelsTr/<case>.json       whose scan it is, its status, and what was chosen or drawn
    dataset.json               classes, and the value `ignore` of voxels that nobody has decided

A label without a note is taken as it is, so that labels which were made elsewhere can be put there too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from typing import Any, Literal, get_args

from coranet.data.datasets.description import read_dataset_json, read_ignore
from coranet.data.datasets.folder import Case, Dataset
from coranet.data.datasets.names import patient_of, scans, stem
from coranet.data.problem import FileError
from coranet.data.readers import Source, label_source
from coranet.json_files import JsonError, read_object

Status = Literal["to do", "accepted", "corrected", "set aside"]
LABELLED: tuple[Status, ...] = ("accepted", "corrected")
"""What counts as a label."""
_REMEDY = "Save the case again in coranet review"


@dataclass(frozen=True, kw_only=True)
class Correction:
    """A label that a person has looked at."""

    label: Path
    status: Status
    images: tuple[Source, ...]
    """Of the scan; empty where there is no note."""
    ignore: int | None = None
    """The value of voxels that nobody has decided, where there is one."""


def labels_folder(root: Path) -> Path:
    """Where labels and notes lie."""
    return root / "labelsTr"


def read_note(root: Path, case: str) -> dict[str, Any]:
    """What is noted of a case; of one that has a label and no note, that it is corrected.

    Raises:
        JsonError: the note is damaged.
    """
    file = labels_folder(root) / f"{case}.json"
    if not file.exists():
        files = labels_folder(root).glob(f"{escape(case)}.*")
        return {"status": "corrected" if any(stem(one) == case for one in files) else "to do"}
    note = read_object(file, _REMEDY)
    if note.get("status") not in get_args(Status):
        raise JsonError(file, f"has no status that is one of {', '.join(get_args(Status))}", _REMEDY)
    return note


def read_corrections(root: Path) -> dict[str, Correction]:
    """The labels of a folder of corrections by case, but for those that were set aside.

    Raises:
        InputError: there are none, or a note is damaged.
    """
    described = root / "dataset.json"
    ignore = read_ignore(described, read_dataset_json(described)) if described.exists() else None
    found = {}
    for file in scans(labels_folder(root)):
        note = read_note(root, case := stem(file))
        if (status := note["status"]) in LABELLED:
            found[case] = Correction(label=file, status=status, images=_images(note, file), ignore=ignore)
    if not found:
        remedy = "Accept or correct a case in coranet review first, or put labels there as <case>.nii.gz"
        raise FileError(labels_folder(root), "holds no label", remedy)
    return found


def with_corrections(dataset: Dataset, corrections: Mapping[str, Correction]) -> Dataset:
    """A dataset with corrected labels in the place of its own, and with the scans that it did not have.

    Raises:
        InputError: a label's scan is neither in the dataset nor noted, or what one of the two ignores means something else
            to the other.
    """
    known = {case.name: case for case in dataset.cases}
    ignore = dataset.ignore
    for name, correction in corrections.items():
        if name not in known and len(correction.images) != len(dataset.channels):
            message = f"is a label of a scan that {dataset.root} does not have"
            raise FileError(correction.label, message, f"Put the scan into {dataset.root / 'imagesTr'}")
        old = known.get(name) or Case(
            name=name, images=correction.images, label=None, part="Tr", patient=patient_of(name)
        )
        ignore = _agreed(dataset, correction, ignore)
        known[name] = replace(old, label=label_source(correction.label), part="Tr", ignore=ignore)
    return replace(dataset, cases=tuple(sorted(known.values(), key=lambda case: case.part)), ignore=ignore)


def _agreed(dataset: Dataset, correction: Correction, ignore: int | None) -> int | None:
    """The one value that voxels which nobody decided have in a dataset and in its corrections."""
    own = correction.ignore
    if own is None or own == ignore:
        return ignore
    if ignore is not None or own in dataset.classes:
        meant = f"ignores the value {ignore}" if ignore is not None else f"has the class {dataset.classes[own]}"
        message = f"ignores the value {own}, where {dataset.root} {meant}"
        remedy = f"Name one value ignore in both, above all classes, such as {max(own, *dataset.classes) + 1}"
        raise FileError(correction.label.parents[1] / "dataset.json", message, f"{remedy}, in the label files too")
    return own


def note_of(image: Source) -> dict[str, Any]:
    """A scan's file as a note has it."""
    return {"path": str(image.path.resolve()), "reader": image.reader, "inside": [list(pair) for pair in image.inside]}


def _images(note: Mapping[str, Any], label: Path) -> tuple[Source, ...]:
    try:
        return tuple(
            Source(
                path=Path(image["path"]),
                reader=str(image["reader"]),
                inside=tuple((str(name), value) for name, value in image["inside"]),
            )
            for image in note.get("images", ())
        )
    except (TypeError, KeyError, ValueError) as error:
        raise FileError(
            label.with_name(f"{stem(label)}.json"), "does not name its scan as notes do", _REMEDY
        ) from error
