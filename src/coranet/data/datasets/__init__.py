"""One dataset a file, as it is handed out or as people pass it around: from a folder to cases and their sources.

`DATASETS` has them by name; a folder in nnU-Net's layout is the one that needs no name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from coranet.data.datasets.acdc import survey_acdc
from coranet.data.datasets.endocardium import survey_endocardium
from coranet.data.datasets.folder import Dataset, refuse, survey
from coranet.data.datasets.h5 import survey_h5
from coranet.data.datasets.left_atrium import survey_left_atrium
from coranet.data.datasets.listed_cases import home_of, only_listed
from coranet.data.datasets.listed_scans import is_list
from coranet.data.datasets.msd import survey_msd
from coranet.data.datasets.pancreas_ct import survey_pancreas_ct
from coranet.data.datasets.sunnybrook import survey_sunnybrook
from coranet.data.problem import FileError, Problem, fatal
from coranet.errors import InputError, suggest

__all__ = ["DATASETS", "read_dataset", "survey_dataset"]

DATASETS: dict[str, Callable[[Path], tuple[Dataset | None, list[Problem]]]] = {
    "folder": survey,
    "acdc": survey_acdc,
    "left_atrium": survey_left_atrium,
    "pancreas_ct": survey_pancreas_ct,
    "endocardium": survey_endocardium,
    "sunnybrook": survey_sunnybrook,
    "msd": survey_msd,
    "h5": survey_h5,
}
"""By name: a dataset as far as it can be made out, and all that is wrong with it."""


def survey_dataset(root: Path, name: str = "folder") -> tuple[Dataset | None, list[Problem]]:
    """The dataset of that name in a folder, and all that is wrong with it; or those of its cases that a text lists.

    Raises:
        InputError: there is no dataset of that name.
    """
    if name not in DATASETS:
        raise InputError(f"--dataset {name}: no such dataset. {suggest(name, DATASETS)}")
    if name == "folder" and root.is_dir() and not (root / "dataset.json").exists():
        known = (other for other in DATASETS if other not in ("folder", "msd"))
        if likely := next((other for other in known if _surveyed(root, other)[0] is not None), None):
            return None, [fatal(root, f"is laid out as {likely} is, and not as nnU-Net's", f"Add --dataset {likely}")]
    return _surveyed(root, name)


def _surveyed(root: Path, name: str) -> tuple[Dataset | None, list[Problem]]:
    try:
        if not is_list(root):
            return DATASETS[name](root)
        dataset, problems = DATASETS[name](home_of(root))
        return dataset and only_listed(dataset, root), problems
    except FileError as error:  # a folder that may not be read, a name that is no text, or a list of something else
        return None, [error.problem]


def read_dataset(root: Path, name: str = "folder") -> Dataset:
    """The dataset of that name in a folder.

    Raises:
        InputError: there is no dataset of that name, or what is first wrong with the folder and how much more there is.
    """
    dataset, problems = survey_dataset(root, name)
    refuse(problems, f"; `coranet doctor {root}{'' if name == 'folder' else f' --dataset {name}'}` lists them")
    assert dataset is not None
    return dataset
