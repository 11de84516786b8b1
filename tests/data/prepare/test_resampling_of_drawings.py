"""Labels that are drawn in part keep their drawing on every grid, and invent none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from coranet.data.datasets.folder import read_folder
from coranet.data.prepare.cases import Preparation, plan
from coranet.data.prepare.resampling import forward_turned
from coranet.data.prepare.store_builder import build_store, cache_place, case_key
from coranet.data.readers.nifti import write
from coranet.data.store import Store, StoreWriter
from coranet.errors import InputError
from coranet.geometry import Geometry

SHAPE = (12, 10, 18)
GEOMETRY = Geometry(shape=SHAPE, affine=((1.0, 0, 0, 0), (0, 1.0, 0, 0), (0, 0, 1.0, 0), (0, 0, 0, 1.0)))
IGNORE = 3


def drawing() -> np.ndarray:
    """Three slices of eighteen, with an object in them."""
    label = np.full(SHAPE, IGNORE, np.uint8)
    label[..., [1, 8, 14]] = 0
    label[4:8, 2:6, [1, 8, 14]] = 1
    return label


@pytest.mark.parametrize("size", [SHAPE, (12, 10, 6), (12, 10, 9), (12, 10, 36), (24, 20, 18), (6, 5, 6), (12, 10, 7)])
def test_drawn_slices_survive_every_grid(size: tuple[int, int, int]) -> None:
    grid = plan(GEOMETRY, Preparation(size=size, fit="resize"))
    placed = forward_turned(drawing(), grid, IGNORE)
    drawn = (placed != IGNORE).all(axis=(0, 1))
    assert ((placed != IGNORE).any(axis=(0, 1)) == drawn).all()  # slices are drawn wholly, or not at all
    assert 3 <= drawn.sum() <= max(3, 3 * size[2] / SHAPE[2] + 3)
    on_slices = placed[..., drawn]
    assert set(np.unique(placed)) == {0, 1, IGNORE}
    assert (on_slices == 1).mean() == pytest.approx(16 / 120, abs=0.03)


def test_a_thin_scribble_survives_a_coarser_grid() -> None:
    label = np.full(SHAPE, IGNORE, np.uint8)
    label[2:10, 5, 9], label[2:10, 2, 9] = 1, 0
    placed = forward_turned(label, plan(GEOMETRY, Preparation(size=(4, 5, 6), fit="resize")), IGNORE)
    assert (placed == 1).any()
    assert (placed == 0).any()
    assert (placed == IGNORE).mean() > 0.8


def test_padding_of_a_part_is_not_drawn_and_of_a_whole_is_background() -> None:
    grid = plan(GEOMETRY, Preparation(size=(16, 14, 18)))
    assert set(np.unique(forward_turned(drawing(), grid, IGNORE)[:2])) == {IGNORE}
    assert not forward_turned(np.zeros(SHAPE, np.uint8), grid, IGNORE).any()


def make_raw(root: Path, labels: dict[str, int], label: np.ndarray) -> Path:
    for folder in ("imagesTr", "labelsTr"):
        (root / folder).mkdir(parents=True)
    about = {"channel_names": {"0": "MR"}, "labels": labels, "file_ending": ".nii.gz"}
    (root / "dataset.json").write_text(json.dumps(about))
    for seed, name in enumerate("ab"):
        scan = np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)
        write(root / f"imagesTr/{name}_0000.nii.gz", scan, GEOMETRY)
        write(root / f"labelsTr/{name}.nii.gz", label if name == "a" else np.minimum(label, 1), GEOMETRY)
    return root


def test_a_store_keeps_the_value_and_knows_which_cases_are_partial(tmp_path: Path) -> None:
    named = {"background": 0, "organ": 1, "other": 2, "ignore": IGNORE}
    dataset = read_folder(make_raw(tmp_path / "raw", named, drawing()))
    assert list(dataset.classes.values()) == ["background", "organ", "other"]
    remarks = build_store(dataset, dataset.cases, Preparation(), tmp_path / "store")
    store = Store.open(tmp_path / "store")
    assert (store.ignore, store.partial) == (IGNORE, {"a"})
    assert (store.label("a") == drawing()).all()
    assert [remark.kept for remark in remarks] == [{}, {}]


def test_another_ignored_value_is_another_store(tmp_path: Path) -> None:
    plain = read_folder(make_raw(tmp_path / "raw", {"background": 0, "organ": 1}, drawing()))
    keys = {case_key(case, Preparation()) for case in plain.cases}
    places = {cache_place(plain, plain.cases, Preparation(), tmp_path)}
    for ignore in (3, 4):
        about = {"channel_names": {"0": "MR"}, "labels": {"background": 0, "organ": 1, "ignore": ignore}}
        (tmp_path / "raw/dataset.json").write_text(json.dumps(about))
        other = read_folder(tmp_path / "raw")
        keys |= {case_key(case, Preparation()) for case in other.cases}
        places.add(cache_place(other, other.cases, Preparation(), tmp_path))
    assert (len(keys), len(places)) == (6, 3)


@pytest.mark.parametrize("ignore", [1, 256, "3", True])
def test_a_store_with_an_odd_ignored_value_is_refused(tmp_path: Path, ignore: object) -> None:
    header = {"channels": ["0"], "classes": {"0": "background", "1": "organ"}, "preparation": {}, "ignore": ignore}
    with StoreWriter(tmp_path / "store", header) as writer:
        writer.add("a", "a", np.zeros((1, *SHAPE), np.float32), drawing(), {})
    with pytest.raises(InputError, match="not the index of a whole store"):
        Store.open(tmp_path / "store")
