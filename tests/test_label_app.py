"""The app for MONAI Label, whose package is stood in for here; docs/export.md says how the real one was tried."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import coranet

MAIN = Path(__file__).parent.parent / "apps/monailabel/main.py"
COMMAND = str(Path(sys.executable).with_name("coranet"))
NEEDED = {
    "app": ["MONAILabelApp"],
    "datastore": ["Datastore"],
    "exception": ["MONAILabelError", "MONAILabelException"],
    "tasks.infer_v2": ["InferTask", "InferType"],
    "tasks.strategy": ["Strategy"],
}


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file, with plain classes for those of MONAI Label."""

    class Base(Exception):  # noqa: N818
        SEGMENTATION = INFERENCE_ERROR = "kind"

        def __init__(self, *given: Any) -> None:
            super().__init__(*given)

    modules = {f"monailabel.interfaces.{name}": names for name, names in NEEDED.items()}
    for name, names in {**modules, "monailabel.tasks.activelearning.random": ["Random"]}.items():
        module = ModuleType(name)
        for one in names:
            setattr(module, one, Base)
        parts = name.split(".")
        for depth in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), ModuleType(parts[depth - 1]))
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("label_app", MAIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_app_says_what_the_run_says(app: Any, finished: Path, scans: Path) -> None:
    scan = scans / "imagesTs/phantom_007_0000.nii.gz"
    file, said = app.Segmentation(finished, COMMAND, "cpu")({"image": str(scan)})
    try:
        found = np.asarray(nib.load(file).dataobj)
    finally:
        Path(file).unlink()
    np.testing.assert_array_equal(found, coranet.load(finished, "cpu").predict(scan).label)
    classes = json.loads((finished / "run.json").read_text())["data"]["classes"]
    assert said["label_names"] == {name: int(value) for value, name in classes.items() if value != "0"}
    assert {"expected_dice", "flags"} <= set(said)


def test_what_goes_wrong_is_said_in_the_commands_own_sentence(app: Any, finished: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.nii.gz").write_text("no scan")
    with pytest.raises(app.MONAILabelException, match=r"bad\.nii\.gz: .*not gzip"):
        app.Segmentation(finished, COMMAND, "cpu")({"image": str(tmp_path / "bad.nii.gz")})
    with pytest.raises(app.MONAILabelException, match="--conf coranet FILE"):
        app.Segmentation(finished, str(tmp_path / "nowhere"), None)({"image": "scan.nii.gz"})


@dataclass
class Unlabelled:
    """What a datastore has to say."""

    images: list[str]

    def get_unlabeled_images(self, tag: str | None, labels: Any) -> list[str]:
        return self.images


def test_the_worst_case_without_a_label_comes_first(app: Any, tmp_path: Path) -> None:
    with (tmp_path / "cases.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["case", "class"], ["b", "all"], ["b", "LV"], ["a", "all"]])
    strategy = app.WorstFirst(tmp_path / "cases.csv")

    for left, first in ((["new", "a_0000", "b_0000"], "b_0000"), (["new", "a"], "a"), (["new"], "new")):
        assert strategy({}, Unlabelled(left)) == {"id": first}
    assert strategy({}, Unlabelled([])) is None
