"""A dataset that comes as a tree of its own, put together: what all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from coranet.data.datasets.folder import Case, Dataset
from coranet.data.datasets.manifest import Manifest
from coranet.data.datasets.names import nearly_same
from coranet.data.problem import Problem, fatal

Survey = tuple[Dataset | None, list[Problem]]
"""A dataset as far as it can be made out, and what is wrong with it."""


def surveyed(
    root: Path,
    *,
    channels: tuple[str, ...],
    classes: Sequence[str],
    cases: Sequence[Case],
    problems: Sequence[Problem],
    layout: str,
    manifest: Manifest | None = None,
    ignore: int | None = None,
) -> Survey:
    """The dataset of these cases, in their order, training before test.

    Args:
        root: where it lies.
        channels: names.
        classes: names but for the background's.
        cases: all there are.
        problems: what was found on the way.
        layout: what is looked for, for the message that there is nothing.
        manifest: what a whole copy holds.
        ignore: the value of label voxels that nobody drew.
    """
    if not root.is_dir():
        message = "is not a folder" if root.exists() else "does not exist"
        return None, [fatal(root, message, "Give the folder that the dataset was unpacked to")]
    if not cases:
        return None, [*problems, fatal(root, f"holds no {layout}", "Check the path, or the name given with --dataset")]
    ordered = sorted(cases, key=lambda case: case.part == "Ts")
    counts = _check_counts(root, cases, manifest) if manifest else []
    dataset = Dataset(
        root=root,
        name=root.resolve().name,
        channels=channels,
        classes=dict(enumerate(("background", *classes))),
        cases=tuple(replace(case, ignore=ignore) for case in ordered),
        manifest=manifest,
        ignore=ignore,
    )
    return dataset, [*problems, *_same_names(ordered), *_nearly_same(ordered), *counts]


def with_manifest(survey: Survey, manifest: Manifest) -> Survey:
    """A dataset that was found in another layout, held against what a whole copy holds."""
    dataset, problems = survey
    if dataset is None:
        return survey
    return replace(dataset, manifest=manifest), [*problems, *_check_counts(dataset.root, dataset.cases, manifest)]


def _check_counts(root: Path, cases: Sequence[Case], manifest: Manifest) -> list[Problem]:
    return manifest.check_counts(
        root, len({case.patient for case in cases}), sum(case.label is not None for case in cases)
    )


def _nearly_same(cases: Sequence[Case]) -> list[Problem]:
    return nearly_same({case.name: case.images[0].path for case in cases})


def _same_names(cases: Sequence[Case]) -> list[Problem]:
    seen: dict[str, Case] = {}
    return [
        fatal(case.images[0].path, f"is a second scan {case.name} beside {other.images[0].path}", "Keep one of the two")
        for case in cases
        if (other := seen.setdefault(case.name, case)) is not case
    ]
