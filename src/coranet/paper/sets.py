"""The scans behind each table: the paper's own set where one has it, else an open one that stands for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coranet.data.datasets import DATASETS
from coranet.data.datasets.folder import Case, Dataset
from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.data.splits.by_patient import Split, split_by_ratio
from coranet.data.splits.protocols import find_protocol
from coranet.errors import InputError
from coranet.runs.options import Options

AS_IT_WAS = (("data.augment.appearance", "null"), ("train.watch", "false"))
"""Preset `auto` as it was when rows by it were made: grey levels as they are, and no watch."""
TEXT_2D = Options(preset="paper", dims=2, overrides=(("net.width", "16"),))
"""The text's recipe on slices, in a network a sixteenth as large."""

COARSE = Options(preset="quick", dims=3, method="supervised", steps=4_000)
"""Labels alone, on a grid of about 56 x 56 x 56."""


@dataclass(frozen=True, kw_only=True)
class ScanSet:
    """A set, and how it is trained on."""

    name: str
    title: str
    readers: tuple[str, ...] = ()
    """Of `data.datasets`, in the order they are tried; none where the set is generated."""
    folders: tuple[str, ...] = ()
    """What its folder may be called among others."""
    known_by: str = ""
    """What tells it in a folder of any name: `protocol` and one that lists its patients, or how their names begin."""
    objects: Mapping[int, str] = field(default_factory=dict)
    """The classes that are kept, by value, renumbered from 1; all where none are named."""
    protocol: str | None = None
    """Whose lists of patients are used; without one, patients are drawn with seed 0, one in five for test."""
    one_part: bool = False
    """Laid out with all cases in imagesTr, where its protocol tests on cases of both parts."""
    options: Options = TEXT_2D
    """Of every run but for its length."""
    steps: int | None = None
    """Of every run; None is the preset's own length."""
    generate: Callable[[Path], Path] | None = None
    layout: str = ""
    """The set whose files in our layout these are, where several share them."""
    coarse: Options | None = None
    """The network that finds the organ, about which alone scans are kept (`organ_box`); without one they are whole."""


def _phantom(shape: tuple[int, int, int]) -> Callable[[Path], Path]:
    return lambda root: write_folder(root, Phantom(shape=shape), seed=1, labelled=12, unlabelled=0, test=0)


_SHORT = (("net.width", "4"), ("net.levels", "2"), ("train.batch", "[2,2]"), ("train.checks", "2"))

SETS: dict[str, ScanSet] = {
    scans.name: scans
    for scans in (
        ScanSet(
            name="pancreas",
            title="NIH Pancreas-CT, slices",
            readers=("pancreas_ct",),
            folders=("pancreas", "pancreas_ct", "Pancreas-CT"),
            known_by="protocol pancreas-2d:1:1",
            protocol="pancreas-2d",
            options=Options(preset="pancreas", dims=2),
        ),
        *(
            ScanSet(
                name=name,
                title=f"NIH Pancreas-CT, {title}",
                readers=("pancreas_ct",),
                folders=("pancreas", "pancreas_ct", "Pancreas-CT"),
                known_by="protocol pancreas-a:12",
                protocol="pancreas-a",
                options=Options(preset="pancreas", dims=3),
                layout="pancreas",
                coarse=coarse,
            )
            for name, title, coarse in (
                ("pancreas-3d", "volumes", None),
                ("pancreas-3d-organ", "volumes about the organ that a coarse network finds", COARSE),
            )
        ),
        ScanSet(
            name="endocardium",
            title="York cardiac MR, endocardium",
            readers=("endocardium",),
            folders=("endocardium", "york"),
            known_by="protocol endocardium:1:4",
            protocol="endocardium",
            options=Options(preset="paper", dims=2),
        ),
        ScanSet(
            name="sunnybrook",
            title="Sunnybrook cardiac MR, endocardium",
            readers=("sunnybrook",),
            folders=("sunnybrook",),
            known_by="protocol sunnybrook:1:4",
            protocol="sunnybrook",
            steps=4_000,
        ),
        ScanSet(
            name="acdc-lv",
            title="ACDC, left ventricle alone",
            readers=("folder", "acdc"),
            folders=("acdc", "ACDC"),
            known_by="protocol acdc:14",
            objects={3: "LV"},
            steps=4_000,
        ),
        *(
            ScanSet(
                name=name,
                title=title,
                readers=("folder", "acdc"),
                folders=("acdc", "ACDC"),
                known_by="protocol acdc:14",
                protocol=protocol,
                one_part=protocol != "acdc",
                options=Options(preset="acdc", dims=2, overrides=(("net.width", "16"),)),
                steps=12_000,
            )
            for name, title, protocol in (
                ("acdc", "ACDC", "acdc"),
                ("acdc-7", "ACDC, 7 labelled patients", "acdc"),
                ("acdc-peng", "ACDC, a fifth of the patients labelled", "acdc-peng"),
            )
        ),
        ScanSet(
            name="la",
            title="Left atrium, challenge of 2018",
            readers=("folder", "left_atrium"),
            folders=("la", "left_atrium"),
            known_by="protocol la:16",
            protocol="la",
            options=Options(preset="la", dims=3),
            steps=6_000,
        ),
        ScanSet(
            name="hippocampus",
            title="Medical Decathlon, hippocampus",
            readers=("msd", "folder"),
            folders=("Task04_Hippocampus", "hippocampus/Task04_Hippocampus", "hippocampus"),
            known_by="hippocampus_",
            options=Options(preset="auto", dims=3, overrides=AS_IT_WAS),
            steps=2_000,
        ),
        ScanSet(
            name="phantom",
            title="phantom, slices, one object",
            objects={3: "LV"},
            options=Options(preset="auto", dims=2, overrides=(*AS_IT_WAS, *_SHORT)),
            generate=_phantom((32, 32, 4)),
            steps=24,
        ),
        ScanSet(
            name="phantom-hearts",
            title="phantom, slices",
            options=Options(preset="auto", dims=2, overrides=(*AS_IT_WAS, *_SHORT)),
            generate=_phantom((32, 32, 4)),
            steps=24,
        ),
        ScanSet(
            name="phantom-3d",
            title="phantom, volumes",
            objects={3: "LV"},
            options=Options(preset="auto", dims=3, patch=(16, 16, 16), overrides=(*AS_IT_WAS, *_SHORT)),
            generate=_phantom((32, 32, 24)),
            steps=24,
        ),
    )
}


def find_scans(scans: ScanSet, data: Path) -> Path | None:
    """The set's folder, by its name: among others in a folder, or the folder itself."""
    places = [data / name for name in scans.folders]
    places += [data] if any(data.name == Path(name).name for name in scans.folders) else []
    return next((place for place in places if _reads(scans.readers, place)), None)


def is_scans(scans: ScanSet, data: Path) -> bool:
    """Whether a folder of any name holds the set: it can be read, and its patients are the set's.

    Readers make something out in many folders, so that being read says nothing of whose scans these are.
    """
    surveys = (DATASETS[reader](data)[0] for reader in scans.readers) if data.is_dir() else ()
    return any(dataset is not None and _is_theirs(scans.known_by, dataset) for dataset in surveys)


def _is_theirs(known_by: str, dataset: Dataset) -> bool:
    patients = {case.name: case.patient for case in dataset.cases}
    if not known_by.startswith("protocol "):
        return bool(patients) and all(patient.startswith(known_by) for patient in patients.values())
    try:
        find_protocol(known_by.removeprefix("protocol ")).split(patients, patients)
    except InputError:
        return False
    return True


def _reads(readers: Iterable[str], place: Path) -> bool:
    return place.is_dir() and any(DATASETS[reader](place)[0] is not None for reader in readers)


def split_of(scans: ScanSet, cases: tuple[Case, ...], share: str) -> tuple[Split, tuple[str, ...]]:
    """Who is labelled, unlabelled and kept for test, and what has to be said of it.

    Args:
        scans: the set.
        cases: all there are.
        share: labelled to unlabelled patients, as `1:4`, or what else the set's protocol has, as `16`.
    """
    patients = {case.name: case.patient for case in cases}
    labelled = [case.name for case in cases if case.label is not None]
    if scans.protocol is not None:
        return find_protocol(f"{scans.protocol}:{share}").split(patients, labelled)
    known, unknown = (int(part) for part in share.split(":"))
    test = max(round(len(set(patients.values())) / 5), 1)
    kept = [case.name for case in cases if case.part == "Ts" and case.label is not None]
    tested = "The set's own test cases" if kept else f"{test} patients drawn for test with seed 0"
    said = f"{tested}; of the other patients, in an order drawn with seed 0, labelled to unlabelled {share}."
    made = split_by_ratio(patients, labelled, (known, unknown), test=0 if kept else test, kept_for_test=kept)
    return made, (said,)
