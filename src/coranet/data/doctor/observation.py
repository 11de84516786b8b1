"""One case read once: its voxels for whoever goes on with them, and what is kept of them for the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coranet.data.alignment import Turn, fits
from coranet.data.datasets.folder import Case
from coranet.data.doctor.drawing import drawn_of, seems_sparse
from coranet.data.doctor.facts import Seen
from coranet.data.doctor.outliers import Trait, brightness_of, traits
from coranet.data.prepare.cases import label_values
from coranet.data.problem import FileError, Problem, fatal, warning
from coranet.data.readers import Source, Volume

Label = NDArray[np.uint8]
Levels = NDArray[np.float64]
Look = Callable[[Volume, Path], tuple[Seen, list[Problem]]]
"""What is to be kept of a file, and what is wrong with it."""

_SAMPLE = 200_000
"""Voxels that percentiles are taken from."""


@dataclass(kw_only=True)
class Observation:
    """What is kept of a case, or of a file that belongs to none, once it was read: never the voxels."""

    case: str = ""
    seen: dict[Source, Seen] = field(default_factory=dict)
    """Of its files, as far as they could be used."""
    problems: list[Problem] = field(default_factory=list)
    traits: Mapping[str, Trait] | None = None
    """How it compares with other cases; None where a channel could not be used."""
    fits: Mapping[Turn, float] | None = None
    """How its label lies on its first channel, where it has one."""


@dataclass(kw_only=True)
class ReadCase:
    """The voxels of a case; of a file that could not be used there are none."""

    images: list[Volume]
    """The channels, all of them where the case is `whole`."""
    label: Volume | None
    whole: bool

    @property
    def values(self) -> Label | None:
        """The classes of its label."""
        return self.label.array if self.label else None


def inspect_case(
    case: Case, classes: Mapping[int, str], on_file: Callable[[], None] = lambda: None
) -> tuple[ReadCase, Observation]:
    """Read a case, and see what there is to see; `on_file` is told of each file that was tried."""
    observation = Observation(case=case.name)
    images, levels, label = list[Volume](), list[Levels](), None
    for image in case.images:
        with _noting(observation, on_file):
            volume = image.read()
            sample = _levels(volume)
            _note(observation, image, volume, _see_image(volume, image.path, sample))
            images.append(volume)
            levels = levels or [sample]
    if case.label:
        with _noting(observation, on_file):
            volume = case.label.read()
            values = replace(volume, array=label_values(volume))
            _note(observation, case.label, volume, _see_classes(values, case.label.path, case.ignore))
            label = values
    read = ReadCase(images=images, label=label, whole=len(images) == len(case.images))
    if read.whole:
        _compare(observation, case, read, levels[0], classes)
    return read, observation


def inspect_file(file: Source, look: Look) -> Observation:
    """Read a file that belongs to no case."""
    observation = Observation()
    with _noting(observation):
        volume = file.read()
        _note(observation, file, volume, look(volume, file.path))
    return observation


@contextmanager
def _noting(observation: Observation, on_file: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Note why a file cannot be used, and go on."""
    try:
        yield
    except FileError as error:
        observation.problems.append(error.problem)
    on_file()


def _note(observation: Observation, file: Source, volume: Volume, looked: tuple[Seen, list[Problem]]) -> None:
    observation.seen[file], problems = looked
    observation.problems += [*volume.warnings, *problems]


def _compare(observation: Observation, case: Case, read: ReadCase, levels: Levels, classes: Mapping[int, str]) -> None:
    """Keep how a case compares with others: its traits, and how its label lies on its first channel."""
    image, label, brightness = read.images[0].array, read.values, {}
    if label is not None:
        observation.fits = fits(image, label, case.ignore)
        if label.shape == image.shape:
            brightness = brightness_of(image, label, levels)
    seen_label = observation.seen.get(case.label) if case.label else None
    whole = (
        seen_label if seen_label and seen_label.drawn is None else None
    )  # of a part there is no saying how much there is
    observation.traits = traits(observation.seen[case.images[0]], whole, brightness, classes)


def see_image(volume: Volume, file: Path) -> tuple[Seen, list[Problem]]:
    """Of a scan: where it lies, its grey levels, and whether they are all there."""
    return _see_image(volume, file, _levels(volume))


def see_label(volume: Volume, file: Path) -> tuple[Seen, list[Problem]]:
    """Of a label map: where it lies, and how many voxels each of its values has.

    Raises:
        InputError: its values are no classes.
    """
    return _see_classes(replace(volume, array=label_values(volume)), file)


def _see_image(volume: Volume, file: Path, levels: Levels) -> tuple[Seen, list[Problem]]:
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
    low, middle, high = np.quantile(levels, (0.01, 0.5, 0.99)).tolist()
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


def _see_classes(label: Volume, file: Path, ignore: int | None = None) -> tuple[Seen, list[Problem]]:
    numbers = sum((np.bincount(slab.ravel(), minlength=256) for slab in label.array), np.zeros(256, np.int64))
    counts = {value: int(number) for value, number in enumerate(numbers) if number}
    problems = []
    if set(counts) == {0}:
        remedy = "Check that it is the right file; remove it if the case is not labelled"
        problems.append(warning(file, "is all background", remedy))
    if set(counts) == {ignore}:
        problems.append(fatal(file, "has no voxel that is drawn", "Remove the file: the case is then unlabelled"))
    if ignore is None and (sparse := seems_sparse(label.array)):
        planes, span, axis = sparse
        message = f"shows objects in {planes} of {span} slices along {axis}, each between slices without"
        remedy = 'If only those were drawn, give the voxels of the others a value and name it "ignore" in dataset.json'
        problems.append(warning(file, message, remedy))
    drawn = drawn_of(label.array, ignore)
    return Seen(geometry=label.geometry, lowest=min(counts), highest=max(counts), counts=counts, drawn=drawn), problems


def _levels(volume: Volume) -> Levels:
    """Some finite grey levels of a scan, sorted; 0 where there are none."""
    flat = np.ravel(volume.array, order="K")  # in the order of memory, which needs no copy
    sample = flat[:: 1 + len(flat) // _SAMPLE].astype(np.float64)
    sample = sample[np.isfinite(sample)]
    return np.sort(sample) if len(sample) else np.zeros(1)
