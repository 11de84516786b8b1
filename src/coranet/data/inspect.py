"""What is wrong with a dataset, all of it at once, and what is in it: the eyes of `coranet doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from coranet.data.datasets.folder import PARTS, Case, Dataset, survey
from coranet.data.datasets.names import scans
from coranet.data.facts import Facts, Seen, Spread, gather_facts
from coranet.data.grid import mismatch
from coranet.data.prepare import OTHER_GRID, label_values
from coranet.data.problem import FileError, Problem, fatal, warning
from coranet.data.readers.nifti import read

__all__ = ["Facts", "Problem", "Report", "Spread", "inspect_folder"]

_WIDE = 2.0
"""Largest over smallest spacing along an axis beyond which one network hardly serves all scans as they are."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings, fatal ones first."""

    dataset: Dataset | None
    """None where the folder or its `dataset.json` cannot be made out."""
    problems: tuple[Problem, ...]
    facts: Facts | None

    @property
    def fatal(self) -> bool:
        """Whether training cannot start."""
        return any(problem.level == "fatal" for problem in self.problems)


def inspect_folder(root: Path, on_progress: Callable[[int, int], None] | None = None) -> Report:
    """Read every scan and label of a dataset once, and say all that is wrong; `on_progress(done, total)` a file."""
    dataset, problems = survey(root)
    files = [
        (file, see)
        for part in PARTS
        for kind, see in (("images", _see_image), ("labels", _see_label))
        for file in scans(root / f"{kind}{part}")
    ]
    seen: dict[Path, Seen] = {}
    for done, (file, see) in enumerate(files, start=1):
        try:
            seen[file], found = see(file)
            problems += found
        except FileError as error:
            problems.append(error.problem)
        if on_progress:
            on_progress(done, len(files))
    facts = gather_facts(dataset, seen) if dataset else None
    if dataset and facts:
        for case in dataset.cases:
            problems += _check_case(case, dataset, seen)
        problems += _check_dataset(dataset, facts)
    ordered = sorted((_shortened(problem, root) for problem in problems), key=lambda problem: problem.level)
    return Report(dataset=dataset, problems=tuple(ordered), facts=facts)


def _shortened(problem: Problem, root: Path) -> Problem:
    """File names as seen from the dataset's folder."""
    file = Path(problem.file)
    return replace(problem, file=str(file.relative_to(root))) if root in file.parents else problem


def _see_image(file: Path) -> tuple[Seen, list[Problem]]:
    volume = read(file)
    problems = []
    finite = np.isfinite(volume.array)
    if not finite.all():
        message = f"has {finite.size - int(finite.sum())} voxels that are not finite"
        problems.append(fatal(file, message, "Replace them, such as by the value of air, or leave the case out"))
    values = volume.array[finite] if finite.any() else np.zeros(1)
    lowest, highest = float(values.min()), float(values.max())
    if lowest == highest:
        problems.append(warning(file, f"is {lowest:g} everywhere", "Check the export, or leave the case out"))
    return Seen(geometry=volume.geometry, lowest=lowest, highest=highest, counts={}), problems


def _see_label(file: Path) -> tuple[Seen, list[Problem]]:
    volume = read(file)
    numbers = np.bincount(label_values(volume).ravel())
    counts = {value: int(number) for value, number in enumerate(numbers) if number}
    problems = []
    if set(counts) == {0}:
        remedy = "Check that it is the right file; remove it if the case is not labelled"
        problems.append(warning(file, "is all background", remedy))
    return Seen(geometry=volume.geometry, lowest=min(counts), highest=max(counts), counts=counts), problems


def _check_case(case: Case, dataset: Dataset, seen: Mapping[Path, Seen]) -> Iterable[Problem]:
    """Whether the files of a case belong together, and its label to the dataset."""
    files = [file for file in (*case.images, case.label) if file and file in seen]
    for other in files[1:]:
        if difference := mismatch(seen[files[0]].geometry, seen[other].geometry):
            yield fatal(other, f"does not lie on the grid of {files[0].name}: {difference}", OTHER_GRID)
    if case.label and case.label in seen:
        unknown = sorted(set(seen[case.label].counts) - set(dataset.classes))
        if unknown:
            names = ", ".join(f"{value} {name}" for value, name in dataset.classes.items())
            message = f"has label values {', '.join(map(str, unknown))} that dataset.json does not name ({names})"
            yield fatal(case.label, message, "Name them in dataset.json, or renumber the label")


def _check_dataset(dataset: Dataset, facts: Facts) -> Iterable[Problem]:
    """What no single case shows."""
    images, labels = dataset.root / "imagesTr", dataset.root / "labelsTr"
    if not facts.labelled:
        yield fatal(labels, "labels no case of imagesTr", "Label at least one case, as <case>.nii.gz")
    elif not facts.unlabelled:
        remedy = "Put scans without a label into imagesTr too, if you have them"
        yield warning(images, "has no unlabelled case, so training is supervised", remedy)
    for name, share in facts.class_shares.items():
        if facts.labelled and not share:
            yield warning(labels, f"has no voxel of class {name}", "Label one, or drop the class from dataset.json")
    trained, tested = ({case.patient for case in dataset.cases if case.part == part} for part in PARTS)
    if both := sorted(trained & tested):
        remedy = 'Move all their cases to one side; "patients" in dataset.json says whose a case is'
        yield warning(dataset.root / "imagesTs", f"shares patients with imagesTr: {', '.join(both[:5])}", remedy)
    if len(facts.orientations) > 1:
        counts = ", ".join(f"{count} {code}" for code, count in facts.orientations.items())
        yield warning(images, f"has scans of different orientations ({counts})", "Nothing to do: all are turned alike")
    spacings = zip(facts.spacings.smallest, facts.spacings.median, facts.spacings.largest, "XYZ", strict=True)
    for smallest, median, largest, axis in spacings:
        if largest > _WIDE * smallest:
            message = f"has spacings from {smallest:.3g} to {largest:.3g} mm along {axis}"
            yield warning(images, message, f"Consider resampling to the median, {median:.3g} mm")
