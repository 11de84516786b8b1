"""What a dataset holds, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from coranet.data.datasets.folder import Dataset
from coranet.data.doctor.drawing import Drawn
from coranet.data.grid import orientation_code
from coranet.data.prepare.extents import Extents, extents_of
from coranet.data.readers import Source
from coranet.geometry import Geometry


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is kept of a file once it was read."""

    geometry: Geometry
    lowest: float
    highest: float
    counts: Mapping[int, int]
    """Voxels of each label value; empty for an image."""
    levels: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The 1st, 50th and 99th percentile of an image."""
    placed: bool = True
    """Whether the file says where its voxels lie."""
    flat: bool = False
    """Whether it is a picture."""
    drawn: Drawn | None = None
    """How much of a label was drawn, where some of it was not."""


@dataclass(frozen=True, kw_only=True)
class Facts(Extents):
    """What a dataset holds; files that cannot be read appear in the counts of cases only."""

    labelled: int
    unlabelled: int
    test: int
    """Cases of imagesTs, which are not trained on."""
    patients: int
    orientations: Mapping[str, int]
    """How many scans point which way, such as `LPS`."""
    class_shares: Mapping[str, float]
    """The share of each class in the voxels that are drawn of all training labels."""
    intensities: Mapping[str, tuple[float, float]]
    """The lowest and highest grey level of each channel."""
    partial: Mapping[str, Drawn]
    """By case, how much of its label is drawn, where some of it is not."""


def gather_facts(dataset: Dataset, seen: Mapping[Source, Seen]) -> Facts:
    """The facts of a dataset from what was seen of its files."""
    trained = [case for case in dataset.cases if case.part == "Tr"]
    labels = [case.label for case in trained if case.label]
    geometries = {case.name: seen[case.images[0]].geometry for case in dataset.cases if case.images[0] in seen}
    extents = extents_of(geometries[case.name] for case in trained if case.name in geometries)
    counts: Counter[int] = Counter()
    for label in labels:
        counts.update(seen[label].counts if label in seen else {})
    counts.pop(dataset.ignore if dataset.ignore is not None else -1, None)
    channels = {
        channel: [seen[case.images[i]] for case in dataset.cases if case.images[i] in seen]
        for i, channel in enumerate(dataset.channels)
    }
    return Facts(
        labelled=len(labels),
        unlabelled=len(trained) - len(labels),
        test=len(dataset.cases) - len(trained),
        patients=len({case.patient for case in dataset.cases}),
        shapes=extents.shapes,
        spacings=extents.spacings,
        orientations=dict(Counter(map(orientation_code, geometries.values()))),
        class_shares={name: counts[value] / max(1, counts.total()) for value, name in dataset.classes.items()},
        intensities={
            channel: (min(file.lowest for file in files), max(file.highest for file in files))
            for channel, files in channels.items()
            if files
        },
        partial={
            case.name: drawn
            for case in dataset.cases
            if case.label and case.label in seen and (drawn := seen[case.label].drawn) is not None
        },
    )
