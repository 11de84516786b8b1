"""A set as a folder in nnU-Net's layout, so that runs, scores and pictures read it like any other. It is written once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets import survey_dataset
from coranet.data.datasets.folder import Case, Dataset, refuse
from coranet.data.prepare.cases import label_values
from coranet.data.readers import Volume, nifti
from coranet.errors import InputError
from coranet.files import part_of
from coranet.paper.sets import ScanSet

See = Callable[[Case, Volume], NDArray[Any]]
"""From a case and one of its channels to the grey levels that are written."""


def lay_out(scans: ScanSet, source: Path | None, home: Path) -> Path:
    """The set as a folder in nnU-Net's layout: where it is one already, or written to `home`.

    Raises:
        InputError: the set cannot be read.
    """
    whole = not (scans.objects or scans.one_part)
    if source is not None and whole and (source / "dataset.json").exists() and "folder" in scans.readers:
        return source

    def write(beside: Path) -> None:
        dataset = _dataset(scans, source, beside / "source")
        kept = scans.objects or {value: name for value, name in dataset.classes.items() if value}
        write_cases(dataset, beside / "made", kept=kept, one_part=scans.one_part, made_of=_told(source))

    return write_once(home / (scans.layout or scans.name), _told(source), write)


def _told(source: Path | None) -> str:
    return str(source.resolve()) if source else ""


def write_once(place: Path, made_of: str, write: Callable[[Path], None]) -> Path:
    """A laid-out folder, made in one move where it is not there: `write` is given a folder and leaves it there as `made`.

    Raises:
        InputError: it is there and was made of other scans, or it cannot be written.
    """
    about = place / "dataset.json"
    if about.exists():
        before = json.loads(about.read_text(encoding="utf-8")).get("made_of", made_of)
        if before != made_of:
            raise InputError(
                f"{place}: was laid out from {before}, and --data is {made_of}. Give that folder, or another --out."
            )
        return place
    beside = part_of(place.with_name(f"{uuid4().hex}-{place.name}"))
    try:
        write(beside)
        (beside / "made").replace(place)
    except OSError as error:
        if not about.exists():  # else another process made the same one meanwhile
            raise InputError(f"{place}: cannot be written ({error.strerror}). Choose another --out.") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return place


def _dataset(scans: ScanSet, source: Path | None, beside: Path) -> Dataset:
    if scans.generate is not None:
        source = scans.generate(beside)
    assert source is not None
    for reader in scans.readers or ("folder",):
        dataset, problems = survey_dataset(source, reader)
        if dataset is not None:
            refuse(problems, f"; `coranet doctor {source} --dataset {reader}` lists them")
            return dataset
    raise InputError(f"{source}: is not {scans.title}. Give the folder that it lies in with --data.")


def write_cases(
    dataset: Dataset,
    root: Path,
    *,
    kept: Mapping[int, str],
    made_of: str,
    one_part: bool = False,
    see: See = lambda case, image: image.array,
) -> None:
    """All cases with the classes that are kept, by value, renumbered from 1."""
    root.mkdir(parents=True)
    patients = {}
    for case in dataset.cases:
        part = "Tr" if one_part else case.part
        images, label = [image.read() for image in case.images], case.label.read() if case.label else None
        for channel, image in enumerate(images):
            _put(root / f"images{part}" / f"{case.name}_{channel:04d}.nii.gz", see(case, image), image)
        if label is not None:
            classes = label_values(label)
            values = np.zeros_like(classes)
            for number, value in enumerate(kept, start=1):
                values[classes == value] = number
            _put(root / f"labels{part}" / f"{case.name}.nii.gz", values, label)
        patients[case.name] = case.patient
    about = {
        "name": dataset.name,
        "channel_names": {str(number): name for number, name in enumerate(dataset.channels)},
        "labels": {"background": 0, **{name: number for number, name in enumerate(kept.values(), start=1)}},
        "file_ending": ".nii.gz",
        "patients": patients,
        "made_of": made_of,
    }
    (root / "dataset.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def _put(path: Path, array: NDArray[Any], like: Volume) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nifti.write(path, array, like.geometry, flat=like.flat)
