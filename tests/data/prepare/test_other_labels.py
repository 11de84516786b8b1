"""Label maps by another model, brought to the store's grid and into its classes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coranet.data.datasets.folder import read_folder
from coranet.data.prepare.cases import Preparation
from coranet.data.prepare.other_labels import FILE, NO_WORD, OtherLabels
from coranet.data.prepare.store_builder import build_store
from coranet.data.readers.nifti import write
from coranet.data.store import Store
from coranet.errors import InputError
from tests.data.prepare.test_resampling_of_drawings import GEOMETRY, SHAPE, make_raw


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two cases, a and b, with the classes organ and other."""
    root = make_raw(tmp_path / "raw", {"background": 0, "organ": 1, "other": 2}, np.zeros(SHAPE, np.uint8))
    dataset = read_folder(root)
    build_store(dataset, dataset.cases, Preparation(size=(14, 10, 18)), tmp_path / "store")
    return Store.open(tmp_path / "store")


def word() -> np.ndarray:
    array = np.zeros(SHAPE, np.uint8)
    array[2:5, 3:6, 4:9], array[6:8, 3:6, 4:9] = 1, 2
    return array


def teacher(folder: Path, array: np.ndarray, labels: dict[str, int] | None = None) -> Path:
    folder.mkdir()
    write(folder / "a.nii.gz", array, GEOMETRY)
    if labels is not None:
        (folder / "dataset.json").write_text(json.dumps({"labels": labels}))
    return folder


def test_without_a_description_values_are_the_same(store: Store, tmp_path: Path) -> None:
    found = OtherLabels.read(teacher(tmp_path / "t", word()), store, ["a", "b"]).maps
    assert list(found) == ["a"]
    assert (found["a"][1:13] == word()).all()
    assert not found["a"][[0, 13]].any()


def test_classes_are_matched_by_name(store: Store, tmp_path: Path) -> None:
    swapped = np.select([word() == 1, word() == 2], [2, 7], 3).astype(np.uint8)
    named = {"background": 0, "Organ": 2, "spleen": 3, "OTHER": 7}
    found = OtherLabels.read(teacher(tmp_path / "t", swapped, named), store, ["a"]).maps["a"]
    assert (found[1:13] == word()).all()  # what only the other model knows is background here


def test_background_of_a_model_that_lacks_a_class_is_no_word(store: Store, tmp_path: Path) -> None:
    found = OtherLabels.read(teacher(tmp_path / "t", word(), {"background": 0, "organ": 1}), store, ["a"]).maps["a"]
    assert set(np.unique(found)) == {1, NO_WORD}
    assert (found[1:13] == 1).sum() == (word() == 1).sum()


@pytest.mark.parametrize(
    ("labels", "value", "message"),
    [
        (None, 9, r"a\.nii\.gz: has values that are no class: 9\. Say in a dataset\.json"),
        (
            {"background": 0, "liver": 1},
            1,
            r"names none of the classes that are trained\. Rename its classes to organ, other",
        ),
        ({"background": 0, "organ": 300}, 1, r"gives 'organ' the number 300"),
    ],
)
def test_what_means_nothing_is_refused(
    store: Store, tmp_path: Path, labels: dict[str, int] | None, value: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        OtherLabels.read(teacher(tmp_path / "t", np.full(SHAPE, value, np.uint8), labels), store, ["a"])


def test_a_folder_without_a_map_of_an_unlabelled_scan_is_refused(store: Store, tmp_path: Path) -> None:
    folder = teacher(tmp_path / "t", word())
    with pytest.raises(InputError, match=r"no label map of an unlabelled scan\. Give names as b\.nii\.gz"):
        OtherLabels.read(folder, store, ["b"])
    with pytest.raises(InputError, match="is not a folder"):
        OtherLabels.read(tmp_path / "none", store, ["a"])


def test_a_map_on_another_grid_is_refused(store: Store, tmp_path: Path) -> None:
    folder = teacher(tmp_path / "t", word())
    moved = replace(GEOMETRY, affine=((1.0, 0, 0, 5), *GEOMETRY.affine[1:]))
    write(folder / "a.nii.gz", word(), moved)
    with pytest.raises(InputError, match="does not lie on the grid of the scan a"):
        OtherLabels.read(folder, store, ["a"])


def test_what_is_kept_comes_back_or_is_refused(store: Store, tmp_path: Path) -> None:
    found = OtherLabels.read(teacher(tmp_path / "t", word()), store, ["a"])
    for tried in (False, True):
        replace(found, tried=tried).write(tmp_path)
        again = OtherLabels.kept(tmp_path, store)
        assert (again.maps["a"] == found.maps["a"]).all()
        assert again.tried == tried
    OtherLabels({"file": found.maps["a"]}).write(tmp_path)  # a name that NumPy takes for its own
    with pytest.raises(InputError, match="holds labels of file that are not of these scans"):
        OtherLabels.kept(tmp_path, store)
    np.savez(tmp_path / FILE, a=found.maps["a"])  # as earlier versions kept them
    assert not OtherLabels.kept(tmp_path, store).tried
    np.savez(tmp_path / FILE, a=np.zeros((2, 2, 2), np.uint8))
    with pytest.raises(InputError, match="not of these scans"):
        OtherLabels.kept(tmp_path, store)
    (tmp_path / FILE).write_bytes(b"PK")
    with pytest.raises(InputError, match="missing or cannot be read"):
        OtherLabels.kept(tmp_path, store)
