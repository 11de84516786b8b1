"""A store gives back what was written, notices what is broken, and is never half there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from coranet.data.build import build_store, cached_store, default_cache
from coranet.data.datasets.folder import Dataset, read_folder
from coranet.data.grid import Grid
from coranet.data.prepare import Preparation
from coranet.data.readers.nifti import write
from coranet.data.store import Store, StoreWriter
from coranet.errors import InputError
from coranet.types import Geometry

HEADER = {
    "name": "test",
    "channels": ["T1", "T2"],
    "classes": {"0": "background", "1": "organ"},
    "preparation": {"intensity": "zscore"},
}
SHAPES = {"a": (2, 3, 4, 5), "b": (2, 6, 2, 3), "c": (2, 1, 7, 2), "d": (2, 4, 4, 4)}
LABELLED = ("a", "c", "d")

Case = tuple[NDArray[np.float32], NDArray[np.uint8] | None]


def cases() -> dict[str, Case]:
    rng = np.random.default_rng(0)
    return {
        name: (
            rng.normal(size=shape).astype(np.float32),
            rng.integers(0, 2, shape[1:]).astype(np.uint8) if name in LABELLED else None,
        )
        for name, shape in SHAPES.items()
    }


def write_store(path: Path, content: dict[str, Case] | None = None, **changes: object) -> Store:
    with StoreWriter(path, {**HEADER, **changes}) as writer:
        for name, (image, label) in (content or cases()).items():
            writer.add(name, f"patient {name}", image, label, {"of": name})
    return Store.open(path)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    store = write_store(tmp_path / "deep" / "er" / "store")
    assert list(store.cases) == list(SHAPES)
    assert store.channels == 2
    assert store.classes == {0: "background", 1: "organ"}
    assert store.preparation == {"intensity": "zscore"}
    for name, (image, label) in cases().items():
        case = store.cases[name]
        assert (case.patient, case.shape, case.grid) == (f"patient {name}", SHAPES[name], {"of": name})
        assert np.array_equal(store.image(name), image)
        assert case.labelled == (label is not None)
        if label is not None:
            assert np.array_equal(store.label(name), label)


def test_views_of_other_layouts_are_written_as_they_look(tmp_path: Path) -> None:
    image, label = cases()["a"]
    assert label is not None
    store = write_store(tmp_path / "store", {"a": (image[:, ::-1].swapaxes(1, 3), label[::-1].swapaxes(0, 2))})
    assert np.array_equal(store.image("a"), image[:, ::-1].swapaxes(1, 3))
    assert np.array_equal(store.label("a"), label[::-1].swapaxes(0, 2))


def test_unlabelled_cases_have_no_bytes_in_the_labels(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store")
    expected = sum(int(np.prod(SHAPES[name][1:])) for name in LABELLED)
    assert (store.path / "labels.bin").stat().st_size == expected
    with pytest.raises(AssertionError, match="b has no label"):
        store.label("b")


def test_a_store_may_be_wholly_unlabelled(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", {name: (image, None) for name, (image, _) in cases().items()})
    assert (store.path / "labels.bin").stat().st_size == 0
    assert np.array_equal(store.image("d"), cases()["d"][0])


def test_arrays_cannot_be_written_to(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store")
    for array in (store.image("a"), store.label("a")):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_equal_content_has_one_fingerprint(tmp_path: Path) -> None:
    first, second = write_store(tmp_path / "one"), write_store(tmp_path / "far" / "two")
    shutil.copytree(first.path, tmp_path / "copy")
    assert first.fingerprint == second.fingerprint == Store.open(tmp_path / "copy").fingerprint


def a_voxel(content: dict[str, Case]) -> dict[str, Case]:
    content["b"][0][1, 5, 1, 2] += np.float32(1e-3)
    return content


def a_label(content: dict[str, Case]) -> dict[str, Case]:
    label = content["d"][1]
    assert label is not None
    label[3, 3, 3] ^= 1
    return content


def no_label(content: dict[str, Case]) -> dict[str, Case]:
    return {**content, "a": (content["a"][0], None)}


@pytest.mark.parametrize("change", [a_voxel, a_label, no_label, lambda content: dict(reversed(content.items()))])
def test_the_fingerprint_changes_with_the_content(
    tmp_path: Path, change: Callable[[dict[str, Case]], dict[str, Case]]
) -> None:
    assert write_store(tmp_path / "one").fingerprint != write_store(tmp_path / "two", change(cases())).fingerprint


@pytest.mark.parametrize(
    "change", [{"preparation": {"intensity": "minmax"}}, {"classes": {"0": "background", "1": "tumour"}}]
)
def test_the_fingerprint_changes_with_a_setting(tmp_path: Path, change: dict[str, object]) -> None:
    assert write_store(tmp_path / "one").fingerprint != write_store(tmp_path / "two", **change).fingerprint


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_writer_leaves_nothing_behind(tmp_path: Path, error: type[BaseException]) -> None:
    def interrupted() -> None:
        with StoreWriter(tmp_path / "store", HEADER) as writer:
            writer.add("a", "p", *cases()["a"], {})
            raise error

    with pytest.raises(error):
        interrupted()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")

    def write_to_a_full_disk() -> None:
        with StoreWriter(tmp_path / "store", HEADER) as writer:
            writer.files["images.bin"].close()
            writer.files["images.bin"] = full.open("wb")
            writer.add("a", "p", *cases()["a"], {})

    with pytest.raises(OSError, match="No space left"):
        write_to_a_full_disk()
    assert not list(tmp_path.iterdir())


def test_of_two_writers_the_first_to_finish_stays(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with StoreWriter(path, HEADER) as slow:
        slow.add("a", "slow", *cases()["a"], {})
        with StoreWriter(path, HEADER) as fast:
            fast.add("a", "fast", *cases()["a"], {})
        assert not Store.is_store(slow.folder)
    assert Store.open(path).cases["a"].patient == "fast"
    assert list(tmp_path.iterdir()) == [path]


def test_a_store_is_as_open_to_others_as_any_folder(tmp_path: Path) -> None:
    (tmp_path / "any").mkdir()
    assert write_store(tmp_path / "store").path.stat().st_mode == (tmp_path / "any").stat().st_mode


def cut_short(name: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        content = (path / name).read_bytes()
        (path / name).write_bytes(content[:-1])

    return spoil


def edit_index(**changes: object) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        index = json.loads((path / "index.json").read_text())
        (path / "index.json").write_text(json.dumps({**index, **changes}))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_short("images.bin"), r"images\.bin: missing or cut short\. Delete"),
        (cut_short("labels.bin"), r"labels\.bin: missing or cut short\. Delete"),
        (lambda path: (path / "images.bin").unlink(), r"images\.bin: missing"),
        (lambda path: (path / "labels.bin").unlink(), r"labels\.bin: missing"),
        (cut_short("index.json"), "not a prepared store"),
        (lambda path: (path / "index.json").write_bytes(b"\xff\xfe{"), "not a prepared store"),
        (lambda path: (path / "index.json").write_text("[]"), "not a prepared store"),
        (lambda path: (path / "index.json").unlink(), "not a prepared store"),
        (shutil.rmtree, "not a prepared store"),
        (edit_index(format="coranet-store-0"), r"another format \(coranet-store-0\)"),
        (edit_index(format=None), "another format"),
    ],
)
def test_a_broken_store_is_refused(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    path = write_store(tmp_path / "store").path
    spoil(path)
    with pytest.raises(InputError, match=message) as refused:
        Store.open(path)
    assert str(path) in str(refused.value)


def test_a_store_is_known_by_its_files(tmp_path: Path) -> None:
    assert Store.is_store(write_store(tmp_path / "store").path)
    assert not Store.is_store(tmp_path)
    assert not Store.is_store(tmp_path / "nowhere")


# From a raw folder, through the cache

GEOMETRY = Geometry(shape=(4, 5, 3), affine=((-1.0, 0, 0, 3), (0, -2.0, 0, 5), (0, 0, 3.0, 7), (0, 0, 0, 1.0)))


def scan(seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=GEOMETRY.shape).astype(np.float32)


def raw_folder(root: Path) -> Dataset:
    """Two cases of two channels, of which one is labelled."""
    description: dict[str, Any] = {
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


def prepare(dataset: Dataset, cache: Path, settings: Preparation = Preparation()) -> tuple[Store, list[int]]:
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
        build_store(dataset, dataset.cases, Preparation(), tmp_path / "cache" / "store")


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/coranet")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "coranet"
