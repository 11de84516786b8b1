"""Any task of the Medical Segmentation Decathlon (Antonelli et al., Nature Communications 2022), or nnU-Net's raw layout.

The Decathlon keeps several channels in one file of four axes, `imagesTr/BRATS_001.nii.gz`; nnU-Net one file a channel,
`imagesTr/BRATS_001_0000.nii.gz`. Test cases have no labels. `dataset.json` lists what a whole copy holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coranet.data.datasets.description import Description, read_dataset_json, read_description
from coranet.data.datasets.folder import PARTS, Case, Part, survey
from coranet.data.datasets.names import case_and_channel, patient_of, scans, stem
from coranet.data.datasets.tree import Survey, surveyed
from coranet.data.problem import FileError, Problem, fatal, warning
from coranet.data.readers import Source


def survey_msd(root: Path) -> Survey:
    """The cases of imagesTr and imagesTs, however their channels are kept."""
    dataset, problems = survey(root)
    description = read_description(root)[0] if root.is_dir() else None
    if description is not None and len(description.channels) > 1 and not _channels_apart(root, description):
        dataset, problems = _four_axes(root, description)
    return dataset, [*problems, *(_missing(root) if dataset else ())]


def _channels_apart(root: Path, description: Description) -> bool:
    names = [stem(file) for part in PARTS for file in scans(root / f"images{part}")]
    return any(case_and_channel(name, len(description.channels), ())[0] != name for name in names)


def _four_axes(root: Path, description: Description) -> Survey:
    cases: list[Case] = []
    problems: list[Problem] = []
    for part in PARTS:
        labels = {stem(file): file for file in scans(root / f"labels{part}")}
        for file in scans(root / f"images{part}"):
            cases.append(_case(file, labels.pop(stem(file), None), part, description))
        problems += [
            fatal(file, f"is a label without an image images{part}/{file.name}", "Rename it, or move it away")
            for file in labels.values()
        ]
    return surveyed(
        root,
        channels=description.channels,
        classes=tuple(description.classes.values())[1:],
        cases=cases,
        problems=problems,
        layout="scan in imagesTr",
        ignore=description.ignore,
    )


def _case(file: Path, label: Path | None, part: Part, description: Description) -> Case:
    name = stem(file)
    channels = range(len(description.channels))
    return Case(
        name=name,
        images=tuple(Source(path=file, inside=(("frame", channel),)) for channel in channels),
        label=Source(path=label) if label else None,
        part=part,
        patient=description.patients.get(name, patient_of(name)),
    )


def _missing(root: Path) -> list[Problem]:
    """The files that `dataset.json` lists and the folder lacks; nnU-Net's lists none, but counts."""
    try:
        content = read_dataset_json(root / "dataset.json")
    except FileError:
        return []
    listed = [*_listed(content.get("training")), *_listed(content.get("test"))]
    lost = [name for name in listed if not (root / name).exists()]
    if lost:
        message = f"lists {len(lost)} of {len(listed)} files that are not there, such as {lost[0]}"
        return [warning(root / "dataset.json", message, "Nothing to do where a part is meant; else unpack it again")]
    count, found = content.get("numTraining"), len(list(scans(root / "labelsTr")))
    if isinstance(count, int) and not listed and found != count:
        message = f"counts {count} training cases, and {found} have a label"
        return [warning(root / "dataset.json", message, "Nothing to do where the others are meant to be unlabelled")]
    return []


def _listed(entries: Any) -> list[str]:
    """The files of an entry such as `{"image": "./imagesTr/a.nii.gz", "label": "./labelsTr/a.nii.gz"}`, or of a name."""
    if not isinstance(entries, list):
        return []
    names = [name for entry in entries for name in (entry.values() if isinstance(entry, dict) else [entry])]
    return [name for name in names if isinstance(name, str)]
