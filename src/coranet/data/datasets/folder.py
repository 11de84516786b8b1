"""A folder of scans in nnU-Net's raw layout, or the Medical Decathlon's.

    dataset.json                    channels and classes
    imagesTr/<case>_0000.nii.gz     one file a channel; with a single channel `<case>.nii.gz` will do
    labelsTr/<case>.nii.gz          a case without one is unlabelled
    imagesTs/, labelsTs/            test cases, never trained on

Instead of `.nii.gz` it may be any one format of `READERS`, such as `.nrrd` or `.png`, or a folder of DICOM for each scan.

A case's patient is its name without endings such as `_ED`, `_ES`, `_frame01`, `_slice12`, `_visit2` and `_t03`, so that
frames of one person stay on one side of a split; `"patients": {case: patient}` in `dataset.json` says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coranet.data.datasets.description import Description, read_description
from coranet.data.datasets.label_maps import refuse_labels
from coranet.data.datasets.listed_scans import is_list, listed
from coranet.data.datasets.manifest import Manifest
from coranet.data.datasets.names import (
    case_and_channel,
    group_channels,
    nearly_same,
    patient_of,
    scans,
    stem,
    strangers,
)
from coranet.data.listing import entries
from coranet.data.problem import FileError, Problem, fatal, warning
from coranet.data.readers import READERS, Source, dicom, ending_of, label_source, source
from coranet.errors import InputError

Part = Literal["Tr", "Ts"]
PARTS: tuple[Part, Part] = ("Tr", "Ts")

_BEFORE_DICOM = (*READERS["nifti"].endings, *READERS["nrrd"].endings)
"""What in a folder of DICOM slices is a scan of its own, and no picture of them."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The files of one scan."""

    name: str
    images: tuple[Source, ...]
    """One a channel, in order."""
    label: Source | None
    part: Part
    patient: str
    ignore: int | None = None
    """The value of its label where nobody drew, where the dataset has one."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A folder's cases, in the natural order of their names, training before test."""

    root: Path
    name: str
    channels: tuple[str, ...]
    classes: Mapping[int, str]
    """0 is background."""
    cases: tuple[Case, ...]
    manifest: Manifest | None = None
    """What a whole copy holds, where the set is a published one."""
    ignore: int | None = None
    """The value of label voxels that nobody drew, where there is one."""


def read_folder(root: Path) -> Dataset:
    """The dataset in a folder; only names are looked at, no scan is read.

    Raises:
        InputError: what is first wrong with the folder, and how much more there is.
    """
    dataset, problems = survey(root)
    refuse(problems, f"; `coranet doctor {root}` lists them")
    assert dataset is not None
    return dataset


def survey(root: Path) -> tuple[Dataset | None, list[Problem]]:
    """The dataset as far as it can be made out, and all that is wrong with the folder's names and `dataset.json`."""
    if found := _not_a_folder(root):
        return None, [found]
    description, problems = read_description(root)
    if description is None:
        return None, problems
    cases: list[Case] = []
    for part in PARTS:
        found_cases, found_problems = _survey_part(root, part, description)
        cases += found_cases
        problems += found_problems
    problems += _wrong_names(root, cases, description)
    dataset = Dataset(
        root=root,
        name=description.name,
        channels=description.channels,
        classes=description.classes,
        cases=tuple(cases),
        ignore=description.ignore,
    )
    return dataset, problems


def scan_cases(path: Path, channels: int, series: str | None = None) -> tuple[Case, ...]:
    """The cases to predict: one file, all scans of a folder, with or without channel numbers, or those that a text lists.

    For several channels, one file of a case stands for them all. A folder of one DICOM series is a case named after it; of
    several, `series` chooses one by its UID or number.

    Raises:
        InputError: there is no scan, a channel is missing, or label maps lie among the scans.
    """
    if series is not None and not dicom.holds_dicom(path):
        raise FileError(path, "holds no DICOM to choose a series from", "Leave out --series, or give a DICOM folder")
    files = (path,) if series is not None else _files_to_predict(path, channels)
    inside = () if series is None else (("series", series),)
    if path.is_dir() and series is None:
        refuse_labels(path, files)
    groups, problems = group_channels(files, channels)
    refuse(problems)
    return tuple(
        Case(
            name=name,
            images=tuple(source(file, *inside) for file in files),
            label=None,
            part="Ts",
            patient=patient_of(name),
        )
        for name, files in groups.items()
    )


def _files_to_predict(path: Path, channels: int) -> tuple[Path, ...]:
    if path.is_dir():
        return _files_within(path)
    if not path.exists():
        raise FileError(path, "does not exist", "Check the path")
    if is_list(path):
        return listed(path)
    if channels == 1:
        return (path,)
    case, _ = case_and_channel(stem(path), channels, ())
    beside = tuple(file for file in scans(path.parent) if case_and_channel(stem(file), channels, ())[0] == case)
    return beside if path in beside else (path,)


def _files_within(folder: Path) -> tuple[Path, ...]:
    files = scans(folder)
    if files and ending_of(files[0]) in _BEFORE_DICOM:
        return files
    series = dicom.folders(folder)
    if folder in series or len(series) == 1:
        return (folder,)
    if files:
        return files
    inner = [each.name for each in entries(folder) if scans(each)]
    inner = [name for name in inner if name in ("imagesTr", "imagesTs")] or inner
    remedy = f"Give one of its folders: {', '.join(inner)}" if inner else "Give a scan, or a folder with scans"
    raise FileError(folder, "holds no scan", remedy)


def _not_a_folder(root: Path) -> Problem | None:
    if not root.exists():
        return fatal(root, "does not exist", "Check the path")
    if not root.is_dir():
        return fatal(root, "is not a folder", "Give the folder that holds dataset.json and imagesTr")
    if not (there := entries(root)):
        return fatal(root, "is empty", "Put dataset.json, imagesTr and labelsTr into it")
    inner = [folder.name for folder in there if (folder / "dataset.json").is_file()]
    if inner and not (root / "dataset.json").exists():
        return fatal(root, "has no dataset.json, but folders in it have", f"Give one of them: {', '.join(inner)}")
    return None


def _survey_part(root: Path, part: Part, description: Description) -> tuple[list[Case], list[Problem]]:
    """The cases of `images<part>` with their labels."""
    images, labels = root / f"images{part}", root / f"labels{part}"
    problems = [] if scans(images) or part == "Ts" else [_no_scans(images)]
    problems += [
        warning(folder, f"holds {len(names)} files that are not read, such as {names[0]}", "Convert scans to .nii.gz")
        for folder in (images, labels)
        if (names := strangers(folder))
    ]
    label_of: dict[str, Path] = {}
    for file in scans(labels):
        if (other := label_of.setdefault(stem(file), file)) != file:
            problems.append(fatal(file, f"is a second label beside {other.name}", "Keep one of the two"))
    groups, found = group_channels(scans(images), len(description.channels), label_of)
    owners = {case_and_channel(stem(file), len(description.channels), label_of)[0] for file in scans(images)}
    problems += found
    problems += [
        fatal(file, f"is a label without an image {images.name}/{name}_0000.nii.gz", "Rename it, or move it away")
        for name, file in label_of.items()
        if name not in owners
    ]
    cases = [
        Case(
            name=name,
            images=tuple(map(source, files)),
            label=label_source(label_of[name]) if name in label_of else None,
            part=part,
            patient=description.patients.get(name, patient_of(name)),
            ignore=description.ignore,
        )
        for name, files in groups.items()
    ]
    return cases, problems


def _wrong_names(root: Path, cases: list[Case], description: Description) -> list[Problem]:
    """Names that mean two cases, and names that mean none."""
    trained = {case.name for case in cases if case.part == "Tr"}
    problems = nearly_same({case.name: case.images[0].path for case in cases})
    problems += [
        fatal(case.images[0].path, "has the name of a case of imagesTr", "Rename one of the two, and its label")
        for case in cases
        if case.part == "Ts" and case.name in trained
    ]
    unknown = sorted(set(description.patients) - {case.name for case in cases})
    if unknown:
        message = f'"patients" names cases that do not exist: {", ".join(unknown[:5])}'
        problems.append(fatal(root / "dataset.json", message, "Write the names of cases, without _0000 and .nii.gz"))
    return problems


def _no_scans(images: Path) -> Problem:
    if not images.is_dir():
        return fatal(images, "does not exist", "Put the training scans there, as <case>_0000.nii.gz")
    return fatal(images, "holds no scan", "Put the training scans there, as <case>_0000.nii.gz")


def refuse(problems: list[Problem], hint: str = "") -> None:
    """Raise the first fatal problem, and say how many follow."""
    stops = [problem for problem in problems if problem.level == "fatal"]
    if stops:
        more = f" And {len(stops) - 1} more{hint}." if len(stops) > 1 else ""
        raise InputError(f"{stops[0]}{more}")
