"""Preparation keeps image and label together, on every path, there and back."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import permutations, product
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from coranet.data.grid import Grid, mismatch, orientation, orientation_code
from coranet.data.prepare import separable
from coranet.data.prepare.cases import (
    Preparation,
    forward_image,
    forward_label,
    label_values,
    normalise,
    open_case,
    plan,
    prepare_case,
    restore_labels,
    restore_probabilities,
)
from coranet.data.prepare.crop import around
from coranet.data.prepare.intensity import background_threshold
from coranet.data.prepare.interpolation import average, share, spline
from coranet.data.readers import Volume
from coranet.engine.codec import decode
from coranet.errors import InputError
from coranet.geometry import Geometry

TURNS = [(axes, signs) for axes in permutations(range(3)) for signs in product((1, -1), repeat=3)]
SHAPE, SPACING = (46, 50, 42), (1.0, 0.9, 1.2)
FINE_SHAPE, FINE_SPACING = (76, 82, 70), (0.6, 0.55, 0.72)
CENTRE = np.array([21.37, -32.21, 50.83])
"""Of the object, in millimetres: near the centre of every scan, on no voxel's centre."""

PATHS = {
    "as it is": Preparation(),
    "resize up": Preparation(size=(100, 112, 90), fit="resize"),
    "resize to twice": Preparation(size=(152, None, 140), fit="resize"),
    "resize to half": Preparation(size=(38, 41, 35), fit="resize"),
    "resize down by little": Preparation(size=(71, 76, 66), fit="resize"),
    "resize down by more than two": Preparation(size=(36, None, 31), fit="resize"),
    "finer": Preparation(spacing=(0.5, 0.5, 0.5)),
    "coarser": Preparation(spacing=(0.9, 0.9, 0.9)),
    "one axis": Preparation(spacing=(None, None, 0.4)),
    "crop": Preparation(size=(61, 66, 64)),
    "pad": Preparation(size=(83, 96, 79)),
    "crop one and pad another": Preparation(size=(63, None, 95)),
    "finer, then crop": Preparation(spacing=(0.5, 0.5, 0.5), size=(80, 78, 88)),
    "coarser, then pad": Preparation(spacing=(0.8, 0.8, 0.8), size=(66, 64, 70)),
    "spacing, then resize": Preparation(spacing=(0.5, 0.5, 0.5), size=(72, 90, 80), fit="resize"),
}


def lie(
    axes: tuple[int, ...] = (0, 1, 2), signs: tuple[int, ...] = (1, 1, 1), tilt: float = 0.0, fine: bool = False
) -> Geometry:
    """A scan whose own axis `i` runs along the world's axis `axes[i]`, tilted a little, its centre at (20, -30, 50)."""
    sizes, spacing = (FINE_SHAPE, FINE_SPACING) if fine else (SHAPE, SPACING)
    cos, sin = np.cos(tilt), np.sin(tilt)
    matrix = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])[:, axes] * signs * np.array(spacing)[list(axes)]
    shape = tuple(sizes[axis] for axis in axes)
    affine = np.eye(4)
    affine[:3, :3] = matrix
    affine[:3, 3] = np.array([20, -30, 50]) - matrix @ ((np.array(shape) - 1) / 2)
    return Geometry(shape=shape, affine=tuple(tuple(row) for row in affine.tolist()))


@lru_cache(maxsize=4)
def world(geometry: Geometry) -> np.ndarray:
    """`(3, x, y, z)` millimetres from the centre of the object, of every voxel."""
    affine = np.array(geometry.affine)
    columns = [
        affine[:3, i].reshape(3, 1, 1, 1) * index for i, index in enumerate(np.indices(geometry.shape, sparse=True))
    ]
    return sum(columns) + (affine[:3, 3] - CENTRE)[:, None, None, None]


def blob(geometry: Geometry) -> np.ndarray:
    """A smooth object that leaves the scan's border dark."""
    return np.exp(-(world(geometry) ** 2).sum(0) / (2 * 4.5**2)).astype(np.float32)


def ellipsoid(geometry: Geometry, inner: bool = False) -> np.ndarray:
    """1 in an ellipsoid, and 2 in its inner half if asked for."""
    radius = ((world(geometry) / np.array([14, 13, 15])[:, None, None, None]) ** 2).sum(0) ** 0.5
    return (radius < 1).astype(np.uint8) + (inner & (radius < 0.6)).astype(np.uint8)


def centroid(weights: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Millimetres from the object's true centre."""
    return (world(geometry) * weights).sum((1, 2, 3)) / weights.sum()


def dice(a: np.ndarray, b: np.ndarray) -> float:
    return float(2 * (a & b).sum() / (a.sum() + b.sum()))


@pytest.mark.parametrize("tilt", [0.0, 0.2])
@pytest.mark.parametrize(("axes", "signs"), TURNS)
def test_every_orientation_is_turned_alike_and_back_to_the_bit(
    axes: tuple[int, ...], signs: tuple[int, ...], tilt: float
) -> None:
    geometry = lie(axes, signs, tilt)
    grid = plan(geometry, Preparation())
    image, label = blob(geometry), ellipsoid(geometry, inner=True)
    canonical = nib.as_closest_canonical(nib.Nifti1Image(image, np.array(geometry.affine)))
    assert np.array_equal(forward_image(image, grid), np.asarray(canonical.dataobj))
    assert np.allclose(grid.geometry.affine, canonical.affine)
    assert grid.shape == SHAPE
    assert grid.spacing == pytest.approx(SPACING)
    assert orientation_code(geometry) == "".join(nib.aff2axcodes(np.array(geometry.affine)))
    assert np.array_equal(restore_labels(forward_label(label, grid), grid), label)
    one_hot = np.stack([forward_label(label, grid) == value for value in range(3)])
    assert np.array_equal(restore_probabilities(one_hot, grid).argmax(0), label)


@pytest.mark.parametrize("turn", [TURNS[0], TURNS[29]], ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_image_and_label_stay_together_there_and_back(path: str, turn: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    geometry = lie(*turn, tilt=0.1, fine=True)
    grid = plan(geometry, PATHS[path])
    near = 0.05 * max(*geometry.spacing, *grid.spacing)
    image, label = forward_image(blob(geometry), grid), forward_label(ellipsoid(geometry), grid)
    assert image.shape == label.shape == grid.shape
    image_at, label_at = centroid(image - image.min(), grid.geometry), centroid(label, grid.geometry)
    assert np.abs(image_at).max() < near / 2
    # A single mask of whole voxels lies where voxels let it; that none is pushed to one side the next test shows.
    assert np.abs(label_at).max() < 1.2 * near
    assert np.abs(image_at - label_at).max() < 1.2 * near

    before, back = ellipsoid(geometry), restore_labels(label, grid)
    soft = restore_probabilities(np.stack([1 - label, label]), grid)
    assert back.shape == geometry.shape
    assert soft.sum(0) == pytest.approx(1, abs=1e-5)
    # A mask of whole voxels that went through a coarser grid is rounded twice; soft maps once.
    hard, once = (1, 1) if max(grid.scale) <= 1 else (2, 1.5)
    for after, limit in ((back, hard * near), (soft[1], once * near)):
        assert np.abs(centroid(after, geometry) - centroid(before, geometry)).max() < limit
    if max(grid.scale) <= 1:
        assert np.array_equal(back, before)
        assert dice(soft[1] > 0.5, before == 1) > 0.97
    if set(grid.scale) == {1.0}:
        assert np.array_equal(back, before)
        assert np.array_equal(soft.argmax(0), before)


@settings(max_examples=60, deadline=None)
@given(
    size=st.tuples(*[st.integers(1, 12)] * 3),
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    axis=st.integers(0, 2),
    seed=st.integers(0, 2**16),
)
def test_labels_are_not_pushed_to_one_side(
    size: tuple[int, int, int], shape: tuple[int, int, int], axis: int, seed: int
) -> None:
    """A mirrored label is mirrored in the store, and back: ties go to no side."""
    label = np.random.default_rng(seed).integers(0, 3, shape).astype(np.uint8)
    geometry = Geometry(shape=shape, affine=tuple(tuple(float(i == j) for j in range(4)) for i in range(4)))
    grid = plan(geometry, Preparation(size=size, fit="resize"))
    stored = forward_label(label, grid)
    mirrored = forward_label(np.flip(label, axis), grid)
    if max(grid.scale) <= 1:  # on a coarser grid a class too small for any voxel takes the first of equal ones
        assert np.array_equal(mirrored, np.flip(stored, axis))
    assert np.array_equal(restore_labels(np.flip(stored, axis), grid), np.flip(restore_labels(stored, grid), axis))


@settings(max_examples=60, deadline=None)
@given(
    spacing=st.tuples(*[st.floats(0.3, 1.0)] * 3),
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    seed=st.integers(0, 2**16),
)
def test_a_store_at_least_as_fine_gives_every_label_back(
    spacing: tuple[float, float, float], shape: tuple[int, int, int], seed: int
) -> None:
    """Whatever the label: noise of five classes, voxel by voxel."""
    label = np.random.default_rng(seed).integers(0, 5, shape).astype(np.uint8)
    geometry = Geometry(shape=shape, affine=tuple(tuple(float(i == j) for j in range(4)) for i in range(4)))
    grid = plan(geometry, Preparation(spacing=spacing))
    assert max(grid.scale) <= 1
    assert np.array_equal(restore_labels(forward_label(label, grid), grid), label)


@settings(max_examples=40, deadline=None)
@given(
    turn=st.sampled_from(TURNS),
    size=st.tuples(*[st.one_of(st.none(), st.integers(34, 90))] * 3),
    spacing=st.tuples(*[st.one_of(st.none(), st.floats(0.6, 1.4))] * 3),
    fit=st.sampled_from(["resize", "crop"]),
)
def test_any_preparation_keeps_image_and_label_in_place(
    turn: tuple[tuple[int, ...], tuple[int, ...]],
    size: tuple[int | None, int | None, int | None],
    spacing: tuple[float | None, float | None, float | None],
    fit: str,
) -> None:
    geometry = lie(*turn)
    if fit == "crop":  # wide enough for the whole object
        size = tuple(value and value + 30 for value in size)
    grid = plan(geometry, Preparation(size=size, spacing=spacing, fit=fit))
    assert all(wanted in (None, got) for wanted, got in zip(size, grid.shape, strict=True))
    voxel = max(*geometry.spacing, *grid.spacing)
    image, label = forward_image(blob(geometry), grid), forward_label(ellipsoid(geometry), grid)
    assert np.abs(centroid(image - image.min(), grid.geometry)).max() < 0.03 * voxel
    # Between two grids of nearly one spacing a mask repeats or skips single layers; a lost half voxel would be 0.5.
    assert np.abs(centroid(label, grid.geometry)).max() < 0.25 * voxel
    assert dice(restore_labels(label, grid) == 1, ellipsoid(geometry) == 1) > 0.93
    assert Grid.from_json(json.loads(json.dumps(grid.to_json()))) == grid


def test_the_recorded_numbers() -> None:
    geometry = lie()
    resized = plan(geometry, Preparation(size=(23, None, 84), fit="resize"))
    assert resized.scale == (2.0, 1.0, 0.5)
    assert resized.offset == (0.5, 0.0, -0.25)
    assert resized.spacing == pytest.approx((2.0, 0.9, 0.6))
    cropped = plan(geometry, Preparation(size=(40, 53, None)))
    assert cropped.scale == (1.0, 1.0, 1.0)
    assert cropped.offset == (3.0, -2.0, 0.0)
    assert cropped.inside == (slice(0, 40), slice(2, 52), slice(0, 42))
    spaced = plan(geometry, Preparation(spacing=(0.5, None, 100.0)))
    assert spaced.shape == (92, 50, 1)


def test_padding_is_dark_in_the_image_and_background_in_the_label() -> None:
    geometry = lie()
    grid = plan(geometry, Preparation(spacing=(0.8, None, None), size=(80, 60, 60)))
    image = forward_image(np.full(SHAPE, 5.0) + blob(geometry), grid)
    label = forward_label(np.full(SHAPE, 3), grid)
    padding = np.ones(grid.shape, bool)
    padding[grid.inside] = False
    assert padding.any()
    assert (image[padding] == image.min()).all()
    assert not label[padding].any()
    assert (label[~padding] == 3).all()
    assert image.min() >= 5
    assert image.max() <= 6


def test_what_the_store_never_held_is_background() -> None:
    grid = plan(lie(), Preparation(spacing=(0.8, None, None), size=(20, 20, 20)))
    foreground = np.zeros((3, 20, 20, 20))
    foreground[2] = 1
    restored = restore_probabilities(foreground, grid)
    held = restore_labels(np.full((20, 20, 20), 2), grid) == 2
    assert held.sum() == 16 * 20 * 20
    assert (restored[0][~held] == 1).all()
    assert np.allclose(restored[2][held], 1)


def test_labels_are_not_mixed_to_values_between() -> None:
    geometry = lie()
    label = ellipsoid(geometry, inner=True) * 7
    grid = plan(geometry, Preparation(spacing=(0.7, 1.3, 1.0)))
    assert set(np.unique(forward_label(label, grid))) == {0, 7, 14}


@pytest.mark.parametrize("size", [7, 13, 33, 50])
def test_average_is_what_torch_does(size: int) -> None:
    values = torch.rand(1, 1, 20, 31, generator=torch.manual_seed(0))
    scale = 31 / size
    ours = average(scale * np.arange(size) + (scale - 1) / 2, 31, scale)
    theirs = torch.nn.functional.interpolate(
        values, size=(20, size), mode="bilinear", align_corners=False, antialias=True
    )
    assert np.allclose(values[0, 0].numpy() @ ours.T, theirs[0, 0], atol=1e-5)


def test_spline_is_what_scipy_does_away_from_the_border() -> None:
    values = np.random.default_rng(0).random(60)
    positions = 0.7 * np.arange(80) + 0.3
    ours = spline(positions, 60, 0.7) @ values
    theirs = ndimage.map_coordinates(values, [positions], order=3, mode="nearest")
    assert np.allclose(ours[20:-25], theirs[20:-25], atol=1e-4)
    assert np.allclose(spline(np.arange(60.0), 60, 1.0), np.eye(60))


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_weights_sum_to_one(size: int) -> None:
    positions = np.linspace(-0.5, size - 0.5, 17)
    for weights in (average, spline):
        assert np.allclose(weights(positions, size, 0.3).sum(1), 1)


def test_grey_levels() -> None:
    image = np.random.default_rng(0).normal(40, 300, (12, 13, 14)).astype(np.int16)
    zscore = normalise(image, Preparation())
    assert zscore.mean() == pytest.approx(0, abs=1e-5)
    assert zscore.std() == pytest.approx(1, abs=1e-5)
    window = normalise(image, Preparation(intensity="window", window=(-100, 300)))
    assert np.allclose(window, (np.clip(image, -100, 300) - 100) / 200)
    minmax = normalise(image, Preparation(intensity="minmax"))
    assert (minmax.min(), minmax.max()) == (0, 1)
    percentile = normalise(image, Preparation(intensity="percentile"))
    low, high = np.percentile(image, (0.5, 99.5))
    assert np.allclose(percentile, (np.clip(image, low, high) - low) / (high - low), atol=1e-5)
    for result in (zscore, window, minmax, percentile):
        assert result.dtype == np.float32


@pytest.mark.parametrize("intensity", ["zscore", "window", "minmax", "percentile"])
def test_a_constant_image_stays_finite(intensity: str) -> None:
    assert not normalise(np.full((5, 5, 5), 0.1), Preparation(intensity=intensity)).any()


def case(*arrays: np.ndarray, geometry: Geometry | None = None) -> list[Volume]:
    return [Volume(array, geometry or lie(), Path(f"{i}.nii.gz")) for i, array in enumerate(arrays)]


def test_a_case_has_its_channels_and_label_on_one_grid() -> None:
    geometry = lie((2, 0, 1), (-1, 1, -1))
    label = ellipsoid(geometry).astype(np.float64)
    volumes = case(blob(geometry), 1 - blob(geometry), geometry=geometry)
    prepared = prepare_case(volumes, Volume(label, geometry), Preparation(size=(64, 64, 64)))
    assert prepared.image.shape == (2, 64, 64, 64)
    assert prepared.image.dtype == np.float32
    assert prepared.image.flags.c_contiguous
    assert prepared.label is not None
    assert prepared.label.dtype == np.uint8
    bright = prepared.image[0] > 1.5
    assert prepared.label[bright].all()
    assert np.allclose(prepared.image[0][prepared.grid.inside], -prepared.image[1][prepared.grid.inside], atol=1e-4)
    assert prepare_case(volumes, None, Preparation()).label is None


def test_statistics_are_of_the_scan_and_not_of_the_padding() -> None:
    scan = case(blob(lie()))
    padded = prepare_case(scan, None, Preparation(size=(60, 60, 60)))
    plain = prepare_case(scan, None, Preparation())
    assert np.array_equal(padded.image[0][padded.grid.inside], plain.image[0])


def test_channels_and_label_on_other_grids_are_refused() -> None:
    array = blob(lie())
    shifted = np.array(lie().affine)
    shifted[0, 3] += 0.5
    moved = Volume(array, replace(lie(), affine=tuple(map(tuple, shifted.tolist()))), Path("moved.nii.gz"))
    first = case(array)
    for volumes, label in (([*first, moved], None), (first, moved)):
        with pytest.raises(InputError, match=r"moved.nii.gz: .*grid of 0.nii.gz: places differ by up to 0.5 voxels"):
            prepare_case(volumes, label, Preparation())
    smaller = Volume(array[1:], replace(lie(), shape=(45, 50, 42)), Path("small.nii.gz"))
    with pytest.raises(InputError, match=r"small.nii.gz: .*sizes differ: \(46, 50, 42\) and \(45, 50, 42\).*Resample"):
        prepare_case([*first, smaller], None, Preparation())


def test_rounding_of_a_header_is_no_mismatch() -> None:
    rounded = tuple(tuple(float(np.float32(v) + np.float32(1e-5)) for v in row) for row in lie(tilt=0.3).affine[:3])
    assert not mismatch(lie(tilt=0.3), replace(lie(), affine=(*rounded, (0.0, 0.0, 0.0, 1.0))))


@pytest.mark.parametrize(
    ("value", "message"),
    [(0.5, "not whole numbers.*integers"), (-1, "from -1 to 1"), (256, "0 to 255"), (np.nan, "not whole")],
)
def test_labels_that_are_no_classes_are_refused(value: float, message: str) -> None:
    array = np.array([[[0, 1, value]]])
    with pytest.raises(InputError, match=message):
        label_values(Volume(array, lie()))


def test_a_label_that_scaling_rounded_is_forgiven() -> None:
    assert label_values(Volume(np.array([[[0, 0.9999999, 2]]]), lie())).tolist() == [[[0, 1, 2]]]


def test_voxels_that_are_not_finite_are_refused() -> None:
    array = blob(lie())
    array[3, 4, 5] = np.inf
    with pytest.raises(InputError, match=r"0.nii.gz: has voxels that are not finite"):
        prepare_case(case(array), None, Preparation())


@pytest.mark.parametrize(
    "wrong",
    [
        {"spacing": (0, None, None)},
        {"size": (None, -1, 3)},
        {"window": (3.0, 3.0)},
        {"clip": (3.0, 2.0)},
        {"crop_margin": (-1, None, 0)},
        {"crop": "box"},
        {"crop_box": ((0, 3), None, None)},
        {"crop": "box", "crop_box": ((3, 3), None, None)},
        {"crop_least": (0, 1, 1)},
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(InputError):
        Preparation(**wrong)


@pytest.mark.parametrize("degrees", [0, 30, 45, 45.0001, 135, 90])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_order_of_a_file_s_axes_never_decides_how_it_is_turned(degrees: float, axis: int) -> None:
    """At 45 degrees two axes lie equally near: the same scan in any order and direction is still turned alike."""
    turn = np.eye(3)
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    first, second = (i for i in range(3) if i != axis)
    turn[[first, first, second, second], [first, second, first, second]] = c, -s, s, c
    found = set()
    for axes in permutations(range(3)):
        for signs in product((1, -1), repeat=3):
            affine = np.eye(4)
            affine[:3, :3] = (turn * signs)[:, axes]
            geometry = Geometry(shape=(3, 4, 5), affine=tuple(map(tuple, affine.tolist())))
            turned, flips = orientation(geometry)
            found.add(tuple((affine[:3, turned] * np.where(flips, -1, 1)).round(6).ravel().tolist()))
    assert len({tuple(value + 0.0 for value in one) for one in found}) == 1


def body(geometry: Geometry, air: float = -1000.0) -> np.ndarray:
    """A body in the air, noisy, and darker than nothing outside it."""
    noise = np.random.default_rng(0).normal(0, 10, geometry.shape)
    return (np.where(ellipsoid(geometry) > 0, 40.0, air) + noise).astype(np.float32)


def span(mask: np.ndarray) -> list[tuple[int, int]]:
    """First and after the last of what is there, along each axis."""
    return [(int(where.min()), int(where.max()) + 1) for where in np.nonzero(mask)]


@pytest.mark.parametrize(("axes", "signs"), [TURNS[0], TURNS[29], TURNS[40]])
@pytest.mark.parametrize("crop", ["foreground", "label"])
def test_a_crop_keeps_the_body_and_comes_back_to_the_bit(
    crop: str, axes: tuple[int, ...], signs: tuple[int, ...]
) -> None:
    geometry = lie(axes, signs)
    label = ellipsoid(geometry, inner=True)
    settings = Preparation(crop=crop, crop_margin=(3, 0, None))
    prepared = prepare_case(case(body(geometry), geometry=geometry), Volume(label, geometry), settings)
    whole = plan(geometry, Preparation()).turn(label)
    (x0, x1), (y0, y1), _ = span(whole)
    assert prepared.label is not None
    assert np.array_equal(prepared.label, whole[x0 - 3 : x1 + 3, y0:y1])
    assert prepared.image.shape[1:] == prepared.label.shape
    assert np.array_equal(restore_labels(prepared.label, prepared.grid), label)
    assert prepared.grid.reach == (slice(x0 - 3, x1 + 3), slice(y0, y1), slice(0, SHAPE[2]))


def test_what_lies_outside_a_crop_comes_back_as_background() -> None:
    geometry = lie()
    label = np.zeros(SHAPE, np.uint8)
    label[20:30, 20:30, 20:30] = 1
    prepared = prepare_case(case(body(geometry)), Volume(label, geometry), Preparation(crop="label"))
    everything = np.stack([np.zeros(prepared.grid.shape), np.ones(prepared.grid.shape)])
    assert np.array_equal(restore_labels(np.full(prepared.grid.shape, 1), prepared.grid), label)
    assert np.array_equal(restore_probabilities(everything, prepared.grid), np.stack([1 - label, label]))


def test_a_crop_is_as_long_as_asked_where_the_scan_is() -> None:
    geometry = lie()
    label = np.zeros(SHAPE, np.uint8)
    label[0:4, 23:27, 40:42] = 1
    settings = Preparation(crop="label", crop_margin=(1, 2, 0), crop_least=(12, 5, 96))
    grid = prepare_case(case(body(geometry)), Volume(label, geometry), settings).grid
    assert grid.shape == (12, 8, 42)
    assert grid.offset == (0, 21, 0)


def test_protocol_a_of_the_pancreas() -> None:
    """The spacing of slices is taken for that within one; the box is of the resampled ground truth, 25 voxels wider."""
    affine = ((-0.5, 0, 0, 0), (0, -0.5, 0, 0), (0, 0, 2.5, 0), (0, 0, 0, 1.0))
    geometry = Geometry(shape=(200, 160, 60), affine=affine)
    label = np.zeros(geometry.shape, np.uint8)
    label[90:110, 60:80, 20:40] = 1
    settings = Preparation(
        clip=(-125, 275),
        intensity="minmax",
        spacing=(1, 1, 1),
        slice_spacing="in_plane",
        crop="label",
        crop_margin=(25, 25, 25),
    )
    image = np.random.default_rng(0).normal(0, 300, geometry.shape)
    prepared = prepare_case(case(image, geometry=geometry), Volume(label, geometry), settings)
    assert prepared.grid.scale == (2, 2, 2)
    assert prepared.grid.shape == (60, 60, 30)
    assert prepared.image.min() >= 0
    assert prepared.image.max() <= 1
    true = plan(geometry, replace(settings, crop="none", slice_spacing="stated"))
    assert true.shape == (100, 80, 150)


def test_a_given_box_is_kept_and_padded() -> None:
    geometry = lie()
    settings = Preparation(spacing=(2.0, None, None), crop="box", crop_box=((5, 20), None, (-3, 10)))
    grid = prepare_case(case(body(geometry)), None, settings).grid
    assert grid.shape == (15, 50, 13)
    assert grid.scale == (2, 1, 1)
    assert grid.offset == (10.5, 0, -3)
    assert grid.inside == (slice(0, 15), slice(0, 50), slice(3, 13))


def test_a_crop_may_be_stretched_to_a_size() -> None:
    geometry = lie()
    label = ellipsoid(geometry)
    settings = Preparation(crop="label", crop_margin=(2, 2, 2), size=(64, 64, None), fit="resize")
    prepared = prepare_case(case(blob(geometry)), Volume(label, geometry), settings)
    assert prepared.label is not None
    assert prepared.grid.shape[:2] == (64, 64)
    assert dice(restore_labels(prepared.label, prepared.grid) == 1, label == 1) > 0.99
    assert np.abs(centroid(prepared.label, prepared.grid.geometry)).max() < 0.05


def test_there_must_be_something_to_crop_to() -> None:
    scan = case(body(lie()))
    with pytest.raises(InputError, match=r"0.nii.gz: has no label, and crop=label asks for one"):
        prepare_case(scan, None, Preparation(crop="label"))
    empty = Volume(np.zeros(SHAPE), lie(), Path("empty.nii.gz"))
    with pytest.raises(InputError, match=r"empty.nii.gz: is all background"):
        prepare_case(scan, empty, Preparation(crop="label"))


@pytest.mark.parametrize(("axes", "signs"), TURNS)
def test_a_label_comes_back_from_a_finer_grid_in_every_orientation(
    axes: tuple[int, ...], signs: tuple[int, ...]
) -> None:
    geometry = lie(axes, signs, tilt=0.05)
    label = ellipsoid(geometry, inner=True)
    settings = Preparation(spacing=(0.8, 0.75, 0.9), crop="label", crop_margin=(3, 3, 3))
    prepared = prepare_case(case(body(geometry), geometry=geometry), Volume(label, geometry), settings)
    assert max(prepared.grid.scale) <= 1
    assert prepared.label is not None
    back = restore_labels(prepared.label, prepared.grid)
    assert dice(back > 0, label > 0) >= 0.99
    assert all(dice(back == value, label == value) >= 0.99 for value in (1, 2))


def test_a_class_of_one_voxel_is_not_lost_on_a_coarser_grid() -> None:
    geometry = lie()
    label = ellipsoid(geometry)
    label[3, 4, 5] = 7
    label[40:43, 40:43, 38:40] = 9
    coarse = forward_label(label, plan(geometry, Preparation(spacing=(3.0, 3.0, 3.0))))
    assert (coarse == 7).sum() == 1
    assert (coarse == 9).sum() == 1
    assert np.argwhere(coarse == 7).tolist() == [[1, 1, 2]]


def test_share_is_how_much_of_a_voxel_is_filled() -> None:
    scale, size = 2.6, 26
    weights = share(scale * np.arange(10) + (scale - 1) / 2, size, scale)
    assert np.allclose(weights.sum(1), 1)
    assert np.allclose(weights.sum(0), 1 / scale)  # each voxel is handed out once
    assert np.allclose(weights[0, :4], np.array([1, 1, 0.6, 0]) / scale)


def test_images_may_be_resampled_along_lines() -> None:
    image = np.random.default_rng(0).random(SHAPE).astype(np.float32)
    settings = Preparation(intensity="none", spacing=(0.7, 0.7, 0.7), interpolation="linear")
    linear = prepare_case(case(image), None, settings)
    places = [scale * np.arange(n) + at for n, scale, at in zip(*_recorded(linear.grid), strict=True)]
    expected = ndimage.map_coordinates(image, np.meshgrid(*places, indexing="ij"), order=1, mode="nearest")
    assert np.allclose(linear.image[0], expected, atol=1e-5)
    spline = prepare_case(case(image), None, replace(settings, interpolation="spline"))
    cubic = ndimage.map_coordinates(image, np.meshgrid(*places, indexing="ij"), order=3, mode="nearest")
    inner = (slice(12, -12),) * 3
    assert np.allclose(spline.image[0][inner], cubic.clip(image.min(), image.max())[inner], atol=1e-4)
    assert not np.allclose(linear.image[0][inner], spline.image[0][inner], atol=1e-2)


def _recorded(grid: Grid) -> tuple[tuple[float, ...], ...]:
    return grid.shape, grid.scale, grid.offset


def test_statistics_are_of_the_voxels_that_are_meant() -> None:
    geometry = lie()
    image, inside = body(geometry), ellipsoid(geometry) > 0
    foreground = normalise(image, Preparation(statistics="foreground"))
    assert foreground[inside].mean() == pytest.approx(0, abs=1e-3)
    assert foreground[inside].std() == pytest.approx(1, abs=1e-3)
    masked = np.where(inside, image, 0)
    assert normalise(masked, Preparation(statistics="nonzero"))[inside].std() == pytest.approx(1, abs=1e-3)
    settings = Preparation(statistics="crop", crop="box", crop_box=((20, 30), (20, 30), (20, 30)))
    cropped = prepare_case(case(image), None, settings).image
    assert cropped.mean() == pytest.approx(0, abs=1e-4)
    assert cropped.std() == pytest.approx(1, abs=1e-4)
    percentile = normalise(image, Preparation(statistics="foreground", intensity="percentile"))
    assert percentile[inside].std() > 0.1
    assert normalise(image, Preparation(intensity="percentile"))[inside].std() < 0.1


def test_grey_levels_are_clipped_first() -> None:
    image = np.random.default_rng(0).normal(40, 300, (12, 13, 14))
    minmax = normalise(image, Preparation(clip=(-125, 275), intensity="minmax"))
    assert np.allclose(minmax, (image.clip(-125, 275) + 125) / 400, atol=1e-6)
    assert normalise(image, Preparation(clip=(-125, 275), intensity="none")).max() == 275


def test_each_channel_has_its_own_grey_levels() -> None:
    image = np.random.default_rng(0).normal(40, 300, SHAPE)
    both = prepare_case(case(image, image), None, Preparation(intensities=("window", "zscore"))).image
    assert np.abs(both[0]).max() == 1
    assert both[1].std() == pytest.approx(1, abs=1e-4)
    with pytest.raises(InputError, match="fewer than the channels"):
        prepare_case(case(image, image), None, Preparation(intensities=("window",)))


def test_the_threshold_parts_body_and_air() -> None:
    assert -950 < background_threshold(body(lie())) < 0
    assert background_threshold(np.full((3, 3, 3), 5.0)) == 5


@pytest.mark.parametrize("path", ["finer, then crop", "coarser, then pad", "resize down by more than two", "crop"])
def test_planes_at_a_time_make_the_same_as_all_at_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    geometry = lie(fine=True)
    grid = plan(geometry, PATHS[path])
    image, label = blob(geometry), ellipsoid(geometry, inner=True)
    at_once = forward_image(image, grid), forward_label(label, grid), restore_labels(forward_label(label, grid), grid)
    monkeypatch.setattr(separable, "_AT_A_TIME", 1)
    monkeypatch.setattr(separable, "_ROWS", 7)
    by_plane = forward_image(image, grid), forward_label(label, grid), restore_labels(forward_label(label, grid), grid)
    assert np.allclose(at_once[0], by_plane[0], atol=1e-5)
    assert all(np.array_equal(a, b) for a, b in zip(at_once[1:], by_plane[1:], strict=True))


@pytest.mark.parametrize(
    ("spacing", "intensity"),
    [((None, None, None), "percentile"), ((1.3, 1.3, 1.3), "zscore"), ((0.6, 0.6, 0.6), "percentile")],
)
def test_a_case_takes_three_times_its_volume_at_most(
    spacing: tuple[float | None, ...], intensity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(separable, "_AT_A_TIME", 50_000)
    affine = ((0.9, 0, 0, 0), (0, 0.9, 0, 0), (0, 0, 1.0, 0), (0, 0, 0, 1.0))
    geometry = Geometry(shape=(160, 150, 140), affine=affine)
    label = np.zeros(geometry.shape, np.uint8)
    label[50:100, 50:100, 50:100] = 1
    decoded = 4 * label.size

    def read(dtype: type) -> np.ndarray:
        return np.full(geometry.shape, 3, dtype, order="F") + label.astype(dtype)

    tracemalloc.start()
    try:
        volumes = (Volume(read(np.int16), geometry) for _ in range(3))
        labels = (Volume(read(np.int16) - np.int16(3), geometry) for _ in range(1))
        opened = open_case(volumes, labels, Preparation(spacing=spacing, intensity=intensity))
        planes = sum(len(slab) for slab in opened.slabs)
        assert opened.place_label() is not None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert planes == 3 * opened.grid.shape[0]
    assert peak < 3 * decoded


@given(st.data())
def test_what_is_kept_holds_what_was_found(data: st.DataObject) -> None:
    voxels, size = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 90))
    first = data.draw(st.integers(0, voxels - 1))
    last = data.draw(st.integers(first + 1, voxels))
    margin, least = data.draw(st.integers(0, 30)), data.draw(st.integers(1, 120))
    start, stop = around((first, last), voxels / size, size, margin, least)
    assert 0 <= start < stop <= size
    assert start <= max(0, first * size / voxels - margin) + 1e-6
    assert stop >= min(size, last * size / voxels + margin) - 1e-6
    assert stop - start >= min(least, size)
    assert stop - start <= max(least, (last - first) * size / voxels + 2 * margin + 2)


def test_settings_go_through_json() -> None:
    settings = Preparation(
        intensities=("window", "none"),
        clip=(-5, 5),
        spacing=(1.0, None, 2.0),
        crop="box",
        crop_box=((1, 2), None, (3, 9)),
        crop_margin=(None, 1, 2),
        crop_label_for_all=True,
    )
    assert decode(Preparation, json.loads(json.dumps(asdict(settings)))) == settings
    assert decode(Preparation, {"intensity": "minmax"}) == Preparation(intensity="minmax")  # of runs before crops
