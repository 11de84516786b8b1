"""What compared runs are scored on: scans of a raw folder on their own grids, or cases of a store on the store's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coranet.data.datasets.description import IGNORE
from coranet.data.datasets.folder import read_folder
from coranet.data.grid import Grid
from coranet.data.readers import nifti
from coranet.data.splits.by_patient import Split
from coranet.data.store import Store
from coranet.errors import InputError
from coranet.files import make_folder, write_atomically

_WAY_OUT = (
    "Draw a split with test cases (coranet split {data} --ratio 1:4 --test 10 --out FILE), and give it with --split."
)


@dataclass(frozen=True, kw_only=True)
class Exam:
    """What runs are scored on."""

    images: Path
    labels: Path
    cases: tuple[str, ...]
    patients: Mapping[str, str]
    """Of each case."""
    kind: str
    """What people call these cases."""
    store: Path | None = None
    """Where they lie prepared, if that is all there is of them: images and labels are then what the store holds."""


def find_exam(data: Path, split: Split | None) -> Exam:
    """The split's test cases, or the labelled cases of imagesTs; never one that is trained on.

    Raises:
        InputError: there are none, they have no label, or they do not lie in one folder.
    """
    cases = {case.name: case for case in read_folder(data).cases}
    trained = {cases[name].patient for name in (split.stored if split else ()) if name in cases}
    if split and split.test:
        if unknown := [name for name in split.test if name not in cases or cases[name].label is None]:
            raise InputError(f"{data}: has no scan or no label of the split's test cases {', '.join(unknown)}.")
        names, kind = split.test, "test cases of the split"
    else:
        kind = "cases of imagesTs"
        names = tuple(name for name, case in cases.items() if case.part == "Ts" and case.label is not None)
        if not names:
            raise InputError(
                f"{data}: has nothing to compare on: no case of imagesTs has a label in labelsTs, and no split lists test "
                "cases. Give a file with a list named test (--split)."
            )
        if shared := [name for name in names if cases[name].patient in trained]:
            raise InputError(f"The split trains on patients of {', '.join(shared)}. List its test cases under test.")
    parts = {cases[name].part for name in names}
    if len(parts) > 1:
        raise InputError("The split's test cases lie in imagesTr and in imagesTs. Choose them from one of the two.")
    (part,) = parts
    patients = {name: cases[name].patient for name in names}
    return Exam(images=data / f"images{part}", labels=data / f"labels{part}", cases=names, patients=patients, kind=kind)


def find_store_exam(data: Path, split: Split | None, folder: Path) -> Exam:
    """Of a store: the split's test cases, the labelled test cases it holds, or the split's validation cases.

    Validation cases will do, since nothing is chosen by them. They have to be a file's: those that are drawn change with
    the seed. Nothing is written here; images and labels will lie below `folder`.

    Raises:
        InputError: there are none, or the store does not hold them with their labels.
    """
    cases = Store.open(data).cases
    trained = (
        {cases[name].patient for name in (*split.labelled, *split.unlabelled) if name in cases} if split else set()
    )
    set_apart = tuple(name for name, case in cases.items() if case.part == "Ts" and case.labelled)
    if split and split.test:
        names, kind = split.test, "test cases of the split"
    elif free := tuple(name for name in set_apart if cases[name].patient not in trained):
        names, kind = free, "test cases of the store"
    elif split and split.val:
        names, kind = split.val, "validation cases of the split, as it lists no test cases"
    else:
        raise InputError(f"{data}: has nothing to compare on. {_WAY_OUT.format(data=data)}")
    if absent := [name for name in names if name not in cases or not cases[name].labelled]:
        raise InputError(f"{data}: does not hold {', '.join(absent[:5])} with a label. {_WAY_OUT.format(data=data)}")
    patients = {name: cases[name].patient for name in names}
    images, labels = folder / "images", folder / "labels"
    return Exam(
        images=images, labels=labels, cases=names, patients=patients, kind=f"{kind}, on its own grid", store=data
    )


def write_store_exam(exam: Exam) -> None:
    """The images and labels of a store's cases as NIfTI, for scores and pictures; what is there is not written again."""
    assert exam.store is not None
    store = Store.open(exam.store)
    make_folder(exam.images)
    make_folder(exam.labels)
    for name in exam.cases:
        geometry = Grid.from_json(store.cases[name].grid).geometry
        for number, channel in enumerate(store.image(name)):
            if not (file := exam.images / f"{name}_{number:04d}.nii.gz").exists():
                nifti.write(file, channel, geometry)
        if not (file := exam.labels / f"{name}.nii.gz").exists():
            nifti.write(file, store.label(name), geometry)
    if store.ignore is not None:
        named = {name: value for value, name in store.classes.items()} | {IGNORE: store.ignore}
        write_atomically(exam.labels / "dataset.json", json.dumps({"labels": named}).encode())
