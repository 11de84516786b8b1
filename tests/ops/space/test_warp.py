"""Every warp keeps image and labels together: exact where voxels meet, within 0.05 voxel where they do not."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from coranet.feed.augmentation import Augment
from coranet.ops.space.warp import Warp, cut, inside, sample_image, sample_maps

Array = NDArray[np.float64]
TOLERANCE = 0.05
"""Voxels by which a centroid may miss its place."""


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(shape: tuple[int, ...], seed: int = 0) -> tuple[Tensor, Tensor]:
    """An image with two channels and a map on one grid, all of it noise."""
    image = torch.randn(1, 2, *shape, generator=generator(seed))
    return image, torch.randint(0, 256, (1, 1, *shape), generator=generator(seed + 1)).to(torch.uint8)


def upright(shape: tuple[int, ...], corner: tuple[int, ...], signs: tuple[int, ...] | None = None) -> Warp:
    """The window of that shape whose first voxel lies at `corner`, mirrored where a sign is negative."""
    centre = (torch.tensor([shape]) - 1) / 2
    matrix = torch.diag(torch.tensor(signs or [1] * len(shape), dtype=torch.float32)).unsqueeze(0)
    return Warp(matrix, centre, torch.tensor([corner]) + centre, shape)


def read(warp: Warp, image: Tensor, maps: Tensor) -> tuple[Tensor, Tensor]:
    """Through the box that the warp reaches, as batches do."""
    sizes = torch.tensor(image.shape[2:]).expand(len(image), -1)
    lows, shape = warp.reach(sizes)
    where = warp.points(), sizes, lows
    boxes = [
        torch.stack([cut(one, low, shape) for one, low in zip(x, lows.tolist(), strict=True)]) for x in (image, maps)
    ]
    return sample_image(boxes[0], *where), sample_maps(boxes[1], *where)


def places(shape: tuple[int, ...]) -> Array:
    """Each voxel's own index, `(*S, D)`."""
    return np.moveaxis(np.indices(shape, dtype=np.float64), 0, -1)


def lands(warp: Warp, source: Array) -> Array:
    """Where points `(B, D)` of the source appear in the window: s = A (o - c) + d, solved for o."""
    matrix, centre, target = (x.double().numpy() for x in (warp.matrix, warp.centre, warp.target))
    found: Array = np.linalg.solve(matrix, (source - target)[..., None])[..., 0] + centre
    return found


def centroid(weights: Tensor) -> Array:
    """`(B, 1, *S)` to `(B, D)`."""
    mass = weights[:, 0].double()
    axes = range(1, mass.ndim)
    along = [mass.sum(dim=[other for other in axes if other != axis]) for axis in axes]
    moments = torch.stack([profile @ torch.arange(profile.shape[1]).double() for profile in along], dim=1)
    return (moments / along[0].sum(dim=1, keepdim=True)).numpy()


def objects(shape: tuple[int, ...], centres: Array, radius: float) -> tuple[Tensor, Tensor]:
    """A smooth blob as image and a ball as label about each centre, `(B, 1, *S)`."""
    apart = places(shape)[None, None] - centres.reshape(len(centres), 1, *[1] * len(shape), -1)
    square = np.einsum("...d,...d", apart, apart)
    blob = torch.from_numpy(np.exp(-square / (2 * (radius / 4.5) ** 2)).clip(1e-12)).float()
    return blob, torch.from_numpy((square <= radius**2).astype(np.uint8))


def check_alignment(warp: Warp, shape: tuple[int, ...], radius: float, pairs: int = 4) -> None:
    """Objects near the point that a window looks at move as the warp says, and back.

    A label has whole voxels: whatever reads it, a turned disc's centroid misses by up to a tenth. Objects therefore come in
    pairs that lie opposite each other, whose misses cancel; what the mean over labels still misses is misalignment.
    """
    half = np.random.default_rng(0).uniform(-5, 5, (pairs, len(shape)))
    offsets = np.concatenate([half, -half])
    for i in range(len(warp.matrix)):
        matrix, centre, target = (x[i].expand(2 * pairs, *x[i].shape) for x in (warp.matrix, warp.centre, warp.target))
        one = Warp(matrix, centre, target, warp.shape)
        back = one.inverse(shape)
        blob, ball = objects(shape, lands(back, centre.numpy() + offsets), radius)
        image, label = read(one, blob, ball)
        there = centroid(image) - lands(one, centroid(blob)), centroid(label) - lands(one, centroid(ball))
        image, label = read(back, image, label)
        again = centroid(image) - centroid(blob), centroid(label) - centroid(ball)
        for image_miss, label_miss in (there, again):
            assert np.abs(image_miss).max() < TOLERANCE
            assert np.abs(label_miss.mean(axis=0)).max() < TOLERANCE
            assert np.abs((image_miss - label_miss).mean(axis=0)).max() < TOLERANCE


@pytest.mark.parametrize("shape", [(7, 8), (9, 5), (16, 16), (1, 6), (6, 7, 5), (4, 1, 3)])
def test_the_identity_is_exact(shape: tuple[int, ...]) -> None:
    image, maps = noise(shape)
    seen, labels = read(upright(shape, (0,) * len(shape)), image, maps)
    torch.testing.assert_close(seen, image, atol=1e-4, rtol=0)
    assert torch.equal(labels, maps)


AXIS = st.tuples(st.integers(1, 17), st.integers(1, 23), st.integers(-9, 19))


@settings(max_examples=40, deadline=None)
@given(axes=st.lists(AXIS, min_size=2, max_size=3))
def test_integer_crops_are_exact_and_repeat_the_border_outside(axes: list[tuple[int, int, int]]) -> None:
    size, window, corner = (tuple(values) for values in zip(*axes, strict=True))
    image, maps = noise(size)
    warp = upright(window, corner)
    seen, labels = read(warp, image, maps)
    along = [np.arange(start, start + length) for start, length in zip(corner, window, strict=True)]
    for axis, (index, n) in enumerate(zip(along, size, strict=True), start=2):
        nearest = torch.from_numpy(index.clip(0, n - 1))
        image, maps = image.index_select(axis, nearest), maps.index_select(axis, nearest)
    torch.testing.assert_close(seen, image, atol=1e-4, rtol=0)
    assert torch.equal(labels, maps)
    met = np.meshgrid(*((index >= 0) & (index < n) for index, n in zip(along, size, strict=True)), indexing="ij")
    assert np.array_equal(inside(warp.points(), torch.tensor([size]))[0].numpy(), np.logical_and.reduce(met))


@pytest.mark.parametrize("signs", [*product((1, -1), repeat=2), *product((1, -1), repeat=3)])
@pytest.mark.parametrize("length", [6, 7])
def test_flips_are_exact(signs: tuple[int, ...], length: int) -> None:
    shape = (length, 8, 5)[: len(signs)]
    image, maps = noise(shape)
    seen, labels = read(upright(shape, (0,) * len(shape), signs), image, maps)
    turned = [axis + 2 for axis, sign in enumerate(signs) if sign < 0]
    torch.testing.assert_close(seen, image.flip(turned), atol=1e-4, rtol=0)
    assert torch.equal(labels, maps.flip(turned))


@pytest.mark.parametrize(
    "augment", [Augment(), Augment(rotate=180, scale=(1, 1)), Augment(rotate=0, crop=False), Augment(share=0)]
)
def test_a_known_object_moves_with_its_image(augment: Augment) -> None:
    shape, window = (136, 131), (128, 121)
    check_alignment(augment.draw(torch.tensor([shape] * 6), window, generator(1)), shape, radius=26)


def test_a_known_object_moves_with_its_volume() -> None:
    shape, window = (72, 75, 70), (70, 71, 66)
    warp = Augment(scale=(0.9, 1.2)).draw(torch.tensor([shape] * 2), window, generator(3))
    check_alignment(warp, shape, radius=22, pairs=1)


def test_a_volume_may_be_turned_about_any_axis() -> None:
    shape, window = (73, 70, 71), (70, 72, 75)
    turns, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(2, 3, 3)))
    middle = [(torch.tensor([n] * 2) - 1) / 2 for n in (window, shape)]
    warp = Warp(torch.from_numpy(turns / 1.1).float(), middle[0], middle[1] + torch.tensor([0.3, -1.4, 0.7]), window)
    check_alignment(warp, shape, radius=22, pairs=1)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 30), min_size=2, max_size=3))
def test_the_inverse_undoes_the_warp(seed: int, sizes: list[int]) -> None:
    warp = Augment().draw(torch.tensor([sizes] * 3), (24, 17, 9)[: len(sizes)], generator(seed))
    there = lands(warp.inverse(tuple(sizes)), lands(warp, np.array([sizes] * 3) / 3))
    np.testing.assert_allclose(there, np.array([sizes] * 3) / 3, atol=1e-3)
    window = lands(warp, warp.points().flatten(1, -2)[:, -1].double().numpy())
    np.testing.assert_allclose(window, np.array([warp.shape] * 3) - 1, atol=1e-3)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 30), min_size=2, max_size=3))
def test_image_and_maps_are_read_at_the_same_points(seed: int, sizes: list[int]) -> None:
    """Linear interpolation of an image that holds its own index gives the very point that was read."""
    shape, dims = tuple(sizes), len(sizes)
    warp = Augment().draw(torch.tensor([sizes]), (24, 17, 9)[:dims], generator(seed))
    index = torch.from_numpy(np.indices(shape)).unsqueeze(0)
    image, maps = read(warp, index.float(), index.to(torch.uint8))
    points = warp.points()[0].movedim(-1, 0)
    last = (torch.tensor(sizes) - 1).view(dims, *[1] * dims)
    read_at = torch.minimum(points.clamp(min=0), last)
    torch.testing.assert_close(image[0], read_at, atol=1e-4, rtol=0)
    assert (maps[0] - read_at).abs().max() <= 0.5 + 1e-4
    clear = (read_at % 1 - 0.5).abs() > 1e-3
    assert torch.equal(maps[0][clear].long(), read_at.round().long()[clear])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 30), min_size=2, max_size=3))
def test_inside_is_false_where_a_point_lies_on_no_voxel(seed: int, sizes: list[int]) -> None:
    warp = Augment().draw(torch.tensor([sizes]), (33, 32, 9)[: len(sizes)], generator(seed))
    size = torch.tensor(sizes).double()
    beyond = (warp.points()[0].double() - (size - 1) / 2).abs() - size / 2  # the nearer face, along each axis
    clear = beyond.abs().amin(dim=-1) > 1e-3
    assert torch.equal(inside(warp.points(), size.unsqueeze(0))[0][clear], (beyond < 0).all(dim=-1)[clear])


@pytest.mark.parametrize("largest", [(40, 50), (31, 64), (12, 14, 11)])
@pytest.mark.parametrize("augment", [Augment(), Augment(rotate=0, scale=(1, 1)), Augment(scale=(1, 1), turns=True)])
def test_the_box_that_is_reached_says_what_the_whole_image_says(augment: Augment, largest: tuple[int, ...]) -> None:
    """Images of many sizes in one batch, each through its box, against each alone and whole."""
    dims, count = len(largest), 12
    sizes = torch.stack([torch.randint(1, n + 1, (count,), generator=generator(n)) for n in largest], dim=1)
    sizes[0], sizes[1] = torch.tensor(largest), 1
    warp = augment.draw(sizes, (33, 28, 9)[:dims], generator(2))
    lows, shape = warp.reach(sizes)
    assert (lows >= 0).all()
    assert (lows < sizes).all()
    sources = [noise(tuple(size), seed) for seed, size in enumerate(sizes.tolist())]
    boxes = [
        torch.stack([cut(one[kind][0], low, shape) for one, low in zip(sources, lows.tolist(), strict=True)])
        for kind in (0, 1)
    ]
    seen = sample_image(boxes[0], warp.points(), sizes, lows)
    labels = sample_maps(boxes[1], warp.points(), sizes, lows)
    for i, (image, maps) in enumerate(sources):
        where = warp.points()[i, None], sizes[i, None], torch.zeros(1, dims)
        torch.testing.assert_close(seen[i, None], sample_image(image, *where), atol=1e-4, rtol=0)
        different = labels[i, None] != sample_maps(maps, *where)
        assert different.float().mean() < 0.01  # where a point lies between two voxels


def test_boxes_are_no_larger_than_what_windows_reach() -> None:
    warp = Augment(rotate=0, scale=(1, 1), flip=False).draw(
        torch.tensor([[200, 180, 90]] * 2), (16, 12, 8), generator(0)
    )
    assert warp.upright
    assert warp.reach(torch.tensor([[200, 180, 90]] * 2))[1] == (16, 12, 8)
    turned = Augment(scale=(1, 1)).draw(torch.tensor([[200, 180, 90]] * 2), (16, 12, 8), generator(0))
    assert not turned.upright
    assert max(turned.reach(torch.tensor([[200, 180, 90]] * 2))[1]) <= 24


@settings(max_examples=50, deadline=None)
@given(axes=st.lists(AXIS, min_size=2, max_size=3), dtype=st.sampled_from([torch.float32, torch.uint8]))
def test_cutting_is_exact_and_repeats_the_border(axes: list[tuple[int, int, int]], dtype: torch.dtype) -> None:
    size, window, corner = (tuple(values) for values in zip(*axes, strict=True))
    source = noise(size)[dtype == torch.uint8][0]
    expected = source
    for axis, (start, length, n) in enumerate(zip(corner, window, size, strict=True), start=1):
        expected = expected.index_select(axis, torch.from_numpy(np.arange(start, start + length).clip(0, n - 1)))
    found = cut(source, corner, window)
    assert found.dtype == dtype
    assert torch.equal(found, expected)
