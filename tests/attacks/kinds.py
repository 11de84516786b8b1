"""Everything that is attacked, and how often."""

from __future__ import annotations

from tests.attacks.arrays_that_lie import ARRAY_LIES
from tests.attacks.attack import Kind
from tests.attacks.checkpoints import attack_checkpoint, attack_memory
from tests.attacks.containers_that_lie import CONTAINER_LIES
from tests.attacks.full_disk import full_disk_attack
from tests.attacks.headers_that_lie import PLAIN_LIES
from tests.attacks.kills import kill_attack
from tests.attacks.pictures_that_lie import PICTURE_LIES
from tests.attacks.scans import prediction_attack, reader_attack
from tests.attacks.series_that_lie import SERIES_LIES
from tests.attacks.settings import (
    attack_comparison,
    attack_dataset,
    attack_fit,
    attack_page,
    attack_run,
    attack_split,
    attack_store,
)
from tests.attacks.strangers import attack_film, attack_stranger
from tests.attacks.surroundings import attack_name, attack_special, attack_surroundings
from tests.attacks.world import VERBS

LIES = {**PLAIN_LIES, **ARRAY_LIES, **CONTAINER_LIES, **PICTURE_LIES, **SERIES_LIES}

READERS = {
    "nifti": 400,
    "nifti.gz": 400,
    "nrrd": 400,
    "hdf5": 400,
    "mat": 300,
    "mat73": 250,
    "npy": 300,
    "png": 200,
    "jpeg": 150,
    "tiff": 450,
    "dicom": 400,
}
"""How many attacks there are on each."""

KILLED = {"train": 1, "prepare": 1, "compare": 0, "predict": 1, "evaluate": 1}
"""How often each verb is killed in the short run."""


def _with(name: str) -> tuple[str, ...]:
    return ("compare",) if name == "compare" else ()


KINDS: dict[str, Kind] = {
    **{name: Kind(make=reader_attack(name, LIES), count=count, few=10) for name, count in READERS.items()},
    "predict a scan": Kind(make=prediction_attack(LIES), count=500, few=8),
    "dataset.json": Kind(make=attack_dataset, count=250, few=10),
    "split": Kind(make=attack_split, count=150, few=8),
    "run.json": Kind(make=attack_run, count=500, few=12),
    "calibration.json": Kind(make=attack_fit, count=100, few=6),
    "compare.json": Kind(make=attack_comparison, count=80, few=0, needs=("compare",)),
    "store": Kind(make=attack_store, count=200, few=8),
    "checkpoint": Kind(make=attack_checkpoint, count=250, few=15),
    "state half-way": Kind(make=attack_memory, count=60, few=0, needs=("half",)),
    "stranger's code": Kind(make=attack_stranger, count=75, few=6),
    "film": Kind(make=attack_film, count=20, few=2),
    "log, scores, predictions": Kind(make=attack_page, count=150, few=3),
    "names": Kind(make=attack_name, count=84, few=3),
    "special files": Kind(make=attack_special, count=66, few=6),
    "surroundings": Kind(make=attack_surroundings, count=48, few=0, seconds=60),
    **{
        f"kill {name}": Kind(make=kill_attack(name), count=30, few=few, seconds=120, needs=_with(name))
        for name, few in KILLED.items()
    },
    **{
        f"full disk, {name}": Kind(make=full_disk_attack(name), count=10, few=0, seconds=60, needs=_with(name))
        for name in VERBS
    },
}
"""By name."""
