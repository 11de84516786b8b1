"""`dataset.json`: what a folder of scans says of itself, in nnU-Net's words or in those of the Medical Decathlon."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coranet.data.problem import FileError, Problem
from coranet.data.readers import READERS, ending_of
from coranet.data.readers.nifti import ENDINGS
from coranet.file_names import printable
from coranet.files import write_atomically
from coranet.json_files import JsonError, read_json

_OURS = "coranet predict"
EXAMPLE = '{"channel_names": {"0": "CT"}, "labels": {"background": 0, "organ": 1}, "file_ending": ".nii.gz"}'
"""The least a `dataset.json` says."""

IGNORE = "ignore"
"""What nnU-Net calls the label of voxels that nobody drew."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """The contents of a `dataset.json`, in one form."""

    name: str
    channels: tuple[str, ...]
    classes: Mapping[int, str]
    """0 is background."""
    ignore: int | None
    """The value of voxels that nobody drew, where there is one."""
    patients: Mapping[str, str]
    """From a case's name to its patient, where the file says so."""


def read_description(root: Path) -> tuple[Description | None, list[Problem]]:
    """The description of a dataset, or all that is wrong with it."""
    path = root / "dataset.json"
    problems = []
    parts: dict[str, Any] = {}
    try:
        data = read_dataset_json(path)
    except FileError as error:
        return None, [error.problem]
    for name, parse in (
        ("channels", _channels),
        ("ignore", read_ignore),
        ("classes", read_classes),
        ("patients", _patients),
        ("ending", _ending),
    ):
        try:
            parts[name] = parse(path, data)
        except FileError as error:
            problems += [] if error.problem in problems else [error.problem]
    if problems:
        return None, problems
    del parts["ending"]
    return Description(name=printable(data.get("name", root.resolve().name)), **parts), []


def read_dataset_json(path: Path) -> Mapping[str, Any]:
    """The object in a `dataset.json`."""
    remedy = (
        f"Say with --dataset which known set this is, or write one that names channels and classes, such as {EXAMPLE}, "
        "beside imagesTr and labelsTr"
    )
    if (path.parent.parent / path.name).exists():
        remedy = f"Give {path.parent.parent}, the folder above, which has one"
    try:
        data = read_json(path, remedy)
    except JsonError as error:
        raise FileError(path, error.message, error.remedy) from error
    if not isinstance(data, dict):
        raise FileError(path, "is not a JSON object", f"Write it like {EXAMPLE}")
    return data


def describe_predictions(folder: Path, classes: Mapping[int, str]) -> None:
    """Say beside label maps what their values mean, in nnU-Net's way; a dataset.json that is not ours is left alone."""
    path = folder / "dataset.json"
    content = {"labels": {name: value for value, name in classes.items()}, "file_ending": ENDINGS[0], "by": _OURS}
    try:
        there = read_json(path, "") if path.exists() else None
    except JsonError:
        return
    if there is None or (isinstance(there, dict) and there.get("by") == _OURS and there != content):
        write_atomically(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def _channels(path: Path, data: Mapping[str, Any]) -> tuple[str, ...]:
    named = data.get("channel_names", data.get("modality"))
    if not isinstance(named, dict) or not named:
        remedy = 'Add "channel_names", such as {"0": "T1", "1": "T2"}'
        raise FileError(path, 'names no channels ("channel_names" or "modality")', remedy)
    if set(named) != {str(i) for i in range(len(named))}:
        remedy = "Number them 0, 1, 2 ... as the files are: _0000, _0001, _0002"
        raise FileError(path, f"numbers its channels {', '.join(named)}", remedy)
    return tuple(printable(named[str(i)]) for i in range(len(named)))


def read_classes(path: Path, data: Mapping[str, Any]) -> Mapping[int, str]:
    """Names by number, 0 the background; without what is ignored."""
    numbered = [(number, name) for number, name in numbered_labels(path, data) if name.lower() != IGNORE]
    classes = dict(sorted(numbered))
    if len(classes) < len(numbered):
        raise FileError(path, '"labels" gives one number to several classes', "Give each class its own")
    if len(set(classes.values())) < len(classes):
        raise FileError(path, '"labels" gives one name to several classes', "Give each class its own")
    if 0 not in classes:
        raise FileError(path, '"labels" has no background', 'Add "background": 0')
    if len(classes) < 2:
        raise FileError(path, '"labels" has only background', 'Add what is to be segmented, such as "organ": 1')
    if list(classes) != list(range(len(classes))):
        remedy = "Number them 0, 1, 2 ... without a gap, in the label files too"
        raise FileError(path, f'"labels" has the numbers {", ".join(map(str, classes))}', remedy)
    if len(classes) > 256:
        raise FileError(path, f'"labels" has {len(classes)} classes', "Merge them to 256 at most")
    return classes


def read_ignore(path: Path, data: Mapping[str, Any]) -> int | None:
    """The value of voxels that nobody drew, by nnU-Net's convention: a label called ignore, above all classes."""
    numbered = numbered_labels(path, data)
    found = [number for number, name in numbered if name.lower() == IGNORE]
    highest = max((number for number, name in numbered if name.lower() != IGNORE), default=0)
    if found and not (len(found) == 1 and highest < found[0] <= 255):
        remedy = f'Give it one number above all classes and up to 255, such as "ignore": {highest + 1}'
        raise FileError(path, f'"labels" gives ignore the number {", ".join(map(str, found))}', remedy)
    if found == [255] and data.get("file_ending") in READERS["image"].endings:
        remedy = f'Give it another, such as "ignore": {highest + 1}, in the label files too'
        raise FileError(path, '"labels" gives ignore the number 255, which in pictures means an object', remedy)
    return found[0] if found else None


def numbered_labels(path: Path, data: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Every number and its name, as they are written."""
    labels = data.get("labels")
    if not isinstance(labels, dict):
        remedy = 'Add "labels", such as {"background": 0, "organ": 1}'
        raise FileError(path, 'names no classes ("labels")', remedy)
    return [_class(path, printable(key), value) for key, value in labels.items()]


def _class(path: Path, key: str, value: Any) -> tuple[int, str]:
    """A number and its name, from `name: number` or from the older `number: name`."""
    if isinstance(value, list):
        remedy = 'Give each class one number, such as "tumour": 2; regions are not supported'
        raise FileError(path, f'"labels" makes {key!r} a region of several values', remedy)
    number, name = (key, printable(value)) if isinstance(value, str) else (value, key)
    if isinstance(number, str) and number.isdecimal():
        number = int(number)
    if type(number) is not int:
        remedy = 'Write each class as "name": number, such as "organ": 1'
        raise FileError(path, f'"labels" gives {name!r} the number {number!r}, not an integer', remedy)
    return number, name


def _patients(path: Path, data: Mapping[str, Any]) -> Mapping[str, str]:
    patients = data.get("patients", {})
    if not isinstance(patients, dict) or not all(isinstance(patient, str) for patient in patients.values()):
        remedy = 'Write it as {"case_01": "patient_a", "case_02": "patient_a"}'
        raise FileError(path, '"patients" is not a mapping from case to patient', remedy)
    return patients


def _ending(path: Path, data: Mapping[str, Any]) -> str:
    ending = data.get("file_ending", ENDINGS[0]) or ".dcm"  # a scan that is a folder has no ending, and is DICOM
    if ending_of(Path(f"scan{ending}")) != ending:
        raise FileError(path, f'"file_ending" is {ending!r}', "Convert the scans to .nii.gz and write that")
    return str(ending)
