"""The HDF5 files that code for semi-supervised segmentation passes around. They state no spacing.

    data/slices/patient001_frame01_slice_1.h5     SSL4MIS: ACDC slice by slice; the slices of a frame become one case
    data/patient001_frame01.h5                    SSL4MIS: ACDC as volumes (z, y, x)
    <case>/mri_norm2.h5                           UA-MT: the left atrium, cropped (x, y, z)
    0001.h5, image0001_norm.h5                    Pancreas-CT, cropped (x, y, z), of CoraNet and BCP, of MC-Net and DTC

Other names need a `dataset.json` beside them that names channels and classes, as in nnU-Net's layout. A file without an
array `label` is an unlabelled case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from coranet.data.datasets.description import read_description
from coranet.data.datasets.folder import Case
from coranet.data.datasets.manifest import Manifest
from coranet.data.datasets.names import patient_of
from coranet.data.datasets.tree import Survey, surveyed
from coranet.data.datasets.walk import files_below
from coranet.data.problem import FileError, Problem, fatal, warning
from coranet.data.readers import Source
from coranet.data.readers.hdf5 import ENDINGS, find_key

_SLICE = re.compile(r"(?P<case>.+)_slice_?(?P<number>\d+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class _Form:
    """One of the known layouts."""

    names: str
    """What its files are called, as a pattern of the last two parts of the path."""
    channel: str
    classes: tuple[str, ...]
    axes: str
    """Of a volume."""
    manifest: Manifest


_FORMS = (
    _Form(
        names=r".*/patient\d{3}_frame\d+(_slice_?\d+)?",
        channel="MRI",
        classes=("RV", "Myo", "LV"),
        axes="zyx",
        manifest=Manifest(title="ACDC", patients=100, labelled=200, shape=((154, 512), (154, 512), (6, 18))),
    ),
    _Form(
        names=r".*/mri_norm2",
        channel="MRI",
        classes=("left atrium",),
        axes="xyz",
        manifest=Manifest(title="the left atrium set of UA-MT", patients=100, labelled=100),
    ),
    _Form(
        names=r".*/(\d{4}|image\d{4}(_norm)?)",
        channel="CT",
        classes=("pancreas",),
        axes="xyz",
        manifest=Manifest(title="Pancreas-CT", patients=80, labelled=80),
    ),
)


def holds_h5(root: Path) -> bool:
    """Whether a folder, or one in it, holds HDF5 files."""
    return bool(_files(root))


def survey_h5(root: Path) -> Survey:
    """One case for each volume, and for each frame that is kept as slices."""
    files = _files(root)
    form, strays = _form_of(files)
    if strays and (root / "dataset.json").exists():  # which says what all of them are
        form, strays = None, []
    volumes, stacks, problems = _sorted_out([file for file in files if file not in strays])
    problems += [
        warning(file, f"is named otherwise than the files of {form.manifest.title}, and is left out", "Move it away")
        for file in strays
        if form
    ]
    channels: tuple[str, ...] = (form.channel,) if form else ()
    classes = form.classes if form else ()
    ignore = None
    if form is None and files:
        description, found = read_description(root)
        if description is None:
            remedy = f"Name them as these sets do, or write a dataset.json: {found[0].remedy}"
            return None, [fatal(root, f"holds HDF5 files of no known set, such as {files[0].name}", remedy)]
        channels, classes = description.channels, tuple(description.classes.values())[1:]
        ignore = description.ignore
        if len(channels) > 1:
            message = f"names {len(channels)} channels, and an HDF5 file holds one"
            return None, [fatal(root / "dataset.json", message, "Convert the scans to NIfTI, one file a channel")]
    axes = form.axes if form else None
    cases = []
    for name, file in (*volumes.items(), *stacks.items()):
        try:
            cases.append(_case(name, file, axes, stacked=name in stacks))
        except FileError as error:
            problems.append(error.problem)
    return surveyed(
        root,
        channels=channels,
        classes=classes,
        cases=cases,
        problems=problems,
        layout="HDF5 file (.h5)",
        manifest=form.manifest if form else None,
        ignore=ignore,
    )


def _files(root: Path) -> list[Path]:
    return [file for file in files_below(root) if file.name.endswith(ENDINGS)]


def _form_of(files: list[Path]) -> tuple[_Form | None, list[Path]]:
    """The layout that most of the files have, and those that have not."""
    strays = {form: [file for file in files if not _is(form, file)] for form in _FORMS}
    form = min(_FORMS, key=lambda form: len(strays[form]))
    return (form, strays[form]) if 2 * len(strays[form]) < len(files) else (None, [])


def _is(form: _Form, file: Path) -> bool:
    return re.fullmatch(form.names, f"{file.parent.name}/{file.stem}") is not None


def _sorted_out(files: list[Path]) -> tuple[dict[str, Path], dict[str, Path], list[Problem]]:
    """The files of volumes and the first files of stacks, by name; a case that is there as both is read as a volume."""
    volumes: dict[str, Path] = {}
    stacks: dict[str, Path] = {}
    problems: list[Problem] = []
    for file in files:
        sliced = _SLICE.fullmatch(file.stem)
        name = sliced["case"] if sliced else file.parent.name if file.stem == "mri_norm2" else file.stem
        kept = (stacks if sliced else volumes).setdefault(name, file)
        if kept.parent != file.parent or (not sliced and kept != file):
            problems.append(fatal(file, f"is a second file of {name} beside {kept}", "Keep one of the two"))
    both = sorted(set(volumes) & set(stacks))
    if both:
        message = f"holds slices of {len(both)} cases that are there as volumes too, such as {both[0]}: these are read"
        problems.append(warning(stacks[both[0]].parent, message, "Nothing to do"))
    return volumes, {name: file for name, file in stacks.items() if name not in volumes}, problems


def _case(name: str, file: Path, axes: str | None, *, stacked: bool) -> Case:
    image, label = find_key(file, "image"), find_key(file, "label")
    if image is None:
        raise FileError(file, "holds no array of an image", "Call the image 'image' and the label 'label'")
    what: tuple[tuple[str, str | int], ...] = () if stacked or axes is None else (("axes", axes),)
    what = (*what, ("of", "h5")) if stacked else what
    reader = "stack" if stacked else "h5"
    return Case(
        name=name,
        images=(Source(path=file, reader=reader, inside=(("key", image), *what)),),
        label=Source(path=file, reader=reader, inside=(("key", label), *what)) if label else None,
        part="Tr",
        patient=patient_of(name),
    )
