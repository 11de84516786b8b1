"""Pancreas-CT of the Cancer Imaging Archive (Roth et al., 2016).

    .../PANCREAS_0001/<study>/<series>/*.dcm      the scan
    .../label0001.nii.gz                          its label, in an archive of its own

The labels' headers do not say how they lie on the scans: copies of the set have them mirrored. So a few scans are read to
find, by `data.alignment`, the way to turn labels that fits best; it is said, and all labels are turned so. Cases 25 and 70
are duplicates, which the archive withdrew; where an older copy has them they are left out.

Slices as pictures, `images/PANCREAS_0001-1106.jpg` beside `masks/`, slices in Hounsfield units, `img_000.npy` beside
`mask_000.npy`, and HDF5 files are recognised too. Grey levels of pictures are no Hounsfield units, and their channel's name
says so.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from coranet.data.datasets.folder import Case, survey
from coranet.data.datasets.h5 import holds_h5, survey_h5
from coranet.data.datasets.manifest import Manifest
from coranet.data.datasets.pictures import array_cases, holds_pictures, picture_cases
from coranet.data.datasets.tree import Survey, surveyed
from coranet.data.datasets.walk import files_below
from coranet.data.problem import FileError, Problem, fatal, warning
from coranet.data.readers import Source

if TYPE_CHECKING:
    from coranet.data.alignment import Turn, Verdict

MANIFEST = Manifest(title="Pancreas-CT", patients=80, labelled=80, shape=((512, 512), (512, 512), (181, 466)))
DUPLICATES = ("0025", "0070")

_READ = 6
"""Scans that are read to see how labels lie."""
_LABEL = re.compile(r"label(\d{4})\.nii(?:\.gz)?")
_PATIENT = re.compile(r"PANCREAS_(\d{4})")


def survey_pancreas_ct(root: Path) -> Survey:
    """Every patient with DICOM files."""
    if (root / "dataset.json").exists():
        return survey(root)
    if holds_h5(root):
        return survey_h5(root)
    cases: list[Case] = []
    problems: list[Problem] = []
    manifest: Manifest | None = MANIFEST
    channel = "CT"
    if holds_pictures(root):
        cases, problems = picture_cases(root, _patient_of)
        manifest, channel = None, "windowed"
    elif cases := array_cases(root):
        manifest = None
    else:
        cases, problems = _tree(root)
        cases, said = _laid(root, cases)
        problems += said
    return surveyed(
        root,
        channels=(channel,),
        classes=("pancreas",),
        cases=cases,
        problems=problems,
        layout="folder PANCREAS_0001 with DICOM files, nor images/ of pictures, nor img_000.npy",
        manifest=manifest,
    )


def _patient_of(place: Path) -> str:
    found = _PATIENT.search(str(place))
    return found[0] if found else place.stem


def _tree(root: Path) -> tuple[list[Case], list[Problem]]:
    """The cases, their labels not yet laid on the scans."""
    labels: dict[str, Path] = {}
    folders: dict[str, Path] = {}
    for file in files_below(root):
        if label := _LABEL.fullmatch(file.name):
            labels[label[1]] = file
        elif folder := next((folder for folder in file.parents if _PATIENT.fullmatch(folder.name)), None):
            folders[folder.name.removeprefix("PANCREAS_")] = folder
    problems = []
    if there := [number for number in DUPLICATES if number in folders]:
        message = f"has cases {' and '.join(there)}, duplicates that the archive withdrew: they are left out"
        problems.append(warning(root, message, "Nothing to do"))
    problems += [
        warning(file, f"is the label of a scan PANCREAS_{number} that is not there", "Copy the scan too")
        for number, file in labels.items()
        if number not in folders and number not in DUPLICATES
    ]
    cases = [
        Case(
            name=folder.name,
            images=(Source(path=folder, reader="dicom"),),
            label=Source(path=labels[number]) if number in labels else None,
            part="Tr",
            patient=folder.name,
        )
        for number, folder in sorted(folders.items())
        if number not in DUPLICATES
    ]
    return cases, problems


def _laid(root: Path, cases: list[Case]) -> tuple[list[Case], list[Problem]]:
    """The cases with their labels turned as fits the scans, and in words how."""
    from coranet.data.alignment import judge  # slow to import, and not needed for other datasets

    known = [case for case in cases if case.label is not None]
    if not known:
        return cases, []
    chosen = known[:: max(1, len(known) // _READ)][:_READ]
    verdict = judge((case.patient, _fits(case)) for case in chosen)
    if verdict is None or 2 * verdict.votes <= verdict.voters:
        votes = f"{verdict.votes} of {verdict.voters} scans agree" if verdict else "shapes differ, or none can be read"
        remedy = "Check that scans and labels belong together"
        return cases, [fatal(root, f"has labels that fit their scans no way: {votes}", remedy)]
    return [_turned(case, verdict.turn) for case in cases], [_in_words(root, verdict)]


def _fits(case: Case) -> dict[Turn, float]:
    from coranet.data.alignment import fits

    assert case.label is not None
    try:
        return fits(case.images[0].read().array, case.label.read().array)
    except FileError:  # said when the case itself is read; the others tell enough
        return {}


def _in_words(root: Path, verdict: Verdict) -> Problem:
    found = f"has labels that fit their scans best {verdict.turn}, by {verdict.votes} of {verdict.voters} scans"
    if verdict.clear:
        return warning(root, f"{found}: all are turned so", "Nothing to do; `coranet doctor --overlay` shows them")
    return warning(root, f"{found}, which is not certain", "Look at them with `coranet doctor --overlay`")


def _turned(case: Case, turn: Turn) -> Case:
    if case.label is None:
        return case
    inside = (("of", case.label.reader), ("image", str(case.images[0].path)), ("turn", turn.steps))
    return replace(case, label=Source(path=case.label.path, reader="laid", inside=inside))
