"""ACDC, the cardiac challenge of 2017, as it is handed out (Bernard et al., IEEE TMI 2018).

    training/patient001/Info.cfg                           which frames are end-diastole (ED) and end-systole (ES)
    training/patient001/patient001_frame01.nii.gz          these two frames, each with its label
    training/patient001/patient001_frame01_gt.nii.gz
    training/patient001/patient001_4d.nii.gz               the whole cycle: not read
    testing/patient101/...                                 test cases, labelled or not

The HDF5 files of SSL4MIS, and a folder in nnU-Net's layout, are recognised too.
"""

from __future__ import annotations

import re
from pathlib import Path

from coranet.data.datasets.folder import Case, Part, survey
from coranet.data.datasets.h5 import holds_h5, survey_h5
from coranet.data.datasets.manifest import Manifest
from coranet.data.datasets.tree import Survey, surveyed, with_manifest
from coranet.data.datasets.walk import files_below
from coranet.data.listing import entries
from coranet.data.problem import Problem, fatal, warning
from coranet.data.readers import source
from coranet.data.readers.nifti import ENDINGS

CLASSES = ("RV", "Myo", "LV")
MANIFEST = Manifest(title="ACDC", patients=100, labelled=200, shape=((154, 512), (154, 512), (6, 18)))
"""The training patients."""
WITH_TEST = Manifest(title="ACDC", patients=150, labelled=300)


def survey_acdc(root: Path) -> Survey:
    """The ED and ES frames of every patient."""
    if (root / "dataset.json").exists():
        return with_manifest(survey(root), MANIFEST)
    if holds_h5(root):
        return survey_h5(root)
    cases: list[Case] = []
    problems: list[Problem] = []
    folders = dict.fromkeys(file.parent for file in files_below(root))
    for folder in (folder for folder in folders if re.fullmatch(r"patient\d{3}", folder.name)):
        part: Part = "Ts" if folder.parent.name.lower().startswith("test") else "Tr"
        found, wrong = _patient(folder, part)
        cases += found
        problems += wrong
    manifest = WITH_TEST if any(case.part == "Ts" for case in cases) else MANIFEST
    layout = "folder patient001 with patient001_frame01.nii.gz in it"
    return surveyed(
        root, channels=("MRI",), classes=CLASSES, cases=cases, problems=problems, layout=layout, manifest=manifest
    )


def _patient(folder: Path, part: Part) -> tuple[list[Case], list[Problem]]:
    frames, problems = _frames(folder)
    cases = []
    for frame in frames:
        name = f"{folder.name}_frame{frame:02d}"
        image, label = _file(folder, name), _file(folder, f"{name}_gt")
        if image is None:
            problems.append(fatal(folder, f"has no {name}.nii.gz, which its Info.cfg names", "Copy it again"))
            continue
        cases.append(
            Case(
                name=name,
                images=(source(image),),
                label=source(label) if label else None,
                part=part,
                patient=folder.name,
            )
        )
    return cases, problems


def _frames(folder: Path) -> tuple[list[int], list[Problem]]:
    """The numbers of the ED and the ES frame, by Info.cfg or, without one, by the labels there are."""
    info = folder / "Info.cfg"
    try:
        text = info.read_text(encoding="utf-8", errors="replace") if info.is_file() else None
    except OSError:
        text = None
    if text is None:
        labels = (re.fullmatch(r"patient\d{3}_frame(\d+)_gt\.nii(\.gz)?", file.name) for file in entries(folder))
        found = sorted(int(match[1]) for match in labels if match)
        message = f"has no Info.cfg: frames {', '.join(map(str, found)) or 'with labels there are none'} are taken"
        return found, [warning(folder, message, "Copy Info.cfg too, to be sure of the frames")]
    numbers = re.findall(r"^(ED|ES)\s*:\s*(\d+)", text, flags=re.MULTILINE)
    if {phase for phase, _ in numbers} != {"ED", "ES"}:
        return [], [fatal(folder / "Info.cfg", "does not say which frames are ED and ES", "Copy it again")]
    return sorted({int(number) for _, number in numbers}), []


def _file(folder: Path, name: str) -> Path | None:
    return next((folder / f"{name}{ending}" for ending in ENDINGS if (folder / f"{name}{ending}").is_file()), None)
