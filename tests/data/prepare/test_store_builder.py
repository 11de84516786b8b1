"""A raw folder is prepared once, and again when anything in it changes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from coranet.data.datasets.folder import Dataset, read_folder
from coranet.data.grid import Grid
from coranet.data.prepare.cases import Preparation, plan, prepare_case
from coranet.data.prepare.partial_store import ResumableWriter, unfinished
from coranet.data.prepare.store_builder import allow_gaps, build_store, cached_store, case_key, default_cache
from coranet.data.prepare.workers import Task, carry_out
from coranet.data.readers.nifti import write
from coranet.data.store import Store, StoreWriter
from coranet.errors import InputError
from coranet.geometry import Geometry
from coranet.locks import holding

GEOMETRY = Geometry(shape=(4, 5, 3), affine=((-1.0, 0, 0, 3), (0, -2.0, 0, 5), (0, 0, 3.0, 7), (0, 0, 0, 1.0)))
PLAIN = Preparation()


def scan(seed: int, shape: tuple[int, int, int] = GEOMETRY.shape) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def raw_folder(root: Path, geometry: Geometry = GEOMETRY) -> Dataset:
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
            image = scan(2 * number + channel, geometry.shape)
            write(root / "imagesTr" / f"{name}_{channel:04d}.nii.gz", image, geometry)
    write(root / "labelsTr" / "p1_ED.nii.gz", (scan(9, geometry.shape) > 0).astype(np.uint8), geometry)
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


def test_another_name_is_kept_and_changes_nothing(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    before, _ = prepare(dataset, tmp_path / "cache")
    describe(name="another")(dataset.root)
    after, _ = prepare(read_folder(dataset.root), tmp_path / "cache")
    assert (after.index["name"], after.fingerprint) == ("another", before.fingerprint)


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
    dataset.cases[1].images[0].path.write_bytes(b"")
    with pytest.raises(InputError, match="p1_ES_0000"):
        prepare(dataset, tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


COARSE = Preparation(spacing=(1.3, 2.1, 3.5), crop="foreground", crop_margin=(2, 2, 2))


def test_the_store_is_the_same_for_any_number_of_processes(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    alone = build_store(dataset, dataset.cases, COARSE, tmp_path / "alone")
    steps: list[int] = []
    together = build_store(
        dataset, dataset.cases, COARSE, tmp_path / "together", lambda done, total: steps.append(done), jobs=2
    )
    assert steps == [1, 2]
    assert alone == together
    for name in ("index.json", "images.bin", "labels.bin"):
        assert (tmp_path / "alone" / name).read_bytes() == (tmp_path / "together" / name).read_bytes()
    assert {file.name for file in tmp_path.iterdir()} == {"raw", "alone", "together"}


@pytest.mark.parametrize(
    ("shape", "spacing", "planes"),
    [
        ((256, 216, 10), (1.5, 1.5, 8), 2),  # short-axis cine MR
        ((10, 256, 216), (8, 1.5, 1.5), 0),
        ((320, 24, 320), (0.6, 3.6, 0.6), 1),
        ((40, 1, 40), (1, 1, 1), 1),
        ((24, 24, 24), (1, 3, 1), None),
        ((512, 512, 200), (0.8, 0.8, 1), None),
    ],
)
def test_scans_that_are_trained_on_by_slices_are_kept_by_planes(
    shape: tuple[int, int, int], spacing: tuple[float, float, float], planes: int | None
) -> None:
    x, y, z = spacing
    geometry = Geometry(shape=shape, affine=((x, 0, 0, 0), (0, y, 0, 0), (0, 0, z, 0), (0, 0, 0, 1.0)))
    for settings in (PLAIN, Preparation(spacing=(1.0, 1.0, 1.0)), Preparation(size=(96, 96, 8))):
        assert plan(geometry, settings).planes == planes


UPRIGHT = {0: 2, 1: 0, 2: 1}
"""Where the axes of an upright scan point: up, right and front."""


def upright(thick: int) -> Geometry:
    """Slices of one millimetre a pixel, four apart along one axis."""
    x, y, z = (4.0 if UPRIGHT[thick] == axis else 1.0 for axis in range(3))
    return Geometry(shape=(6, 7, 5), affine=((0, x, 0, 3), (0, 0, -y, 5), (z, 0, 0, 7), (0, 0, 0, 1.0)))


@pytest.mark.parametrize("thick", UPRIGHT)
@pytest.mark.parametrize("voxels", [1, 70, 10**6])
def test_planes_are_put_in_place_however_few_come_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thick: int, voxels: int
) -> None:
    monkeypatch.setattr("coranet.data.prepare.separable._AT_A_TIME", voxels)
    dataset = raw_folder(tmp_path / "raw", upright(thick))
    build_store(dataset, dataset.cases, PLAIN, tmp_path / "built")
    built = Store.open(tmp_path / "built")
    header = {name: built.index[name] for name in ("name", "channels", "classes", "preparation")}
    with StoreWriter(tmp_path / "written", header) as writer:
        for case in dataset.cases:
            label = case.label.read() if case.label else None
            made = prepare_case([image.read() for image in case.images], label, PLAIN)
            assert np.array_equal(built.image(case.name), made.image)
            assert built.cases[case.name].planes == UPRIGHT[thick]
            writer.add(case.name, case.patient, made.image, made.label, made.grid.to_json(), case.part, UPRIGHT[thick])
    for name in ("index.json", "images.bin", "labels.bin"):
        first, second = ((tmp_path / store / name).read_bytes() for store in ("built", "written"))
        assert (json.loads(first) == json.loads(second)) if name == "index.json" else (first == second)


def test_a_copied_store_is_the_same(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    build_store(dataset, dataset.cases, PLAIN, tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "cluster" / "there")
    here, there = Store.open(tmp_path / "here"), Store.open(tmp_path / "cluster" / "there")
    assert here.fingerprint == there.fingerprint
    assert np.array_equal(here.image("p1_ES"), there.image("p1_ES"))
    assert str(tmp_path) not in (tmp_path / "here" / "index.json").read_text()


KILLED = """
import os, signal, sys
from pathlib import Path
from coranet.data.prepare.store_builder import build_store
from coranet.data.datasets.folder import read_folder
from coranet.data.prepare.preparation import Preparation
dataset = read_folder(Path(sys.argv[1]))
kill = lambda done, total: os.kill(os.getpid(), signal.SIGKILL)
build_store(dataset, dataset.cases, Preparation(), Path(sys.argv[2]), kill)
"""


def test_a_killed_run_leaves_no_store_and_is_taken_up(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    killed = subprocess.run([sys.executable, "-c", KILLED, dataset.root, tmp_path / "store"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "store").exists()
    assert not [file for file in tmp_path.rglob("*") if Store.is_store(file)]
    told = build_store(dataset, dataset.cases, PLAIN, tmp_path / "store")
    assert [case.resumed for case in told] == [True, False]
    build_store(dataset, dataset.cases, PLAIN, tmp_path / "fresh")
    assert Store.open(tmp_path / "store").fingerprint == Store.open(tmp_path / "fresh").fingerprint
    assert {file.name for file in tmp_path.iterdir()} == {"raw", "store", "fresh"}


def test_what_a_process_left_that_was_killed_at_the_very_end_is_removed(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    store, _ = prepare(dataset, tmp_path / "cache")
    left = unfinished(store.path)
    (left / "pieces").mkdir(parents=True)
    (left / ".lock").touch()
    with holding(left / ".lock", left):
        assert prepare(dataset, tmp_path / "cache")[0].path == store.path
        assert left.exists()  # its process lives
    assert prepare(dataset, tmp_path / "cache")[0].path == store.path
    assert list((tmp_path / "cache").iterdir()) == [store.path]


def stop(done: int, total: int) -> None:
    raise KeyboardInterrupt


def interrupted(dataset: Dataset, path: Path, settings: Preparation = PLAIN) -> Path:
    """The folder that a run leaves that was stopped after its first case."""
    with pytest.raises(KeyboardInterrupt):
        build_store(dataset, dataset.cases, settings, path, stop)
    assert not path.exists()
    return unfinished(path)


def resumed(dataset: Dataset, path: Path, settings: Preparation = PLAIN) -> list[bool]:
    """Which cases were not prepared again; the store is what it would have been without a stop."""
    told = build_store(dataset, dataset.cases, settings, path)
    fresh = path.with_name("fresh")
    build_store(dataset, dataset.cases, settings, fresh)
    assert Store.open(path).fingerprint == Store.open(fresh).fingerprint
    assert np.array_equal(Store.open(path).image("p1_ES"), Store.open(fresh).image("p1_ES"))
    return [case.resumed for case in told]


def test_what_a_kill_cut_short_is_done_again(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    folder = interrupted(dataset, tmp_path / "store")
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write('{"key": "ab')
    with (folder / "store" / "images.bin").open("ab") as images:
        images.write(b"half a case")
    assert resumed(dataset, tmp_path / "store") == [True, False]


def test_voxels_that_never_reached_the_disk_are_noticed(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    images = interrupted(dataset, tmp_path / "store") / "store" / "images.bin"
    images.write_bytes(bytes(images.stat().st_size))
    assert resumed(dataset, tmp_path / "store") == [False, False]


def test_cases_that_wait_for_their_turn_are_not_done_again(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    pieces = interrupted(dataset, tmp_path / "store") / "pieces"
    carry_out(Task(1, dataset.cases[1], PLAIN, case_key(dataset.cases[1], PLAIN), pieces))
    assert resumed(dataset, tmp_path / "store") == [True, True]


def test_what_changed_meanwhile_is_done_again(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    interrupted(dataset, tmp_path / "store")
    touch_label(dataset.root)
    assert resumed(dataset, tmp_path / "store") == [False, False]


def test_other_settings_do_not_take_up_the_work_of_others(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    interrupted(dataset, tmp_path / "store")
    assert resumed(dataset, tmp_path / "store", COARSE) == [False, False]


def test_a_mended_scan_does_not_cost_the_others(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    image = dataset.cases[1].images[1].path
    whole = image.read_bytes()
    image.write_bytes(whole[:100])
    with pytest.raises(InputError, match="p1_ES_0001"):
        build_store(dataset, dataset.cases, PLAIN, tmp_path / "store")
    image.write_bytes(whole)
    assert resumed(dataset, tmp_path / "store") == [True, False]


def test_two_processes_at_one_store_do_not_meet(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    with ResumableWriter(tmp_path / "store", {}, []) as other:
        build_store(dataset, dataset.cases, PLAIN, tmp_path / "store")
        assert other.folder.exists()
        assert len(Store.open(tmp_path / "store").cases) == 2


def as_test_case(dataset: Dataset) -> Dataset:
    """The labelled case alone, as one that is for test."""
    return replace(dataset, cases=(replace(dataset.cases[0], part="Ts"),))


def test_the_ground_truth_is_not_looked_at_where_it_should_not_be_known(tmp_path: Path) -> None:
    dataset, crop = raw_folder(tmp_path / "raw"), Preparation(crop="label")
    with pytest.raises(InputError, match=r"p1_ES_0000.nii.gz: has no label, and crop=label asks for one"):
        build_store(dataset, dataset.cases, crop, tmp_path / "store")
    test = as_test_case(dataset)
    with pytest.raises(InputError, match=r"p1_ED.nii.gz: is the label of a test case.*--crop-label-for-all"):
        build_store(test, test.cases, crop, tmp_path / "store")
    assert {file.name for file in tmp_path.iterdir()} == {"raw"}
    build_store(test, test.cases, replace(crop, crop_label_for_all=True), tmp_path / "store")
    assert Store.open(tmp_path / "store").preparation["crop"] == "label"


def test_what_a_coarser_grid_loses_is_told(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    (labelled, unlabelled) = build_store(dataset, dataset.cases, PLAIN, tmp_path / "own")
    assert labelled.kept == unlabelled.kept == {}
    (labelled, _) = build_store(dataset, dataset.cases, Preparation(spacing=(2.0, 4.0, 6.0)), tmp_path / "coarse")
    assert set(labelled.kept) == {"organ"}
    assert 0.3 < labelled.kept["organ"] < 0.95


def test_gaps_are_allowed_in_series_alone(tmp_path: Path) -> None:
    dataset = raw_folder(tmp_path / "raw")
    series = replace(dataset.cases[0].images[0], reader="dicom")
    mixed = replace(dataset, cases=(replace(dataset.cases[0], images=(series, dataset.cases[0].images[1])),))
    (case,) = allow_gaps(mixed).cases
    assert [image.inside for image in case.images] == [(("gaps", "interpolate"),), ()]


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
