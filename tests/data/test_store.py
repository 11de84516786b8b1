"""A store gives back what was written, notices what is broken, and is never half there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from coranet.data.store import Store, StoreWriter
from coranet.errors import InputError

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


def write_store(path: Path, content: dict[str, Case] | None = None, planes: int | None = None, **changes: Any) -> Store:
    with StoreWriter(path, {**HEADER, **changes}) as writer:
        for name, (image, label) in (content or cases()).items():
            writer.add(name, f"patient {name}", image, label, {"of": name}, planes=planes)
    return Store.open(path)


@pytest.mark.parametrize("planes", [None, 0, 1, 2])
def test_what_is_written_comes_back(tmp_path: Path, planes: int | None) -> None:
    store = write_store(tmp_path / "deep" / "er" / "store", planes=planes)
    assert list(store.cases) == list(SHAPES)
    assert store.channels == 2
    assert store.classes == {0: "background", 1: "organ"}
    assert store.preparation == {"intensity": "zscore"}
    for name, (image, label) in cases().items():
        case = store.cases[name]
        assert (case.patient, case.shape, case.grid) == (f"patient {name}", SHAPES[name], {"of": name})
        assert case.planes == planes
        assert np.array_equal(store.image(name), image)
        assert case.labelled == (label is not None)
        if label is not None:
            assert np.array_equal(store.label(name), label)


@pytest.mark.parametrize("planes", [0, 1, 2])
def test_planes_lie_one_after_the_other(tmp_path: Path, planes: int) -> None:
    store = write_store(tmp_path / "store", planes=planes)
    kept = {"images.bin": np.dtype(np.float32), "labels.bin": np.dtype(np.uint8)}
    at = dict.fromkeys(kept, 0)
    for image, label in cases().values():
        stacks = [("images.bin", channel) for channel in image] + ([("labels.bin", label)] if label is not None else [])
        for name, stack in stacks:
            for number in range(stack.shape[planes]):
                plane = stack.take(number, planes)
                file, size = store.path / name, kept[name].itemsize
                assert np.array_equal(np.fromfile(file, kept[name], plane.size, offset=size * at[name]), plane.ravel())
                at[name] += plane.size
    assert at == store.index["voxels"]


@pytest.mark.parametrize("planes", [None, 1, 2])
def test_views_of_other_layouts_are_written_as_they_look(tmp_path: Path, planes: int | None) -> None:
    image, label = cases()["a"]
    assert label is not None
    turned = (image[:, ::-1].swapaxes(1, 3), label[::-1].swapaxes(0, 2))
    store = write_store(tmp_path / "store", {"a": turned}, planes)
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


@pytest.mark.parametrize("planes", [None, 2])
def test_arrays_cannot_be_written_to(tmp_path: Path, planes: int | None) -> None:
    store = write_store(tmp_path / "store", planes=planes)
    for array in (store.image("a"), store.label("a")):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_equal_content_has_one_fingerprint(tmp_path: Path) -> None:
    first, second = write_store(tmp_path / "one"), write_store(tmp_path / "far" / "two")
    shutil.copytree(first.path, tmp_path / "copy")
    assert first.fingerprint == second.fingerprint == Store.open(tmp_path / "copy").fingerprint
    assert first.fingerprint == write_store(tmp_path / "three", name="renamed").fingerprint


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
def test_the_fingerprint_changes_with_a_setting(tmp_path: Path, change: dict[str, Any]) -> None:
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


def test_a_store_takes_no_place_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "thesis.tex").write_text("years of work")
    with pytest.raises(OSError, match="not empty"):
        write_store(tmp_path / "store")
    assert [file.name for file in tmp_path.rglob("*")] == ["store", "thesis.tex"]


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
        (lambda path: (path / "index.json").unlink(), "not a prepared store"),
        (shutil.rmtree, "not a prepared store"),
        (edit_index(format="coranet-store-2"), r"another format \(coranet-store-2\)\. Prepare it again"),
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


GRID = {
    "native": {"shape": [3, 4, 5], "affine": np.eye(4).tolist()},
    "axes": [0, 1, 2],
    "flips": [False, False, False],
    "shape": [3, 4, 5],
    "scale": [1.0, 1.0, 1.0],
    "offset": [0.0, 0.0, 0.0],
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"scale": [1.0]},
        {"scale": "111"},
        {"axes": [0, 0, 1]},
        {"native": {"shape": [3, 4], "affine": np.eye(4).tolist()}},
        {"native": {"shape": [3, {}, 5], "affine": np.eye(4).tolist()}},
        {"native": {"shape": [3, 4, 5], "affine": [[1.0]]}},
    ],
)
def test_a_grid_that_is_none_is_refused_when_the_store_is_opened(tmp_path: Path, change: dict[str, Any]) -> None:
    write_store(tmp_path / "store")
    index = json.loads((tmp_path / "store/index.json").read_text())
    index["cases"][0]["grid"] = {**GRID, **change}
    (tmp_path / "store/index.json").write_text(json.dumps(index))
    if not change:
        assert Store.open(tmp_path / "store").cases["a"].grid == GRID
        return
    with pytest.raises(InputError, match=r"index\.json: is not the index of a whole store"):
        Store.open(tmp_path / "store")
