"""Batches are a pure function of seed and step, and image, label and maps in them are cut as one."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tracemalloc
from dataclasses import replace
from itertools import combinations, islice, product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from coranet.data.store import Store, StoreWriter
from coranet.engine.captured import kind_of
from coranet.engine.trainer import Trainer
from coranet.errors import InputError
from coranet.feed import residency
from coranet.feed.augmentation import Augment
from coranet.feed.batches import Batches, mix
from coranet.feed.pools import CaseMemory, Pool
from coranet.feed.read_ahead import Boxes
from coranet.feed.residency import Room
from coranet.feed.windows import Patches, Slices, Window
from coranet.runs.run_plan import make_run
from coranet.types import Batch, Sample, Trace

CPU = torch.device("cpu")
ROOM = Room.of(CPU, None, None)
STILL = Augment(rotate=0, scale=(1, 1), flip=False, crop=False)
"""Every window is the middle of its image."""
CROP = Augment(rotate=0, scale=(1, 1), flip=False)
"""Every window lies upright, anywhere."""
SHAPES = {"large": (24, 20, 5), "wide": (16, 28, 4), "flat": (9, 11, 1)}


def spots(shape: tuple[int, ...], seed: int) -> NDArray[np.uint8]:
    """Patches of 4 voxels a side, of class 0 or 1."""
    coarse = np.random.default_rng(seed).integers(0, 2, [-(-n // 4) for n in shape])
    return np.kron(coarse, np.ones([4] * len(shape)))[tuple(slice(n) for n in shape)].astype(np.uint8)


def make_store(path: Path, labels: dict[str, NDArray[np.uint8]], channels: int = 1, planes: int | None = None) -> Store:
    """Cases whose first channel is their label, and whose others are noise."""
    header = {"channels": list(map(str, range(channels))), "classes": {"0": "background", "1": "spot"}}
    with StoreWriter(path, {**header, "preparation": {}}) as writer:
        for name, label in labels.items():
            noise = np.random.default_rng(len(name)).normal(size=(channels - 1, *label.shape))
            image = np.concatenate([label[None], noise]).astype(np.float32)
            writer.add(name, name, image, label, {}, planes=planes)
    return Store.open(path)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path / "store", {name: spots(shape, len(name)) for name, shape in SHAPES.items()})


class Unlabelled(Store):
    """A store whose labels must not be looked at."""

    def label(self, name: str) -> NDArray[np.uint8]:
        raise AssertionError(f"the label of {name} was read")


def numbered(total: int, size: tuple[int, int] = (3, 3)) -> Pool:
    """Images that are their own number."""
    images = tuple(torch.full((1, *size), float(number)) for number in range(total))
    return Pool(images, None, tuple(map(str, range(total))))


def window_of(*size: int) -> Window:
    return Slices(size=size) if len(size) == 2 else Patches(size=size)


def batches(labelled: Pool, unlabelled: Pool | None = None, **changes: Any) -> Batches:
    size = changes.pop("size", tuple(labelled.sizes[0].tolist()))
    settings = {"window": window_of(*size), "augment": STILL, "sizes": (2, 3), "seed": 0, **changes}
    return Batches(labelled, unlabelled, **settings)


def tensors(batch: Batch) -> list[Tensor]:
    assert batch.unlabelled is not None
    both = [(x.image, x.valid, *x.maps.values()) for x in (batch.labelled, batch.unlabelled)]
    assert batch.labelled.label is not None
    return [batch.labelled.label, *both[0], *both[1]]


def check_alignment(image: Tensor, maps: Tensor) -> None:
    """An image of zeros and ones against a map of the same: the nearest voxel has a quarter of the linear weight."""
    assert image[maps == 1].min() >= 0.25 - 1e-3
    assert image[maps == 0].max() <= 0.75 + 1e-3
    inner = (image - image.round()).abs() < 1e-3
    assert torch.equal(image[inner].round().to(maps.dtype), maps[inner])
    assert inner.float().mean() > 0.2
    assert 0.1 < maps.float().mean() < 0.9


# Pools


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_pool_holds_the_slices_along_an_axis(tmp_path: Path, axis: Literal[0, 1, 2], channels: int) -> None:
    store = make_store(tmp_path / "s", {name: spots(shape, 1) for name, shape in SHAPES.items()}, channels)
    pool = Pool.load(store, ["wide", "flat", "large"], Slices(axis=axis), ROOM, labelled=True)
    assert pool.labels is not None
    at, planes = 0, {name: [n for i, n in enumerate(shape) if i != axis] for name, shape in SHAPES.items()}
    for name in ("wide", "flat", "large"):
        height, width = planes[name]
        for number in range(SHAPES[name][axis]):
            assert pool.cases[at] == name
            assert pool.sizes[at].tolist() == [height, width]
            image, label = pool.images[at], pool.labels[at]
            assert np.array_equal(image.numpy(), store.image(name).take(number, axis + 1))
            assert np.array_equal(label.numpy(), store.label(name).take(number, axis))
            at += 1
    assert len(pool) == len(pool.images) == at


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slices_of_a_case_that_is_kept_by_planes_lie_together(
    tmp_path: Path, axis: Literal[0, 1, 2], channels: int
) -> None:
    store = make_store(tmp_path / "s", {name: spots(shape, 1) for name, shape in SHAPES.items()}, channels, axis)
    for name in SHAPES:
        images, labels = (Slices(axis=axis).split(volume) for volume in (store.image(name), store.label(name)))
        assert labels.flags.c_contiguous
        assert images.flags.c_contiguous or channels > 1
        assert all(images[:, channel].flags.c_contiguous for channel in range(channels))


def test_slices_that_lie_together_are_sent_to_a_device_as_they_are(tmp_path: Path) -> None:
    """The meta device takes tensors from anywhere and keeps nothing: what is allocated is a copy made on the way."""
    store = make_store(tmp_path / "s", {"one": spots((64, 48, 32), 1)}, planes=2)

    def allocated(images: NDArray[np.float32]) -> int:
        tracemalloc.start()
        try:
            placed = Room(torch.device("meta"), images.nbytes, 0).place(images)
            assert {tuple(image.shape) for image in placed} == {images.shape[1:]}
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    image = store.image("one")
    assert allocated(Slices(axis=2).split(image)) < image.nbytes / 4
    assert allocated(Slices(axis=0).split(image)) >= image.nbytes


@pytest.mark.parametrize("channels", [1, 3])
def test_a_pool_holds_volumes(tmp_path: Path, channels: int) -> None:
    store = make_store(tmp_path / "s", {name: spots(shape, 1) for name, shape in SHAPES.items()}, channels)
    pool = Pool.load(store, ["wide", "large"], Patches(), ROOM, labelled=True)
    assert pool.labels is not None
    assert pool.cases == ("wide", "large")
    for name, image, label in zip(pool.cases, pool.images, pool.labels, strict=True):
        assert np.array_equal(image.numpy(), store.image(name))
        assert np.array_equal(label.numpy(), store.label(name))


def test_unlabelled_volumes_may_be_seen_at_their_centre_alone(store: Store) -> None:
    window = Patches(size=(10, 20, 3), unlabelled="centre")
    pool = Pool.load(store, ["wide", "large"], window, ROOM, labelled=False)
    assert np.array_equal(pool.images[0].numpy(), store.image("wide")[:, 3:13, 4:24, :3])
    assert np.array_equal(pool.images[1].numpy(), store.image("large")[:, 7:17, :, 1:4])
    whole = Pool.load(store, ["wide"], window, ROOM, labelled=True)
    assert np.array_equal(whole.images[0].numpy(), store.image("wide"))


def test_only_slices_with_an_object_are_kept(tmp_path: Path) -> None:
    label = np.zeros((6, 5, 8), np.uint8)
    label[1:3, 2, [1, 6]] = 1
    store = make_store(tmp_path / "s", {"one": label, "none": np.zeros((6, 5, 3), np.uint8)})
    kept = Pool.load(store, ["one", "none"], Slices(keep="object"), ROOM, labelled=True)
    assert kept.cases == ("one", "one")
    assert kept.labels is not None
    assert np.array_equal(torch.stack(kept.labels).numpy(), np.moveaxis(label[:, :, [1, 6]], 2, 0))
    assert np.array_equal(torch.stack(kept.images)[:, 0].numpy(), torch.stack(kept.labels).numpy())
    unlabelled = Pool.load(store, ["one", "none"], Slices(keep="object"), ROOM, labelled=False)
    assert len(unlabelled) == 11
    with pytest.raises(InputError, match="No labelled slice shows an object"):
        Pool.load(store, ["none"], Slices(keep="object"), ROOM, labelled=True)


def test_labels_of_the_unlabelled_are_never_read(store: Store) -> None:
    blind = Unlabelled(store.path, store.index)
    pool = Pool.load(blind, list(SHAPES), Slices(), ROOM, labelled=False)
    assert pool.labels is None
    labelled = Pool.load(store, ["large"], Slices(), ROOM, labelled=True)
    batch = batches(labelled, pool, augment=Augment()).at(0, CaseMemory(pool))
    assert batch.unlabelled is not None
    assert batch.unlabelled.label is None
    with pytest.raises(AssertionError, match="the label of large was read"):
        Pool.load(blind, ["large"], Slices(), ROOM, labelled=True)


def test_images_are_padded_with_their_own_border(store: Store) -> None:
    pool = Pool.load(store, list(SHAPES), Slices(), ROOM, labelled=False)
    pool = replace(pool, images=tuple(image + torch.randn(image.shape) for image in pool.images))
    index = torch.tensor([9, 0, 4])
    for row, number in zip(pool.padded(index, (26, 30)), index.tolist(), strict=True):
        height, width = pool.sizes[number].tolist()
        image = pool.images[number][0].numpy()
        assert np.array_equal(row[0].numpy(), np.pad(image, ((0, 26 - height), (0, 30 - width)), mode="edge"))


# The order of images


def seen(sample: Sample | None) -> list[int]:
    assert sample is not None
    return [int(number) for number in sample.image[:, 0, 1, 1]]


@settings(max_examples=40, deadline=None)
@given(total=st.integers(1, 13), count=st.integers(1, 9), seed=st.integers(0, 99))
def test_an_epoch_shows_each_image_once_without_a_seam(total: int, count: int, seed: int) -> None:
    pool = numbered(total)
    source = batches(pool, pool, sizes=(count, count), seed=seed)
    steps = [source.at(step) for step in range(-(-4 * total // count))]
    for stream in ([x.labelled for x in steps], [x.unlabelled for x in steps]):
        order = iter([number for sample in stream for number in seen(sample)])
        for _ in range(4):
            assert sorted(islice(order, total)) == list(range(total))
    assert source.epoch == (-(-total // count), -(-total // count))


def test_orders_differ_between_epochs_streams_and_seeds() -> None:
    pool = numbered(20)
    source, other = batches(pool, pool, sizes=(20, 20)), batches(pool, pool, sizes=(20, 20), seed=1)
    first, second, third = source.at(0), source.at(1), other.at(0)
    orders = [seen(x) for x in (first.labelled, first.unlabelled, second.labelled, second.unlabelled)]
    orders += [seen(third.labelled), seen(third.unlabelled)]
    assert len(set(map(tuple, orders))) == 6


def test_both_streams_look_at_an_image_in_their_own_way() -> None:
    one = Pool((torch.randn(1, 16, 16),), None, ("one",))
    batch = batches(one, one, augment=Augment(), sizes=(2, 2)).at(0)
    assert batch.unlabelled is not None
    views = [*batch.labelled.image, *batch.unlabelled.image]
    assert not any(torch.equal(a, b) for a, b in combinations(views, 2))


def test_an_epoch_counts_each_kind_of_image() -> None:
    assert batches(numbered(5), numbered(10), sizes=(2, 3)).epoch == (3, 4)
    assert batches(numbered(5), None, sizes=(2, 3)).epoch == (3, 2)
    assert batches(numbered(5)).at(0).unlabelled is None


# The views


@pytest.fixture
def pools(store: Store) -> tuple[Pool, Pool]:
    slices = Slices()
    return (
        Pool.load(store, ["large", "flat"], slices, ROOM, labelled=True),
        Pool.load(store, ["wide", "flat", "large"], slices, ROOM, labelled=False),
    )


def remember(pool: Pool) -> CaseMemory:
    """The images themselves as maps, in any order."""
    memory = CaseMemory(pool)
    for number in torch.randperm(len(pool)).tolist():
        pattern = pool.images[number] > 0.5
        memory.write(torch.tensor([number]), {"label": pattern, "certain": ~pattern})
    return memory


def test_a_batch_is_a_function_of_seed_and_step(pools: tuple[Pool, Pool]) -> None:
    def make(seed: int = 0) -> Batches:
        return batches(*pools, augment=Augment(), size=(16, 12), seed=seed)

    memory, source = remember(pools[1]), make()
    forwards = [tensors(source.at(step, memory)) for step in range(9)]
    before = torch.get_rng_state()
    for step in (8, 3, 0, 7, 3):
        for again in (source, make()):
            found = tensors(again.at(step, memory))
            assert all(torch.equal(a, b) for a, b in zip(found, forwards[step], strict=True))
            torch.manual_seed(step)
    torch.set_rng_state(before)
    source.at(4, memory)
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(forwards[0][1], forwards[1][1])
    assert not torch.equal(forwards[0][1], tensors(make(seed=1).at(0, memory))[1])


@pytest.mark.parametrize("augment", [Augment(), Augment(rotate=0, scale=(1, 1)), STILL])
@pytest.mark.parametrize("window", [(16, 12), (40, 33)])
def test_labels_and_maps_move_with_the_image(
    pools: tuple[Pool, Pool], window: tuple[int, int], augment: Augment
) -> None:
    source, memory = batches(*pools, augment=augment, size=window, sizes=(12, 12)), remember(pools[1])
    for step in range(3):
        batch = source.at(step, memory)
        assert batch.labelled.label is not None
        assert batch.unlabelled is not None
        assert batch.labelled.label.dtype == torch.long
        assert batch.labelled.maps == {}
        check_alignment(batch.labelled.image[:, 0], batch.labelled.label)
        check_alignment(batch.unlabelled.image[:, 0], batch.unlabelled.maps["label"])
        assert torch.equal(batch.unlabelled.maps["certain"], 1 - batch.unlabelled.maps["label"])
        assert {maps.dtype for maps in batch.unlabelled.maps.values()} == {torch.uint8}
        shapes = {tuple(x.shape[-2:]) for x in tensors(batch)}
        assert shapes == {window}


@pytest.mark.parametrize("augment", [Augment(), Augment(rotate=0, scale=(1, 1), turns=True), CROP])
def test_volumes_are_cut_like_slices(augment: Augment) -> None:
    shapes = [(20, 18, 12), (20, 11, 12), (13, 18, 7)]
    patterns = tuple(torch.from_numpy(spots(shape, seed)) for seed, shape in enumerate(shapes))
    pool = Pool(tuple(pattern.unsqueeze(0).float() for pattern in patterns), patterns, ("",) * 3)
    memory = CaseMemory(pool)
    for number, pattern in enumerate(patterns):
        memory.write(torch.tensor([number]), {"certain": pattern.unsqueeze(0)})
    batch = batches(pool, replace(pool, labels=None), augment=augment, size=(16, 12, 10)).at(0, memory)
    assert batch.labelled.label is not None
    assert batch.unlabelled is not None
    for image, maps in (
        (batch.labelled.image, batch.labelled.label),
        (batch.unlabelled.image, batch.unlabelled.maps["certain"]),
    ):
        assert image.shape[2:] == maps.shape[1:] == (16, 12, 10)
        assert image[:, 0][maps == 1].min() >= 0.125 - 1e-3
        assert image[:, 0][maps == 0].max() <= 0.875 + 1e-3


def test_what_lies_outside_an_image_is_not_valid(pools: tuple[Pool, Pool]) -> None:
    source = batches(*pools, size=(32, 30), sizes=(6, 10))
    batch = source.at(0)
    assert batch.unlabelled is not None
    sizes = {tuple(size) for size in pools[1].sizes.tolist()}
    for valid in batch.unlabelled.valid:
        rows, columns = valid.any(dim=1), valid.any(dim=0)
        size = (int(rows.sum()), int(columns.sum()))
        assert size in sizes
        assert int(valid.sum()) == size[0] * size[1]
        assert int(rows.nonzero()[0]) == -((size[0] - 32) // 2)
        assert int(columns.nonzero()[0]) == -((size[1] - 30) // 2)


def test_of_an_upright_window_every_voxel_is_the_image_s_own(store: Store) -> None:
    """Random crops of volumes, some smaller than the window: equal to the bit, with the border repeated outside."""
    pool = Pool.load(store, ["large", "wide"], Patches(), ROOM, labelled=True)
    assert pool.labels is not None
    noisy = replace(pool, images=tuple(torch.randn(image.shape) for image in pool.images))
    source = batches(noisy, augment=CROP, size=(20, 12, 8), sizes=(4, 1))
    for step in range(3):
        batch = source.at(step).labelled
        assert batch.label is not None
        for image, valid, label, number in zip(batch.image, batch.valid, batch.label, [0, 1, 0, 1], strict=True):
            whole = (noisy.images[number], noisy.images[1 - number])
            rows = valid.any(dim=2).any(dim=1).sum(), valid.any(dim=2).any(dim=0).sum(), valid.any(0).any(0).sum()
            own = next(
                i for i in whole if all(min(n, w) == r for n, w, r in zip(i.shape[1:], (20, 12, 8), rows, strict=True))
            )
            inner = image[0][valid].view(*map(int, rows))
            found = [
                (x, y, z)
                for x in range(own.shape[1] - rows[0] + 1)
                for y in range(own.shape[2] - rows[1] + 1)
                for z in range(own.shape[3] - rows[2] + 1)
                if torch.equal(own[0, x : x + rows[0], y : y + rows[1], z : z + rows[2]], inner)
            ]
            assert len(found) == 1
            assert set(image.flatten().tolist()) == set(inner.flatten().tolist())
            assert label.shape == image.shape[1:]


def test_windows_may_be_laid_about_objects() -> None:
    label = torch.zeros(60, 60, 60, dtype=torch.uint8)
    label[50:52, 3:5, 30:32] = 1
    label[5, 5, 55] = 2
    pool = Pool((label.unsqueeze(0).float(),), (label,), ("one",))

    def seen(around: float) -> tuple[float, float]:
        window = Patches(size=(16, 16, 16), around=around)
        source = batches(pool, augment=CROP, window=window, sizes=(8, 1))
        cut = [source.at(step).labelled for step in range(12)]
        labels = torch.cat([sample.label for sample in cut if sample.label is not None])
        assert all(sample.valid.all() for sample in cut)
        assert torch.equal(torch.cat([sample.image[:, 0] for sample in cut]), labels.float())
        first, second = ((labels == value).flatten(1).any(dim=1).float().mean() for value in (1, 2))
        return float(first), float(second)

    assert sum(seen(1.0)) >= 1.0
    assert min(seen(1.0)) > 0.3  # each class alike, whatever its size
    assert 0.3 < sum(seen(0.5)) < 0.9
    assert max(seen(0.0)) < 0.2


def test_labelled_images_may_come_as_they_are_listed() -> None:
    pool = numbered(5)
    source = batches(pool, pool, sizes=(2, 5), shuffle_labelled=False)
    assert [seen(source.at(step).labelled) for step in range(3)] == [[0, 1], [2, 3], [4, 0]]
    assert sorted(seen(source.at(0).unlabelled)) == [0, 1, 2, 3, 4] != seen(source.at(0).unlabelled)


def test_maps_larger_than_an_image_are_cut(pools: tuple[Pool, Pool]) -> None:
    memory = CaseMemory(pools[1])
    (height, width), other = pools[1].sizes[3].tolist(), pools[1].sizes[1].tolist()
    maps = torch.randint(0, 2, (2, height + 3, width + 2))
    memory.write(torch.tensor([3, 1]), {"label": maps})
    assert torch.equal(memory["label"][3].long(), maps[0, :height, :width])
    assert torch.equal(memory["label"][1].long(), maps[1, : other[0], : other[1]])
    assert sum(int(values.sum()) for values in memory["label"]) == sum(int(memory["label"][i].sum()) for i in (1, 3))


def test_memory_comes_back_as_it_was_saved(pools: tuple[Pool, Pool]) -> None:
    memory, again = remember(pools[1]), CaseMemory(pools[1])
    again.load(memory.flat)
    assert all(torch.equal(a, b) for a, b in zip(again["label"], memory["label"], strict=True))
    with pytest.raises(InputError, match="of other images"):
        CaseMemory(pools[0]).load(memory.flat)


@pytest.mark.parametrize("on_host", [10**9, 0])
def test_maps_count_against_the_bounds_and_go_to_disk_where_there_is_no_room(
    pools: tuple[Pool, Pool], on_host: int
) -> None:
    room = Room(torch.device("cpu"), 0, on_host)
    there, free = CaseMemory(pools[1], room), remember(pools[1])
    there.load(free.flat)
    voxels = sum(row.numel() * row.element_size() for row in free.flat.values())
    assert room.on_host == max(on_host - voxels, 0)
    assert all(torch.equal(a, b) for a, b in zip(there["label"], free["label"], strict=True))
    values = torch.rand(2, 4, 5)
    for memory in (there, free):
        memory.write(torch.tensor([0]), {"label": torch.ones(1, 3, 3)})
        memory.average("soft", 1, (1, 2), values, values[0] > 0.5, decay=0.9)
    for name in ("label", "soft"):
        assert all(torch.equal(a, b) for a, b in zip(there[name], free[name], strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel which pages it holds")
def test_a_box_on_disk_is_read_whole_and_nothing_around_it(tmp_path: Path) -> None:
    """Of a file that the system has forgotten, one slice is asked for: its pages are there then, and no others."""
    pages, size = 64, mmap.PAGESIZE
    file = tmp_path / "images.bin"
    np.arange(pages * size // 4, dtype=np.float32).tofile(file)
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    images = np.memmap(file, np.float32, "r", shape=(pages, 1, size // 4))

    def held() -> list[int]:
        found = (ctypes.c_ubyte * pages)()
        ctypes.CDLL(None).mincore(ctypes.c_void_p(images.ctypes.data), ctypes.c_size_t(pages * size), found)
        return [page for page in range(pages) if found[page] & 1]

    if held():
        pytest.skip("this file system keeps all that was written")
    mapped = Room(torch.device("cpu"), 0, 0).place(images)
    box = Boxes.cut({"image": mapped}, [7], [[0]], (size // 4,), torch.device("cpu")).on(torch.device("cpu"))["image"]
    assert torch.equal(box[0, 0], torch.arange(7 * size // 4, 8 * size // 4).float())
    assert held() == [7]


def test_seeds_are_mixed_the_same_everywhere() -> None:
    assert mix(0, "labelled", "view", 1) == 49669101047124664
    assert len({mix(*parts) for parts in ((0, 1), (1, 0), ("0", 1), (0, "1"), (0,), ("01",))}) == 6


# Traces


@pytest.mark.parametrize("augment", [Augment(), CROP, Augment(rotate=0, scale=(1, 1), turns=True)])
@pytest.mark.parametrize("dims", [2, 3])
def test_traces_lie_where_their_images_do(augment: Augment, dims: int) -> None:
    """What was seen of a smooth image, put back through the inverse of each view, is the image again."""
    shapes = [(40, 36, 20)[:dims], (30, 44, 22)[:dims], (12, 10, 9)[:dims]]
    places = [np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij")) for shape in shapes]
    images = tuple(
        torch.from_numpy(
            np.sin(place / 6 + np.arange(dims).reshape(-1, *[1] * dims)).sum(axis=0, keepdims=True)
        ).float()
        for place in places
    )
    pool = Pool(images, None, ("a", "b", "c"))
    source, memory = batches(pool, pool, augment=augment, size=(24, 20, 12)[:dims], sizes=(1, 3)), CaseMemory(pool)
    for step in range(12):
        batch = source.at(step, memory)
        assert batch.unlabelled is not None
        values = torch.cat([batch.unlabelled.image, torch.ones_like(batch.unlabelled.image)], dim=1)
        source.trace(step, memory, {"seen": Trace(values=values, decay=0.5)})
    for image, kept in zip(images, memory["seen"], strict=True):
        total, count = kept.float()
        assert (count > 0).float().mean() > 0.5
        sure = count > 0.4
        miss = (total / count.clamp(min=1e-3) - image[0])[sure].abs()
        assert miss.mean() < 0.03
        assert miss.quantile(0.99) < 0.2
    again = source.at(12, memory)
    assert again.unlabelled is not None
    traced = again.unlabelled.maps["seen"]
    assert traced.shape == (3, 2, *(24, 20, 12)[:dims])
    assert traced.dtype == torch.float32
    sure = (traced[:, 1] > 0.4) & again.unlabelled.valid
    miss = (traced[:, 0] / traced[:, 1].clamp(min=1e-3) - again.unlabelled.image[:, 0])[sure].abs()
    assert miss.mean() < 0.05


def test_traces_average_and_count_what_was_seen() -> None:
    """Z = (1 - a) sum of a^(t - s) z_s, and the trace of ones is 1 - a^t: temporal ensembling's correction."""
    pool = Pool((torch.zeros(1, 6, 5),), None, ("one",))
    source, memory = batches(pool, pool, sizes=(1, 1)), CaseMemory(pool)
    values = [torch.randn(1, 2, 6, 5) for _ in range(4)]
    for step, value in enumerate(values):
        ones = torch.ones(1, 1, 6, 5)
        source.trace(step, memory, {"z": Trace(values=value, decay=0.6), "n": Trace(values=ones, decay=0.6)})
    expected = sum(0.4 * 0.6 ** (3 - step) * value for step, value in enumerate(values))
    torch.testing.assert_close(memory["z"][0].float(), expected[0], atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(memory["n"][0].float(), torch.full((1, 6, 5), 1 - 0.6**4), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("planes", [None, 1, 2])
@pytest.mark.parametrize("window", [Slices(size=(8, 8)), Patches(size=(8, 8, 4))])
def test_it_does_not_matter_where_scans_are_kept(store, tmp_path, window, planes, monkeypatch):
    """In memory, on disk by planes or not, or read ahead by a thread: the same batches to the bit, in any order of steps."""
    laid = make_store(tmp_path / "laid", {name: store.label(name) for name in SHAPES}, planes=planes)

    def batches(store, room):
        pools = [Pool.load(store, ["large", "wide"], window, room, labelled=labelled) for labelled in (True, False)]
        return Batches(*pools, window=window, augment=Augment(), sizes=(2, 3), seed=1)

    kept, mapped, ahead = batches(store, ROOM), batches(laid, Room(CPU, 0, 0)), batches(laid, Room(CPU, 0, 0))
    assert mapped.labelled.images[0].data_ptr() != kept.labelled.images[0].data_ptr()
    for step in (0, 1, 2, 7, 8):
        with monkeypatch.context() as patch:
            patch.setattr(Pool, "resident", True)
            expected, disk = kept.at(step), mapped.at(step)
            patch.setattr(Pool, "resident", False)
            read = ahead.at(step)
        for found in (disk, read):
            for half in ("labelled", "unlabelled"):
                assert torch.equal(getattr(found, half).image, getattr(expected, half).image)
            assert torch.equal(found.labelled.label, expected.labelled.label)
    assert ahead.ahead.coming.keys() == {("labelled", 9), ("unlabelled", 9)}


def in_c_order(store, path):
    """The same cases, none of them by planes."""
    header = {name: store.index[name] for name in ("name", "channels", "classes", "preparation")}
    with StoreWriter(path, header) as writer:
        for name, case in store.cases.items():
            label = store.label(name) if case.labelled else None
            writer.add(name, case.patient, store.image(name), label, case.grid, case.part)
    return Store.open(path)


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 4)])
def test_training_and_prediction_are_the_same_from_either_order_of_voxels(scans, small, tmp_path, patch):
    run, by_planes = make_run(scans, small(dims=len(patch), patch=patch, val=1), CPU)
    assert {case.planes for case in by_planes.cases.values()} == {2}
    plain = in_c_order(by_planes, tmp_path / "plain")
    assert (plain.path / "images.bin").read_bytes() != (by_planes.path / "images.bin").read_bytes()
    found = []
    for number, (store, host_bytes) in enumerate(product((plain, by_planes), (None, 0))):
        folder = tmp_path / str(number)
        folder.mkdir()
        trainer = Trainer(replace(run, accel=replace(run.accel, host_bytes=host_bytes)), store, folder, CPU)
        for stretch in trainer.setup.timeline:
            for step in range(stretch.start, min(stretch.start + 2, stretch.stop)):
                trainer.step(step, stretch)
        predictor = trainer.setup.predictor()
        weights = [value for net in trainer.setup.nets.values() for value in net.state_dict().values()]
        said = [
            part.probabilities
            for pool in (trainer.setup.unlabelled, trainer.setup.val)
            for *_, part in predictor.over(pool)
        ]
        found.append([*weights, *trainer.state.memory.flat.values(), *said])
        assert trainer.state.memory.flat
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_scans_go_where_there_is_room():
    room = Room(CPU, 0, 100)
    first, second, third = (room.place(np.zeros((2, 10), np.float32)) for _ in range(3))
    assert room.on_host == 20
    assert all(len(images) == 2 for images in (first, second, third))
    asked = Room.of(CPU, None, None)
    assert asked.on_host > 0
    assert Room.of(CPU, 5, 7) == Room(CPU, 5, 7)


@pytest.mark.parametrize("augment", [Augment(share=0.5, flip=False), Augment(rotate=0, scale=(1, 1)), Augment()])
def test_batches_of_a_run_are_of_one_kind(store, augment):
    """Upright windows are cut, others are warped; a captured step must not notice."""
    window = Slices(size=(8, 8))
    pools = [Pool.load(store, ["large", "wide"], window, ROOM, labelled=one) for one in (True, False)]
    memory = CaseMemory(pools[1])
    for number, image in enumerate(pools[1].images):
        maps = {name: torch.zeros(1, *image.shape[1:], dtype=torch.uint8) for name in ("label", "certain")}
        memory.write(torch.tensor([number]), maps)
    batches = Batches(*pools, window=window, augment=augment, sizes=(1, 1), seed=0)
    assert len({kind_of(batches.at(step, memory), "train") for step in range(30)}) == 1


def test_systems_that_take_no_advice_and_do_not_say_what_is_free_are_trained_on_too(monkeypatch):
    """On macOS nobody says what is free; Windows says nothing and has no such call."""
    monkeypatch.setattr(residency, "_LIBC", None)
    residency.send_for(torch.zeros(3))
    page = mmap.PAGESIZE
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 8}.__getitem__)
    monkeypatch.setattr(os, "sysconf_names", {"SC_PHYS_PAGES": 0})
    assert Room.of(torch.device("cpu"), None, None).on_host == 4 * page
    monkeypatch.delattr(os, "sysconf_names")
    monkeypatch.delattr(os, "sysconf")
    assert Room.of(torch.device("cpu"), None, None).on_host > 2**30
