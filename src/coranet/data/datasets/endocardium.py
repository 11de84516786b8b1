"""The York cardiac MR set, endocardium (Andreopoulos and Tsotsos, Medical Image Analysis 2008).

    sol_yxzt_pat1.mat                   the scan of a subject: y, x, slices, 20 moments
    manual_seg_32points_pat1.mat        its outlines, a cell for each slice and moment; -99999 where nobody drew one

A case is one moment of a subject, with the slices that were outlined; the other slices of that moment are an unlabelled case
of their own, `..._rest`, since nothing says that there is no heart in them. Pixels measure 0.9 to 1.6 mm and slices 6 to 13
mm, but the files do not say which subject has what: voxels are taken for 1 mm.
"""

from __future__ import annotations

import re
from pathlib import Path

from coranet.data.datasets.folder import Case
from coranet.data.datasets.manifest import Manifest
from coranet.data.datasets.tree import Survey, surveyed
from coranet.data.datasets.walk import files_below
from coranet.data.problem import FileError, Problem, fatal, warning
from coranet.data.readers import Source
from coranet.data.readers.contours import york_outlines
from coranet.data.readers.york import york_scan

MANIFEST = Manifest(title="the York set", patients=33, labelled=660, shape=((256, 256), (256, 256), (1, 15)))
IMAGES = 7980
"""Slices at all moments, in a whole copy."""

_SCAN = re.compile(r"sol_yxzt_pat(\d+)\.mat")


def survey_endocardium(root: Path) -> Survey:
    """Every moment of every subject."""
    cases: list[Case] = []
    problems: list[Problem] = []
    below = files_below(root)
    files = {int(match[1]): file for file in below if (match := _SCAN.fullmatch(file.name))}
    outlines = {file.name: file for file in below if re.fullmatch(r"manual_seg_32points_pat\d+\.mat", file.name)}
    images = 0
    for number, file in sorted(files.items()):
        try:
            found = _subject(number, file, outlines.pop(f"manual_seg_32points_pat{number}.mat", None))
        except FileError as error:
            problems.append(error.problem)
            continue
        cases += found[0]
        images += found[1]
    problems += [
        fatal(file, "has outlines of a scan that is not there", "Copy the scan too") for file in outlines.values()
    ]
    if len(files) == MANIFEST.patients and images != IMAGES:
        remedy = "Check that the files are the original ones"
        problems.append(warning(root, f"has {images} images, {MANIFEST.title} has {IMAGES}", remedy))
    return surveyed(
        root,
        channels=("MRI",),
        classes=("endocardium",),
        cases=cases,
        problems=problems,
        layout="file sol_yxzt_pat1.mat",
        manifest=MANIFEST,
    )


def _subject(number: int, file: Path, outlined: Path | None) -> tuple[list[Case], int]:
    """The cases of a subject, and how many images it has."""
    _, _, slices, frames = york_scan(file).shape
    drawn = york_outlines(outlined) if outlined else {}
    if beyond := [place for place in drawn if place[0] >= slices or place[1] >= frames]:
        message = (
            f"outlines slice {beyond[0][0]} of frame {beyond[0][1]}, the scan has {slices} slices and {frames} frames"
        )
        raise FileError(outlined or file, message, "Check that it belongs to this scan")
    cases = []
    for frame in range(frames):
        name = f"pat{number:02d}_frame{frame + 1:02d}"
        labelled = [place for place in range(slices) if (place, frame) in drawn]
        rest = [place for place in range(slices) if (place, frame) not in drawn]
        if labelled and outlined:
            cases.append(_case(name, number, file, frame, labelled, outlined))
        if rest:
            cases.append(_case(f"{name}_rest", number, file, frame, rest, None))
    return cases, slices * frames


def _case(name: str, number: int, file: Path, frame: int, places: list[int], outlined: Path | None) -> Case:
    meant = (("frame", frame), ("slices", ",".join(map(str, places))))
    image = Source(path=file, reader="slices", inside=(("of", "york_scan"), *meant))
    label = None
    if outlined:
        label = Source(path=outlined, reader="slices", inside=(("of", "york_outlines"), ("image", str(file)), *meant))
    return Case(name=name, images=(image,), label=label, part="Tr", patient=f"pat{number:02d}")
