"""What can be wrong with a dataset whose files were all read: cases that do not hold together, and what no case shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from coranet.data.alignment import AS_IT_LIES, Verdict
from coranet.data.datasets.folder import PARTS, Case, Dataset
from coranet.data.doctor.facts import Facts, Seen
from coranet.data.grid import mismatch
from coranet.data.prepare.cases import OTHER_GRID
from coranet.data.problem import Problem, fatal, warning
from coranet.data.readers import Source

_PAINTED = 255
_WIDE = 2.0
"""Largest over smallest spacing along an axis beyond which one network hardly serves all scans as they are."""


def check_case(case: Case, dataset: Dataset, seen: Mapping[Source, Seen], verdict: Verdict | None) -> Iterable[Problem]:
    """Whether the files of a case belong together, and its label to the dataset."""
    files = [file for file in (*case.images, case.label) if file and file in seen]
    for other in files[1:]:
        first = files[0]
        if difference := mismatch(seen[first].geometry, seen[other].geometry):
            remedy = _way_to_the_grid(seen[first], seen[other], verdict if other == case.label else None)
            yield fatal(other.path, f"does not lie on the grid of {first.path.name}: {difference}", remedy)
    if case.label and case.label in seen:
        unknown = sorted(set(seen[case.label].counts) - {*dataset.classes, dataset.ignore})
        if unknown:
            names = ", ".join(f"{value} {name}" for value, name in dataset.classes.items())
            message = f"has label values {', '.join(map(str, unknown))} that dataset.json does not name ({names})"
            yield fatal(case.label.path, message, _way_to_the_classes(unknown, dataset, seen))


def _way_to_the_grid(image: Seen, label: Seen, verdict: Verdict | None) -> str:
    """What to do about a label that lies elsewhere, from how it fits its image voxel for voxel."""
    if verdict and verdict.clear:
        votes = f"as {verdict.votes} of {verdict.voters} patients show"
        if verdict.turn == AS_IT_LIES:
            return f"Voxel for voxel it fits, {votes}: copy the header of the image"
        return f"It fits {verdict.turn}, {votes}: save {verdict.turn.code} with the header of the image"
    shapes = image.geometry.shape, label.geometry.shape
    if shapes[0] != shapes[1] and sorted(shapes[0]) == sorted(shapes[1]):
        return f"Its axes seem to be in another order: transpose it to {shapes[0]}, with the header of the image"
    return OTHER_GRID


def _way_to_the_classes(unknown: list[int], dataset: Dataset, seen: Mapping[Source, Seen]) -> str:
    """What to do about unnamed label values: where all labels have as many as there are classes, which is which."""
    labels = [case.label for case in dataset.cases if case.label and case.label in seen]
    values = sorted({value for label in labels for value in seen[label].counts} - {dataset.ignore} | {0})
    if len(values) != len(dataset.classes):
        if unknown == [_PAINTED] and len(dataset.classes) == 2:
            (target, name) = max(dataset.classes.items())
            return f"Renumber it {_PAINTED} -> {target} ({name}): programs that paint write {_PAINTED} for an object"
        moves = [f"{value} -> {place}" for place, value in enumerate(values) if value != place]
        if not moves:
            return "Name them in dataset.json, or renumber the label"
        return f"Renumber the labels {', '.join(moves)}, and name 0 to {len(values) - 1} in dataset.json"
    pairs = zip(values, dataset.classes.items(), strict=True)
    moves = [f"{value} -> {target} ({name})" for value, (target, name) in pairs if value != target]
    return f"All labels have the values {', '.join(map(str, values))}: renumber them {', '.join(moves)}"


def check_alignment(dataset: Dataset, verdict: Verdict | None) -> Iterable[Problem]:
    """Labels that lie on the image's grid and yet not on what they label."""
    if verdict and verdict.clear and verdict.turn != AS_IT_LIES:
        message = (
            f"holds labels that fit their images better {verdict.turn} ({verdict.votes} of {verdict.voters} patients; "
            f"they then say {verdict.gain:.1f} times as much of the grey levels)"
        )
        remedy = f"Look at them with --overlay; if that shows it too, save each as {verdict.turn.code}"
        yield warning(_part(dataset, "labelsTr"), message, remedy)


def _part(dataset: Dataset, name: str) -> Path:
    """A folder of nnU-Net's layout, or the dataset's own where it is laid out otherwise."""
    folder = dataset.root / name
    return folder if (dataset.root / "imagesTr").exists() else dataset.root


def check_dataset(dataset: Dataset, facts: Facts, seen: Mapping[Source, Seen]) -> Iterable[Problem]:
    """What no single case shows."""
    images, labels = _part(dataset, "imagesTr"), _part(dataset, "labelsTr")
    if not facts.labelled:
        yield fatal(labels, "labels no case to train on", "Label at least one case, as <case>.nii.gz")
    elif not facts.unlabelled:
        remedy = "Put scans without a label there too, if you have them"
        yield warning(images, "has no unlabelled case, so training is supervised", remedy)
    if facts.labelled == 1:
        message = (
            "labels a single case, which is very little: no other shape is learnt, and no case is left to score by"
        )
        yield warning(labels, message, "Label two or three more, of patients unlike this one")
    for name, share in facts.class_shares.items():
        if facts.labelled and not share:
            yield warning(labels, f"has no voxel of class {name}", "Label one, or drop the class from dataset.json")
    trained, tested = ({case.patient for case in dataset.cases if case.part == part} for part in PARTS)
    if both := sorted(trained & tested):
        remedy = 'Move all their cases to one side; "patients" in dataset.json says whose a case is'
        message = f"shares patients with the training cases: {', '.join(both[:5])}"
        yield warning(_part(dataset, "imagesTs"), message, remedy)
    if min(facts.shapes.largest) == 1 and len(trained | tested) == len(dataset.cases) > 1:
        remedy = 'If several are of one patient, name them such as anna_slice12, or say "patients" in dataset.json'
        message = "holds single slices, each of which counts as a patient, so that a split may part those of one"
        yield warning(images, message, remedy)
    if len(facts.orientations) > 1:
        counts = ", ".join(f"{count} {code}" for code, count in facts.orientations.items())
        yield warning(images, f"has scans of different orientations ({counts})", "Nothing to do: all are turned alike")
    spacings = zip(facts.spacings.smallest, facts.spacings.median, facts.spacings.largest, "XYZ", strict=True)
    for smallest, median, largest, axis in spacings:
        if largest > _WIDE * smallest:
            message = f"has spacings from {smallest:.3g} to {largest:.3g} mm along {axis}"
            yield warning(images, message, f"Consider resampling to the median, {median:.3g} mm")
    if dataset.manifest:
        first = [case.images[0] for case in dataset.cases if case.images[0] in seen]
        shapes = {image.path: seen[image].geometry.shape for image in first}
        yield from dataset.manifest.check_shapes(shapes)
    if unplaced := sum(not one.placed for one in seen.values()):
        message = f"has {unplaced} files that state no spacing: their voxels are taken for 1 mm"
        yield warning(images, message, "Nothing to do, but distances and volumes are then in voxels")
