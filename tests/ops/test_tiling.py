"""Windows cover every voxel, and their blend is what one pass over the whole image would have said."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from coranet.errors import InputError
from coranet.ops.tiling import (
    Blend,
    axis_spans,
    axis_weights,
    blend_parts,
    check_stride,
    crop_to,
    pad_to,
    predict_windows,
    starts,
)

Layout = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
BLENDS: tuple[Blend, ...] = get_args(Blend)
CPU = torch.device("cpu")


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Size of an image, window and stride along two or three axes; images may be smaller than a window."""
    longest = draw(st.sampled_from([(2, 24), (3, 10)]))
    axis = st.integers(1, longest[1]).flatmap(
        lambda window: st.tuples(st.integers(1, longest[1]), st.just(window), st.integers(max(window // 3, 1), window))
    )
    size, window, stride = zip(*(draw(axis) for _ in range(longest[0])), strict=True)
    return size, window, stride


def noise(size: tuple[int, ...], *, images: int = 2, channels: int = 2) -> Tensor:
    return torch.randn(images, channels, *size, generator=torch.Generator().manual_seed(0))


def pointwise(image: Tensor) -> dict[str, Tensor]:
    """A network that sees one voxel at a time."""
    return {"sine": image.sin(), "sum": image.sum(dim=1, keepdim=True) ** 2}


def opinionated(image: Tensor) -> dict[str, Tensor]:
    """A network whose windows disagree where they overlap; its bits are the same in a batch and alone."""
    largest = image.amax(dim=tuple(range(1, image.ndim)), keepdim=True)
    return {"main": image * 1.7 + largest, "con": (image - largest)[:, :1].bfloat16()}


def places(layout: Layout) -> list[tuple[int, ...]]:
    """The first voxel of each window, in order of the first axis, then the next."""
    return list(product(*(starts(*axis) for axis in zip(*layout, strict=True))))


@pytest.mark.parametrize(
    ("size", "window", "stride", "expected"),
    [
        (240, 96, 16, [0, 16, 32, 48, 64, 80, 96, 112, 128, 144]),
        (106, 96, 4, [0, 4, 8, 10]),
        (250, 96, 48, [0, 48, 96, 144, 154]),
        (192, 96, 96, [0, 96]),
        (96, 96, 16, [0]),
        (97, 96, 16, [0, 1]),
        (40, 96, 16, [0]),
        (1, 1, 1, [0]),
        (5, 1, 1, [0, 1, 2, 3, 4]),
    ],
)
def test_windows_lie_at_whole_strides(size: int, window: int, stride: int, expected: list[int]) -> None:
    assert starts(size, window, stride) == expected


@settings(max_examples=200, deadline=None)
@given(size=st.integers(1, 300), window=st.integers(1, 128), data=st.data())
def test_windows_cover_every_voxel_once_each_and_end_flush(size: int, window: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, window))
    places = starts(size, window, stride)
    assert places == sorted(set(places))
    assert places[0] == 0
    assert places[-1] == max(size - window, 0)
    assert {at for start in places for at in range(start, start + window)} >= set(range(size))
    assert all(start % stride == 0 for start in places[:-1])
    assert len(places) == -(-max(size - window, 0) // stride) + 1  # no more than are needed


@pytest.mark.parametrize("blend", BLENDS)
@pytest.mark.parametrize("window", [1, 2, 5, 8, 96])
def test_weights_are_positive_and_symmetric(blend: Blend, window: int) -> None:
    weights = axis_weights(window, blend)
    assert weights.shape == (window,)
    assert weights.min() >= 1e-3
    torch.testing.assert_close(weights, weights.flip(0))


def test_gaussian_weights_fall_towards_the_border() -> None:
    weights = axis_weights(96, "gaussian")[:48]
    assert (weights.diff() >= 0).all()
    assert weights[-1] > 100 * weights[0]
    # Half a voxel and 12.5 voxels from the middle, with a deviation of 12.
    assert float(weights[47] / weights[35]) == pytest.approx(math.exp(0.5 * (12.5**2 - 0.5**2) / 12**2))
    assert (axis_weights(9, "constant") == 1).all()


@pytest.mark.parametrize("blend", BLENDS)
@settings(max_examples=50, deadline=None)
@given(size=st.integers(1, 300), window=st.integers(1, 128), data=st.data())
def test_the_shares_of_all_windows_sum_to_one(blend: Blend, size: int, window: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(max(window // 8, 1), window))
    total, alone = torch.zeros(size), torch.zeros(size)
    for place, share in axis_spans(size, window, stride, blend, CPU):
        total[place] += share
        alone[place] += 1
    torch.testing.assert_close(total, torch.ones(size), atol=1e-6, rtol=0)
    assert (total[alone == 1] == 1).all()


@pytest.mark.parametrize("blend", BLENDS)
@settings(max_examples=30, deadline=None)
@given(layout=layouts())
def test_a_constant_comes_back_constant(blend: Blend, layout: Layout) -> None:
    size, window, stride = layout
    values = torch.tensor([0.25, -3.0, 1e4])

    def constant(image: Tensor) -> Mapping[str, Tensor]:
        return {"map": values.view(1, 3, *[1] * len(window)).expand(len(image), 3, *image.shape[2:])}

    maps = predict_windows(constant, noise(size), window, stride=stride, blend=blend)["map"]
    assert maps.shape == (2, 3, *size)
    torch.testing.assert_close(maps, constant(noise(size))["map"].expand_as(maps), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("blend", BLENDS)
@settings(max_examples=30, deadline=None)
@given(layout=layouts(), batch=st.integers(1, 5))
def test_without_context_windows_say_what_one_pass_says(blend: Blend, layout: Layout, batch: int) -> None:
    size, window, stride = layout
    image = noise(size)
    maps, whole = predict_windows(pointwise, image, window, stride=stride, blend=blend, batch=batch), pointwise(image)
    assert maps.keys() == whole.keys()
    for name, values in maps.items():
        torch.testing.assert_close(values, whole[name], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("blend", BLENDS)
@settings(max_examples=60, deadline=None)
@given(layout=layouts(), batch=st.integers(1, 9), planes=st.integers(1, 24))
def test_batches_and_parts_change_no_bit(blend: Blend, layout: Layout, batch: int, planes: int) -> None:
    size, window, stride = layout
    image = noise(size)[0]
    [(everything, whole)] = blend_parts(opinionated, image, window, stride=stride, blend=blend)
    assert everything == slice(0, size[0])
    parts = list(blend_parts(opinionated, image, window, stride=stride, blend=blend, batch=batch, planes=planes))
    together = predict_windows(opinionated, image.unsqueeze(0), window, stride=stride, blend=blend, batch=batch)
    for name, values in whole.items():
        assert values.dtype == torch.float32
        assert torch.equal(torch.cat([maps[name] for _, maps in parts], dim=1), values)
        assert torch.equal(together[name][0], values)


@settings(max_examples=100, deadline=None)
@given(layout=layouts(), planes=st.integers(1, 24))
def test_parts_tile_the_first_axis(layout: Layout, planes: int) -> None:
    size, window, stride = layout
    reached = 0
    for place, maps in blend_parts(pointwise, noise(size)[0], window, stride=stride, planes=planes):
        assert place.start == reached < place.stop
        assert place.stop - place.start <= max(planes, window[0])
        assert {values.shape[1:] for values in maps.values()} == {(place.stop - place.start, *size[1:])}
        reached = place.stop
    assert reached == size[0]


def test_a_part_comes_as_soon_as_the_next_window_needs_its_room() -> None:
    seen = []

    def count(image: Tensor) -> Mapping[str, Tensor]:
        seen.append(len(image))
        return {"map": image}

    parts = blend_parts(count, torch.zeros(1, 20, 8), (8, 8), stride=(4, 4), planes=12)
    assert [(place, len(seen)) for place, _ in parts] == [(slice(0, 8), 3), (slice(8, 20), 4)]
    parts = blend_parts(count, torch.zeros(1, 20, 8), (8, 8), stride=(4, 4), planes=1)
    assert [place.stop for place, _ in parts] == [4, 8, 12, 20]


@settings(max_examples=30, deadline=None)
@given(layout=layouts(), batch=st.integers(1, 7))
def test_the_network_sees_each_window_once_in_order_and_in_full_batches(layout: Layout, batch: int) -> None:
    seen: list[Tensor] = []

    def watch(image: Tensor) -> Mapping[str, Tensor]:
        seen.append(image.clone())
        return {"map": image}

    size, window, _ = layout
    numbered = torch.arange(np.prod(size), dtype=torch.float32).view(1, *size)
    list(blend_parts(watch, numbered, window, stride=layout[2], batch=batch, planes=1))
    expected = []
    for corner in places(layout):
        # Padding repeats the border, and invents nothing.
        axes = [torch.arange(a, a + w).clamp(max=n - 1) for a, w, n in zip(corner, window, size, strict=True)]
        expected.append(numbered[0][torch.meshgrid(*axes, indexing="ij")].unsqueeze(0))
    assert torch.equal(torch.cat(seen), torch.stack(expected))
    assert {len(cuts) for cuts in seen[:-1]} <= {batch}
    assert len(seen) == -(-len(expected) // batch)


def test_windows_are_weighed_against_each_other() -> None:
    """Two windows of 4 on 6 voxels that disagree: where they overlap the answer is their weighted mean."""
    answers = iter([0.0, 1.0])

    def disagree(image: Tensor) -> Mapping[str, Tensor]:
        return {"map": torch.full_like(image, next(answers))}

    blended = predict_windows(disagree, torch.zeros(1, 1, 6, 4), (4, 4), stride=(2, 4))["map"][0, 0, :, 0]
    w = axis_weights(4, "gaussian")
    expected = torch.tensor([0, 0, w[0] / (w[0] + w[2]), w[1] / (w[1] + w[3]), 1, 1])
    torch.testing.assert_close(blended, expected.float())


def test_windows_overlap_by_half_unless_told() -> None:
    sizes = []

    def count(image: Tensor) -> Mapping[str, Tensor]:
        sizes.append(len(image))
        return {"map": image}

    predict_windows(count, torch.zeros(1, 1, 16, 8), (8, 8))
    assert sizes == [1, 1, 1]
    predict_windows(count, torch.zeros(1, 1, 3, 1), (1, 1), batch=3)
    assert sizes[3:] == [3]


def test_images_that_fit_into_a_window_are_predicted_together() -> None:
    sizes = []

    def count(image: Tensor) -> Mapping[str, Tensor]:
        sizes.append(tuple(image.shape))
        return {"map": image.bfloat16()}

    images = noise((6, 8), images=5)
    maps = predict_windows(count, images, (8, 8), batch=2)["map"]
    assert sizes == [(2, 2, 8, 8), (2, 2, 8, 8), (1, 2, 8, 8)]
    assert torch.equal(maps, images.bfloat16().float())
    predict_windows(count, images, (8, 8))
    assert sizes[3:] == [(5, 2, 8, 8)]


def test_the_paper_s_windows_leave_a_volume_as_it_is() -> None:
    image = noise((100, 112, 101), images=1, channels=1)
    maps = predict_windows(lambda cut: {"map": cut}, image, (96, 96, 96), stride=(16, 16, 4), batch=3)["map"]
    torch.testing.assert_close(maps, image, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_maps_of_half_precision_are_added_in_full(dtype: torch.dtype) -> None:
    image = noise((30, 20))[0]
    [(_, half)] = blend_parts(lambda cut: {"map": cut.to(dtype)}, image, (8, 8), stride=(2, 2))
    [(_, full)] = blend_parts(lambda cut: {"map": cut.to(dtype).float()}, image, (8, 8), stride=(2, 2))
    assert half["map"].dtype == torch.float32
    assert torch.equal(half["map"], full["map"])


def test_windows_are_predicted_and_blended_on_the_device_asked_for() -> None:
    seen = []

    def watch(image: Tensor) -> Mapping[str, Tensor]:
        seen.append((image.device.type, tuple(image.shape)))
        return {"map": image}

    device = torch.device("meta")  # shapes without values, so that no accelerator is needed
    parts = blend_parts(watch, noise((12, 6))[0], (8, 8), stride=(4, 4), batch=2, planes=8, device=device)
    assert [(place, maps["map"].device, maps["map"].shape) for place, maps in parts] == [
        (slice(0, 4), device, (2, 4, 6)),
        (slice(4, 12), device, (2, 8, 6)),
    ]
    assert seen == [("meta", (2, 2, 8, 8))]


def test_an_image_may_stay_in_a_file(tmp_path: Path) -> None:
    image = noise((20, 9, 7))[0]
    stored = np.memmap(tmp_path / "image", dtype=np.float32, mode="w+", shape=tuple(image.shape))
    stored[:] = image.numpy()
    parts = blend_parts(opinionated, torch.from_numpy(stored), (8, 8, 8), batch=2, planes=8, device=CPU)
    [(_, whole)] = blend_parts(opinionated, image, (8, 8, 8))
    for place, maps in parts:
        assert all(torch.equal(values, whole[name][:, place]) for name, values in maps.items())


def test_a_large_thin_image_is_never_copied_whole() -> None:
    """80 GB, had each voxel its own memory, and smaller than a window along one axis."""
    image = torch.ones(1, 1, 1, 1).expand(1, 10**5, 10**5, 2)
    place, maps = next(blend_parts(lambda cut: {"map": cut}, image, (20, 10**4, 4), stride=(20, 10**4, 1), planes=20))
    assert place == slice(0, 20)
    assert (maps["map"] == 1).all()


def test_windows_that_begin_alike_are_moved_to_the_device_together(monkeypatch: pytest.MonkeyPatch) -> None:
    moved, to = [], Tensor.to

    def count(tensor: Tensor, *where: object, **how: object) -> Tensor:
        if how.get("non_blocking") and tensor.ndim == 3:
            moved.append(tuple(tensor.shape))
        return to(tensor, *where, **how)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(Tensor, "to", count)
    for _ in blend_parts(lambda cut: {"map": cut}, noise((12, 10))[0], (4, 4), stride=(4, 3), device=CPU):
        pass
    assert moved == [(2, 4, 10)] * 3


@pytest.mark.parametrize(
    ("window", "stride", "message"),
    [
        (
            (4, 4),
            (5, 4),
            "A stride of (5, 4) is larger than the window (4, 4): voxels between windows would be left out.",
        ),
        ((4, 4), (0, 4), "A stride of (0, 4) does not move on"),
        ((4, 4), (2, 2, 2), "The stride has 3 numbers, the windows 2 axes"),
        ((0, 4), None, "A window of (0, 4) voxels is empty"),
        ((4, 4, 4), None, "The window has 3 numbers, the image 2 axes"),
    ],
)
def test_windows_that_cannot_cover_an_image_are_refused(
    window: tuple[int, ...], stride: tuple[int, ...] | None, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        predict_windows(pointwise, torch.zeros(1, 1, 9, 9), window, stride=stride)
    with pytest.raises(InputError, match=re.escape(message)):
        blend_parts(pointwise, torch.zeros(1, 9, 9), window, stride=stride)  # before the first part is asked for
    if stride:
        with pytest.raises(InputError, match=re.escape(message)):
            check_stride(stride, window)


def test_empty_images_and_batches_are_refused() -> None:
    with pytest.raises(InputError, match=r"An image of \(9, 0\) voxels is empty"):
        blend_parts(pointwise, torch.zeros(1, 9, 0), (4, 4))
    with pytest.raises(InputError, match="At least 1 window"):
        blend_parts(pointwise, torch.zeros(1, 9, 9), (4, 4), batch=0)


@settings(max_examples=50, deadline=None)
@given(layout=layouts())
def test_cropping_undoes_padding(layout: Layout) -> None:
    size, window, _ = layout
    image = noise(size)
    padded = pad_to(image, window)
    assert padded.shape[2:] == tuple(max(n, w) for n, w in zip(size, window, strict=True))
    assert torch.equal(crop_to(padded, size), image)
    repeated = image
    for axis, length in enumerate(padded.shape[2:], start=2):
        repeated = repeated.index_select(axis, torch.arange(length).clamp(max=image.shape[axis] - 1))
    assert torch.equal(padded, repeated)


PEAKS = """
import re
import resource
import sys
from pathlib import Path

import torch

from coranet.ops.tiling import blend_parts, predict_windows

def peak():
    status = Path("/proc/self/status")  # what getrusage says is inherited from the process that started this one
    if status.exists():
        return int(re.search("VmHWM:[^0-9]*([0-9]+)", status.read_text())[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

def stub(cut):
    return {"main": cut.expand(-1, 2, -1, -1, -1), "con": cut, "rad": cut}

side = int(sys.argv[1])
window, image = (96, 96, 96), torch.ones(1, side, side, 400)
print(peak())
parts = blend_parts(stub, image, window, stride=window, planes=96)
for _ in range(3):
    next(parts)
del parts
print(peak())
assert predict_windows(stub, image.unsqueeze(0), window, stride=window)["main"].shape == (1, 2, side, side, 400)
print(peak())
"""


@pytest.mark.parametrize("side", [256, pytest.param(512, marks=pytest.mark.slow)])
def test_large_volumes_take_little_memory(side: int) -> None:
    """Of 512 x 512 x 400 voxels: 0.4 GiB of image and 1.6 GiB of maps, or 0.3 GiB of maps at a time."""
    command = [sys.executable, "-c", PEAKS, str(side)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    image, in_parts, whole = map(float, printed.split())
    share = (side / 512) ** 2
    assert in_parts - image < 0.3 + 0.5 * share
    assert whole - image < 0.3 + 1.8 * share
    assert whole < 0.6 + 2.4 * share
