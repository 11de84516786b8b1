"""The Sunnybrook cardiac data, endocardium (Radau et al., MIDAS Journal 2009): the open stand-in for the York set.

    .../SC-HF-I-01/.../IM-0001-0048.dcm                          a slice at one moment
    .../SC-HF-I-01/.../IM-0001-0048-icontour-manual.txt          its endocardium: one x y a line
    scd_patientdata.csv, .../SCD0000101/CINESAX_300/*.dcm        the Cardiac Atlas's names of patients, and what they mean

or as pictures, `images/<patient>/<image>.png` beside `labels/`. Each slice is a case, unlabelled if nobody outlined it.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from coranet.data.datasets.folder import Case
from coranet.data.datasets.manifest import Manifest
from coranet.data.datasets.pictures import holds_pictures, picture_cases
from coranet.data.datasets.tree import Survey, surveyed
from coranet.data.datasets.walk import files_below
from coranet.data.problem import Problem, fatal
from coranet.data.readers import Source

MANIFEST = Manifest(title="Sunnybrook", patients=45, labelled=805, shape=((256, 256), (256, 256), (1, 1)))

_OUTLINE = re.compile(r"IM-\d+-(\d+)-icontour-manual\.txt", re.IGNORECASE)
_PATIENT = re.compile(r"(SC-(?:HF-I|HF-NI|HYP|N)-)(\d+)")
_SLICE = re.compile(r"(?:.*-)?(\d+)\.dcm", re.IGNORECASE)


def survey_sunnybrook(root: Path) -> Survey:
    """Every slice of the short axis."""
    if holds_pictures(root):
        cases, problems = picture_cases(root, lambda place: _named(place.parts[0]) or place.parts[0])
    else:
        cases, problems = _tree(root)
    layout = "outline such as SC-HF-I-01/IM-0001-0048-icontour-manual.txt with its DICOM file, nor images/ of pictures"
    return surveyed(
        root,
        channels=("MRI",),
        classes=("endocardium",),
        cases=cases,
        problems=problems,
        layout=layout,
        manifest=MANIFEST,
    )


def _tree(root: Path) -> tuple[list[Case], list[Problem]]:
    originals = _originals(root)
    outlines: dict[str, dict[int, Path]] = defaultdict(dict)
    slices: dict[str, dict[int, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for file in files_below(root):
        within = file.relative_to(root).parts[:-1]
        if (outline := _OUTLINE.fullmatch(file.name)) and (patient := _patient(within, originals)):
            outlines[patient][int(outline[1])] = file
        elif (found := _SLICE.fullmatch(file.name)) and (patient := _patient(within, originals)):
            slices[patient][int(found[1])].append(file)
    cases: list[Case] = []
    problems: list[Problem] = []
    for patient in sorted(outlines):
        found_cases, wrong = _slices(patient, outlines[patient], slices[patient])
        cases += found_cases
        problems += wrong
    return cases, problems


def _slices(
    patient: str, outlines: Mapping[int, Path], slices: Mapping[int, list[Path]]
) -> tuple[list[Case], list[Problem]]:
    """The cases of a patient, from files by number."""
    problems = [
        fatal(outline, f"has no image of its number {number} of patient {patient}", "Copy the DICOM files too")
        for number, outline in outlines.items()
        if number not in slices
    ]
    cases = []
    for number, files in sorted(slices.items()):
        # Long axes and localisers are numbered from 1 too, and lie in folders beside.
        chosen = [file for file in files if "SAX" in file.parent.name.upper()] or files
        if len(chosen) > 1:
            message = f"and {len(chosen) - 1} other files are image {number} of patient {patient}"
            problems.append(fatal(chosen[0], message, "Keep those of the short axis"))
            continue
        name, label = f"{patient}_IM-0001-{number:04d}", None
        if number in outlines:
            label = Source(path=outlines[number], reader="outline", inside=(("image", str(chosen[0])),))
        image = Source(path=chosen[0], reader="dicom")
        cases.append(Case(name=name, images=(image,), label=label, part="Tr", patient=patient))
    return cases, problems


def _patient(folders: tuple[str, ...], originals: Mapping[str, str]) -> str | None:
    """Whose a file is, by the folders it lies in."""
    return next((name for folder in folders if (name := _named(originals.get(folder, folder)))), None)


def _named(text: str) -> str | None:
    """`SC-HF-I-01`, also from `SC-HF-I-1`."""
    match = _PATIENT.fullmatch(text)
    return f"{match[1]}{int(match[2]):02d}" if match else None


def _originals(root: Path) -> Mapping[str, str]:
    """The first names of patients whom the Cardiac Atlas calls SCD0000101 and so on."""
    names: dict[str, str] = {}
    for table in (file for file in files_below(root) if file.name == "scd_patientdata.csv" and file.is_file()):
        with table.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            for row in csv.reader(file):
                atlas = next((cell for cell in row if re.fullmatch(r"SCD\d+", cell)), None)
                first = next((cell for cell in row if _named(cell)), None)
                if atlas and first:
                    names[atlas] = first
    return names
