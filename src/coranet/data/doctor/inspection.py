"""What is wrong with a dataset, all of it at once, and what is in it: the eyes of `coranet doctor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coranet.data.alignment import Turn, Verdict, fits, judge
from coranet.data.datasets import survey_dataset
from coranet.data.datasets.folder import PARTS, Case, Dataset
from coranet.data.datasets.names import scans
from coranet.data.doctor.checks import check_alignment, check_case, check_dataset
from coranet.data.doctor.facts import Facts, Seen, Spread, gather_facts
from coranet.data.doctor.outliers import Oddity, Trait, brightness_of, outliers, traits
from coranet.data.grid import mismatch
from coranet.data.prepare.cases import label_values
from coranet.data.problem import FileError, Problem, fatal, warning
from coranet.data.readers import Source, Volume, source

__all__ = ["Facts", "OnCase", "Problem", "Report", "Spread", "inspect_folder"]

Label = NDArray[np.uint8]
OnCase = Callable[[Case, Sequence[Volume], Label | None, Mapping[int, str]], None]
"""Sees a case that could be read while it is in memory: its channels, the label's values where it has one, the classes."""
Look = Callable[[Volume, Path], tuple[Seen, list[Problem]]]
"""What is to be kept of a file, and what is wrong with it."""

_FEW = 3
"""Warnings with one remedy that are all listed."""
_SAMPLE = 200_000
"""Voxels that percentiles are taken from."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings, fatal ones first."""

    dataset: Dataset | None
    """None where the folder or its `dataset.json` cannot be made out."""
    problems: tuple[Problem, ...]
    facts: Facts | None
    outliers: Mapping[str, tuple[Oddity, ...]] = field(default_factory=dict)
    """The cases unlike the others, oddest first."""
    alignment: Verdict | None = None
    """How the labels lie on the images, of the cases where both have one grid."""

    @property
    def fatal(self) -> bool:
        """Whether training cannot start."""
        return any(problem.level == "fatal" for problem in self.problems)

    def lines(self, leave_out: Callable[[Problem], bool] = lambda problem: False) -> list[str]:
        """The problems in words; of many warnings with one remedy the first, and how many more there are."""
        told = [problem for problem in self.problems if not leave_out(problem)]
        alike = Counter(problem.remedy for problem in told if problem.level == "warning")
        lines: dict[str, str] = {}
        for place, problem in enumerate(told):
            line = f"{problem.level.upper()}: {problem}"
            if problem.level == "warning" and alike[problem.remedy] > _FEW:
                lines.setdefault(problem.remedy, f"{line} And {alike[problem.remedy] - 1} more like this.")
            else:
                lines[str(place)] = line
        return list(lines.values())


def inspect_folder(
    root: Path,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    dataset: str = "folder",
    on_case: OnCase | None = None,
) -> Report:
    """Read every scan and label of a dataset once, one case after the other, and say all that is wrong.

    Args:
        root: the dataset's folder.
        on_progress: told `(done, total)` after each file.
        dataset: how the folder is laid out, one of `DATASETS`.
        on_case: shown each case.
    """
    found, problems = survey_dataset(root, dataset)
    cases = found.cases if found else ()
    loose = _loose(root, cases) if dataset == "folder" else []
    eyes = _Eyes(problems, len(loose) + sum(len(case.images) + bool(case.label) for case in cases), on_progress)
    for case in cases:
        images = [eyes.see(image, _see_image) for image in case.images]
        label = eyes.see(case.label, _see_label) if case.label else None
        known = [image for image in images if image]
        if found and len(known) == len(images):
            values = label_values(label) if label else None
            eyes.compare(case, known[0], values, found.classes)
            if on_case:
                on_case(case, known, values, found.classes)
    for file, look in loose:
        eyes.see(file, look)
    facts = gather_facts(found, eyes.seen) if found else None
    alignment = None
    if found and facts:
        alignment = _judge(found, eyes, on_one_grid=True)
        elsewhere = _judge(found, eyes, on_one_grid=False)
        for case in found.cases:
            problems += check_case(case, found, eyes.seen, elsewhere)
        problems += check_alignment(found, alignment)
        problems += check_dataset(found, facts, eyes.seen)
    ordered = sorted((_shortened(problem, root) for problem in problems), key=lambda problem: problem.level)
    return Report(
        dataset=found,
        problems=tuple(ordered),
        facts=facts,
        outliers=outliers(eyes.traits, eyes.fits, alignment),
        alignment=alignment,
    )


class _Eyes:
    """Reads files one after the other and keeps what was seen of them, never the voxels."""

    def __init__(self, problems: list[Problem], total: int, on_progress: Callable[[int, int], None] | None) -> None:
        self.problems, self.total, self.on_progress, self.done = problems, total, on_progress, 0
        self.seen: dict[Source, Seen] = {}
        self.traits: dict[str, Mapping[str, Trait]] = {}
        self.fits: dict[str, Mapping[Turn, float]] = {}

    def see(self, file: Source, look: Look) -> Volume | None:
        """The file's contents; None where it cannot be used, and then it is known why."""
        volume = None
        try:
            read = file.read()
            self.seen[file], found = look(read, file.path)
            self.problems += [*read.warnings, *found]
            volume = read
        except FileError as error:
            self.problems.append(error.problem)
        self.done += 1
        if self.on_progress:
            self.on_progress(self.done, self.total)
        return volume

    def compare(self, case: Case, image: Volume, label: Label | None, classes: Mapping[int, str]) -> None:
        """Keep how a case compares with others: its traits, and how its label lies on its first channel."""
        brightness = {}
        if label is not None:
            self.fits[case.name] = fits(image.array, label)
            if label.shape == image.array.shape:
                brightness = brightness_of(image.array, label, _sample(image))
        seen_label = self.seen.get(case.label) if case.label else None
        self.traits[case.name] = traits(self.seen[case.images[0]], seen_label, brightness, classes)


def _loose(root: Path, cases: Sequence[Case]) -> list[tuple[Source, Look]]:
    """Files that belong to no case, because their names or `dataset.json` are wrong: they are read all the same."""
    known = {file.path for case in cases for file in (*case.images, case.label) if file}
    files = [
        (source(file), look)
        for part in PARTS
        for kind, look in (("images", _see_image), ("labels", _see_label))
        for file in scans(root / f"{kind}{part}")
    ]
    return [(file, look) for file, look in files if file.path not in known]


def _shortened(problem: Problem, root: Path) -> Problem:
    """File names as seen from the dataset's folder."""
    file = Path(problem.file)
    return replace(problem, file=str(file.relative_to(root))) if root in file.parents else problem


def _see_image(volume: Volume, file: Path) -> tuple[Seen, list[Problem]]:
    problems = []
    missing = sum(int((~np.isfinite(slab)).sum()) for slab in volume.array)  # by slabs: no second copy of a large scan
    if missing:
        message = f"has {missing} voxels that are not finite"
        problems.append(fatal(file, message, "Replace them, such as by the value of air, or leave the case out"))
    values = volume.array[np.isfinite(volume.array)] if missing else volume.array
    values = values if values.size else np.zeros(1)
    lowest, highest = float(values.min()), float(values.max())
    if lowest == highest:
        problems.append(warning(file, f"is {lowest:g} everywhere", "Check the export, or leave the case out"))
    low, middle, high = np.quantile(_sample(volume), (0.01, 0.5, 0.99)).tolist()
    seen = Seen(
        geometry=volume.geometry,
        lowest=lowest,
        highest=highest,
        counts={},
        levels=(low, middle, high),
        placed=volume.placed,
        flat=volume.flat,
    )
    return seen, problems


def _see_label(volume: Volume, file: Path) -> tuple[Seen, list[Problem]]:
    numbers = sum((np.bincount(slab.ravel(), minlength=256) for slab in label_values(volume)), np.zeros(256, np.int64))
    counts = {value: int(number) for value, number in enumerate(numbers) if number}
    problems = []
    if set(counts) == {0}:
        remedy = "Check that it is the right file; remove it if the case is not labelled"
        problems.append(warning(file, "is all background", remedy))
    return Seen(geometry=volume.geometry, lowest=min(counts), highest=max(counts), counts=counts), problems


def _sample(volume: Volume) -> NDArray[np.float64]:
    """Some finite grey levels of a scan, sorted; 0 where there are none."""
    flat = np.ravel(volume.array, order="K")  # in the order of memory, which needs no copy
    sample = flat[:: 1 + len(flat) // _SAMPLE].astype(np.float64)
    sample = sample[np.isfinite(sample)]
    return np.sort(sample) if len(sample) else np.zeros(1)


def _one_grid(case: Case, seen: Mapping[Source, Seen]) -> bool:
    """Whether the label's header says that it lies on its image."""
    assert case.label is not None
    return not mismatch(seen[case.images[0]].geometry, seen[case.label].geometry)


def _judge(dataset: Dataset, eyes: _Eyes, *, on_one_grid: bool) -> Verdict | None:
    """How labels lie voxel for voxel, of the cases whose headers agree or of those whose headers do not."""
    chosen = [case for case in dataset.cases if case.name in eyes.fits]
    return judge((case.patient, eyes.fits[case.name]) for case in chosen if _one_grid(case, eyes.seen) == on_one_grid)
