"""A folder of corrections, as `coranet review` leaves it: labels that a person has looked at, and a note beside each.

    labelsTr/<case>.nii.gz     the label, on the scan's own grid
    labelsTr/<case>.json       whose scan it is, its status, and what was chosen or drawn
    dataset.json               classes, and the value `ignore` of voxels that nobody has decided

A label without a note is taken as it is, so that labels which were made elsewhere can be put there too, in any format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from coranet.data.datasets.description import IGNORE, numbered_labels, read_dataset_json, read_ignore
from coranet.data.datasets.folder import Case, Dataset
from coranet.data.datasets.names import natural, patient_of, stem
from coranet.data.listing import entries
from coranet.data.problem import FileError
from coranet.data.readers import READERS, Source, ending_of, label_source
from coranet.data.same_scan import is_same_scan, mark_of
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
    marks: tuple[str | None, ...] = ()
    """Of the files that it was drawn on, where they are known."""
    ignore: int | None = None
    """The value of voxels that nobody has decided, where there is one."""
    classes: Mapping[int, str] = field(default_factory=dict)
    """Names by value, where the folder says them."""


def labels_folder(root: Path) -> Path:
    """Where labels and notes lie."""
    return root / "labelsTr"


def label_files(root: Path) -> dict[str, Path]:
    """The file of each label, whatever its format.

    Raises:
        FileError: two are of one case.
    """
    folder, found = labels_folder(root), dict[str, Path]()
    there = entries(folder) if folder.is_dir() else []
    for file in sorted((file for file in there if ending_of(file)), key=lambda file: natural(file.name)):
        if (other := found.setdefault(stem(file), file)) != file:
            raise FileError(file, f"is a label of the same case as {other.name}", "Keep one of the two")
    return found


def label_file(root: Path, case: str) -> Path | None:
    """The file of one label, without a look at the others.

    Raises:
        FileError: there are two.
    """
    names = (f"{case}{ending}" for one in READERS.values() for ending in one.endings)
    there = [file for name in names if (file := labels_folder(root) / name).exists()]
    if len(there) > 1:
        raise FileError(there[1], f"is a label of the same case as {there[0].name}", "Keep one of the two")
    return there[0] if there else None


def read_note(root: Path, case: str) -> dict[str, Any]:
    """What is noted of a case; of one that has a label and no note, that it is corrected.

    Raises:
        JsonError: the note is damaged.
    """
    file = labels_folder(root) / f"{case}.json"
    if not file.exists():
        return {"status": "corrected" if label_file(root, case) else "to do"}
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
    classes, found = named_classes(described), {}
    for case, file in label_files(root).items():
        note = read_note(root, case)
        if (status := note["status"]) in LABELLED:
            images, marks = images_of(note, file), marks_of(note)
            found[case] = Correction(
                label=file, status=status, images=images, marks=marks, ignore=ignore, classes=classes
            )
    if not found:
        remedy = "Accept or correct a case in coranet review first, or put labels there as <case>.nii.gz"
        raise FileError(labels_folder(root), "holds no label", remedy)
    return found


def with_corrections(dataset: Dataset, corrections: Mapping[str, Correction]) -> Dataset:
    """A dataset with corrected labels in the place of its own, and with the scans that it did not have.

    Raises:
        InputError: a label's scan is neither in the dataset nor noted, or is another scan than the dataset's of that name;
            or a number means something else to one than to the other.
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
        check_scan(correction.label, correction.images, correction.marks, old)
        _check_classes(dataset, correction)
        ignore = _agreed(dataset, correction, ignore)
        known[name] = replace(old, label=label_source(correction.label), part="Tr", ignore=ignore)
    return replace(dataset, cases=tuple(sorted(known.values(), key=lambda case: case.part)), ignore=ignore)


def named_classes(described: Path) -> dict[int, str]:
    """Names of classes by value, as the dataset.json beside labels says them; nothing where there is none."""
    if not described.exists():
        return {}
    numbered = numbered_labels(described, read_dataset_json(described))
    return {number: name for number, name in numbered if name.lower() != IGNORE}


def check_scan(label: Path, noted: Sequence[Source], marks: Sequence[str | None], case: Case) -> None:
    """Refuse a label that was drawn on another scan than that of its name: a patient would get another one's label.

    Raises:
        FileError: the noted scan is another.
    """
    for drawn_on, mark, image in zip(noted, marks, case.images, strict=False):
        if not is_same_scan(drawn_on, mark, image):
            message = f"was drawn on another scan than {image.path}: on one that lay at {drawn_on.path}"
            remedy = "Give scans of different patients different names, and review the one that was meant again"
            raise FileError(label, message, remedy)


def _check_classes(dataset: Dataset, correction: Correction) -> None:
    for number, name in correction.classes.items():
        meant = dataset.classes.get(number, name)
        if number and meant.lower() != name.lower():
            file = correction.label.parents[1] / "dataset.json"
            message = f"names {number} {name}, where {dataset.root} names it {meant}"
            raise FileError(file, message, "Number classes alike in both, in the label files too")


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
    inside = [list(pair) for pair in image.inside]
    return {"path": str(image.path.resolve()), "reader": image.reader, "inside": inside, "mark": mark_of(image)}


def marks_of(note: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Of the files that a note names, once they are known to be named as notes do."""
    return tuple(image.get("mark") for image in note.get("images", ()))


def images_of(note: Mapping[str, Any], label: Path) -> tuple[Source, ...]:
    """The scan that a note names; nothing where there is no note."""
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
