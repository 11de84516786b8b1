"""A raw folder is prepared once, and again when anything in it changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from coranet.data.build import build_store, cached_store, default_cache
from coranet.data.datasets.folder import Dataset, read_folder
from coranet.data.grid import Grid
from coranet.data.prepare import Preparation
from coranet.data.readers.nifti import write
from coranet.data.store import Store
from coranet.errors import InputError
from coranet.types import Geometry

GEOMETRY = Geometry(shape=(4, 5, 3), affine=((-1.0, 0, 0, 3), (0, -2.0, 0, 5), (0, 0, 3.0, 7), (0, 0, 0, 1.0)))
PLAIN = Preparation()


def scan(seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=GEOMETRY.shape).astype(np.float32)


def raw_folder(root: Path) -> Dataset:
    """Two cases of two channels, of which one is labelled."""
    description = {
        "name": "tiny",
        "channel_names": {"0": "T1", "1": "T2"},
        "labels": {"background": 0, "organ": 1},
        "file_ending": ".nii.gz",
    }
    for folder in ("imagesTr", "labelsTr"):
        (root / folder).mkdir(parents=True)
    (root / "dataset.json").write_text(json.dumps(description))
    for number, name in enumerate(("p1_ED", "p1_ES")):
        for channel in (0, 1):
            write(root / "imagesTr" / f"{name}_{channel:04d}.nii.gz", scan(2 * number + channel), GEOMETRY)
    write(root / "labelsTr" / "p1_ED.nii.gz", (scan(9) > 0).astype(np.uint8), GEOMETRY)
    return read_folder(root)


def prepare(dataset: Dataset, cache: Path, settings: Preparation = PLAIN) -> tuple[Store, list[int]]:
    """The store, and the cases that were prepared for it."""
    steps: list[int] = []
    store = cached_store(dataset, dataset.cases, settings, cache, lambda done, total: steps.append(done))
    return store, steps


def test_a_folder_is_prepared_as_the_store_says(tmp_path: Path) -> None:
    store, steps = prepare(raw_folder(tmp_path / "raw"), tmp_path / "cache")
    assert steps == [1, 2]
    assert store.index["channels"] == ["T1", "T2"]
    assert store.classes == {0: "background", 1: "organ"}
    assert store.preparation["intensity"] == "zscore"
    assert [(case.name, case.patient, case.labelled) for case in store.cases.values()] == [
        ("p1_ED", "p1", True),
        ("p1_ES", "p1", False),
    ]
    # The scan's axes point left, back and up; the store's right, front and up.
    assert np.array_equal(store.label("p1_ED"), scan(9)[::-1, ::-1] > 0)
    expected = (scan(3) - scan(3).mean()) / scan(3).std()
    np.testing.assert_allclose(store.image("p1_ES")[1], expected[::-1, ::-1], atol=1e-5)
    assert Grid.from_json(store.cases["p1_ED"].grid).native == GEOMETRY


def test_a_folder_is_prepared_once(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    first, _ = prepare(dataset, tmp_path / "cache")
    second, steps = prepare(read_folder(dataset.root), tmp_path / "cache")
    assert steps == []
    assert second.path == first.path
    assert second.fingerprint == first.fingerprint


def touch_image(root: Path) -> None:
    write(root / "imagesTr" / "p1_ES_0001.nii.gz", scan(99), GEOMETRY)


def touch_label(root: Path) -> None:
    write(root / "labelsTr" / "p1_ED.nii.gz", (scan(99) > 0).astype(np.uint8), GEOMETRY)


def add_label(root: Path) -> None:
    write(root / "labelsTr" / "p1_ES.nii.gz", (scan(99) > 0).astype(np.uint8), GEOMETRY)


def describe(**changes: object) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        description = json.loads((root / "dataset.json").read_text())
        (root / "dataset.json").write_text(json.dumps({**description, **changes}))

    return change


@pytest.mark.parametrize(
    "change",
    [
        touch_image,
        touch_label,
        add_label,
        describe(labels={"background": 0, "tumour": 1}),
        describe(channel_names={"0": "CT", "1": "PET"}),
        describe(patients={"p1_ED": "someone", "p1_ES": "someone"}),
        describe(name="another"),
    ],
)
def test_a_changed_folder_is_prepared_again(tmp_path: Path, change: Callable[[Path], None]) -> None:
    dataset = raw_folder(tmp_path / "raw")
    before, _ = prepare(dataset, tmp_path / "cache")
    change(dataset.root)
    after, steps = prepare(read_folder(dataset.root), tmp_path / "cache")
    assert steps == [1, 2]
    assert after.fingerprint != before.fingerprint
    assert Store.open(before.path).fingerprint == before.fingerprint


def test_other_settings_and_cases_are_other_stores(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    one, _ = prepare(dataset, tmp_path / "cache")
    two, _ = prepare(dataset, tmp_path / "cache", Preparation(intensity="minmax"))
    three, _ = prepare(replace(dataset, cases=dataset.cases[:1]), tmp_path / "cache")
    assert len({one.fingerprint, two.fingerprint, three.fingerprint}) == 3
    assert len({one.path, two.path, three.path}) == 3


def test_folders_of_equal_content_make_equal_stores(tmp_path: Path) -> None:
    one, two = (prepare(raw_folder(tmp_path / name), tmp_path / "cache")[0] for name in ("one", "two"))
    assert one.path != two.path
    assert one.fingerprint == two.fingerprint


def test_a_scan_that_cannot_be_read_leaves_no_store(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    dataset.cases[1].images[0].write_bytes(b"")
    with pytest.raises(InputError, match="p1_ES_0000"):
        prepare(dataset, tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(InputError, match=r"cannot be written .* --cache"):
        build_store(dataset, dataset.cases, PLAIN, tmp_path / "cache" / "store")


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/coranet")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "coranet"
