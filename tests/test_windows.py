"""Windows cover every voxel, and their blend is what one pass over the whole image would have said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from coranet.ops.windows import Blend, blend_weights, crop_to, pad_to, predict_windows, starts

Layout = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
BLENDS: tuple[Blend, ...] = get_args(Blend)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Size of an image, window and stride along two or three axes; images may be smaller than a window."""
    longest = draw(st.sampled_from([(2, 24), (3, 10)]))
    axis = st.integers(1, longest[1]).flatmap(
        lambda window: st.tuples(st.integers(1, longest[1]), st.just(window), st.integers(1, window))
    )
    size, window, stride = zip(*(draw(axis) for _ in range(longest[0])), strict=True)
    return size, window, stride


def noise(size: tuple[int, ...], *, channels: int = 2) -> Tensor:
    return torch.randn(2, channels, *size, generator=torch.Generator().manual_seed(0))


def pointwise(image: Tensor) -> dict[str, Tensor]:
    """A network that sees one voxel at a time."""
    return {"sine": image.sin(), "sum": image.sum(dim=1, keepdim=True) ** 2}


@pytest.mark.parametrize(
    ("size", "window", "stride", "expected"),
    [
        (240, 96, 16, [0, 16, 32, 48, 64, 80, 96, 112, 128, 144]),
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
@pytest.mark.parametrize("window", [(8, 7), (96, 96), (1, 5), (6, 5, 4), (96, 2, 1)])
def test_weights_are_positive_and_symmetric(blend: Blend, window: tuple[int, ...]) -> None:
    weights = blend_weights(window, blend)
    assert weights.shape == window
    assert weights.min() >= 0.99e-3 ** len(window)  # a corner that one window alone covers must still divide well
    for axis in range(len(window)):
        torch.testing.assert_close(weights, weights.flip(axis))


def test_gaussian_weights_fall_towards_the_border() -> None:
    row = blend_weights((96, 64), "gaussian")[:48, 31]
    assert (row.diff() >= 0).all()
    assert row[-1] > 100 * row[0]
    assert (blend_weights((9, 9), "constant") == 1).all()


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
    torch.testing.assert_close(maps, constant(noise(size))["map"].expand_as(maps), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("blend", BLENDS)
@settings(max_examples=30, deadline=None)
@given(layout=layouts())
def test_without_context_windows_say_what_one_pass_says(blend: Blend, layout: Layout) -> None:
    size, window, stride = layout
    image = noise(size)
    maps, whole = predict_windows(pointwise, image, window, stride=stride, blend=blend), pointwise(image)
    assert maps.keys() == whole.keys()
    for name, values in maps.items():
        torch.testing.assert_close(values, whole[name], atol=1e-5, rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(layout=layouts())
def test_the_network_sees_windows_of_one_size_cut_from_the_image(
    layout: Layout,
) -> None:
    size, window, stride = layout
    seen: list[Tensor] = []

    def watch(image: Tensor) -> Mapping[str, Tensor]:
        seen.append(image.clone())
        return {"map": image}

    image = noise(size, channels=1)
    predict_windows(watch, image, window, stride=stride)
    assert {tuple(cut.shape[2:]) for cut in seen} == {window}
    known = set(image.flatten().tolist())
    assert all(set(cut.flatten().tolist()) <= known for cut in seen)  # padding repeats the border, and invents nothing
    count = 1
    for n, w, s in zip(size, window, stride, strict=True):
        count *= len(starts(n, w, s))
    assert len(seen) == count


def test_windows_are_weighed_against_each_other() -> None:
    """Two windows of 4 on 6 voxels that disagree: where they overlap the answer is their weighted mean."""
    answers = iter([0.0, 1.0])

    def disagree(image: Tensor) -> Mapping[str, Tensor]:
        return {"map": torch.full_like(image, next(answers))}

    blended = predict_windows(disagree, torch.zeros(1, 1, 6, 4), (4, 4), stride=(2, 4))["map"][0, 0, :, 0]
    w = blend_weights((4, 4), "gaussian")[:, 0]
    expected = torch.tensor([0, 0, w[0] / (w[0] + w[2]), w[1] / (w[1] + w[3]), 1, 1])
    torch.testing.assert_close(blended, expected)


def test_windows_overlap_by_half_unless_told() -> None:
    calls = []

    def count(image: Tensor) -> Mapping[str, Tensor]:
        calls.append(1)
        return {"map": image}

    predict_windows(count, torch.zeros(1, 1, 16, 8), (8, 8))
    assert len(calls) == 3


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
