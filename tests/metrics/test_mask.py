"""Scores of one mask: against MONAI and medpy where definitions agree, by hand, and by what must not change them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from medpy.metric import binary as medpy
from monai.metrics.hausdorff_distance import compute_hausdorff_distance
from monai.metrics.meandice import compute_dice
from monai.metrics.meaniou import compute_iou
from monai.metrics.surface_distance import compute_average_surface_distance
from numpy.typing import NDArray

from coranet.metrics import METRICS, Counts, Score, score
from coranet.metrics.surface import nearest, surface

Mask = NDArray[np.bool_]
Pair = tuple[Mask, Mask, tuple[float, ...]]

DISTANCES = ("hd", "hd95", "asd", "assd")
SHARES = tuple(name for name, metric in METRICS.items() if metric.unit == "%")


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Two masks that are not empty, and a spacing: 2D or 3D, blobs with noise, often far apart or touching the edge."""
    dims = draw(st.integers(2, 3))
    shape = draw(npst.array_shapes(min_dims=dims, max_dims=dims, min_side=1, max_side=11))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    masks = tuple(_blob(rng, shape, noise=draw(st.sampled_from([0.0, 0.02, 0.3]))) for _ in range(2))
    assume(all(mask.any() for mask in masks))
    spacing = draw(st.tuples(*[st.sampled_from([0.5, 0.7, 1.0, 2.5])] * dims))
    return masks[0], masks[1], spacing


def _blob(rng: np.random.Generator, shape: tuple[int, ...], noise: float) -> Mask:
    grid = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    centre = rng.uniform(0, shape)
    distance = np.sqrt(sum((axis - c) ** 2 for axis, c in zip(grid, centre, strict=True)))
    return np.asarray((distance < rng.uniform(0.5, 6)) ^ (rng.random(shape) < noise))


def _numbers(result: Score) -> dict[str, float]:
    return {name: getattr(result, name) for name in METRICS}


many = settings(deadline=None, max_examples=100)


@many
@given(pairs())
def test_agrees_with_medpy(pair: Pair) -> None:
    prediction, label, spacing = pair
    expected = {
        "dsc": medpy.dc(prediction, label),
        "jaccard": medpy.jc(prediction, label),
        "ppv": medpy.precision(prediction, label),
        "tpr": medpy.recall(prediction, label),
    }
    for name in DISTANCES:
        expected[name] = getattr(medpy, name)(prediction, label)
        expected[f"{name}_mm"] = getattr(medpy, name)(prediction, label, voxelspacing=spacing)
    assert _numbers(score(prediction, label, spacing)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.filterwarnings("ignore:.*always_return_as_numpy.*:FutureWarning")  # MONAI warns of its own call
@many
@given(pairs())
def test_agrees_with_monai(pair: Pair) -> None:
    prediction, label, spacing = pair
    ours = score(prediction, label, spacing)
    masks: dict[str, Any] = {
        "y_pred": torch.from_numpy(prediction.copy())[None, None],
        "y": torch.from_numpy(label.copy())[None, None],
        "include_background": True,
    }
    assert ours.dsc == pytest.approx(compute_dice(**masks).item(), rel=1e-5)
    assert ours.jaccard == pytest.approx(compute_iou(**masks).item(), rel=1e-5)
    for unit, suffix in ((None, ""), (spacing, "_mm")):
        expected = {
            "hd": compute_hausdorff_distance(**masks, spacing=unit).item(),
            "asd": compute_average_surface_distance(**masks, spacing=unit).item(),
            "assd": compute_average_surface_distance(**masks, spacing=unit, symmetric=True).item(),
        }
        assert {name: getattr(ours, name + suffix) for name in expected} == pytest.approx(expected, rel=1e-5, abs=1e-6)


@many
@given(pairs())
def test_nearest_agrees_with_trying_all(pair: Pair) -> None:
    prediction, label, spacing = pair
    here, there = surface(prediction), surface(label)
    gaps = (here[:, None] - there[None]) * np.array(spacing)
    expected = np.linalg.norm(gaps, axis=-1).min(axis=1)
    np.testing.assert_allclose(nearest(here, there, spacing), expected, atol=1e-12)


@many
@given(pairs())
def test_swapping_the_two_swaps_only_precision_and_recall_and_the_direction_of_asd(pair: Pair) -> None:
    prediction, label, spacing = pair
    there, back = score(prediction, label, spacing), score(label, prediction, spacing)
    for name in set(METRICS) - {"ppv", "tpr", "asd", "asd_mm"}:
        assert getattr(there, name) == pytest.approx(getattr(back, name))
    assert (there.ppv, there.tpr) == (back.tpr, back.ppv)


@many
@given(pairs(), st.data())
def test_moving_flipping_or_turning_both_changes_nothing(pair: Pair, data: st.DataObject) -> None:
    prediction, label, spacing = pair
    before = score(prediction, label, spacing)
    margins = [data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3))) for _ in spacing]
    flipped = data.draw(st.sets(st.sampled_from(range(label.ndim))))
    order = data.draw(st.permutations(range(label.ndim)))

    def moved(mask: Mask) -> Mask:
        return np.flip(np.pad(mask, margins), tuple(flipped)).transpose(order)

    after = score(moved(prediction), moved(label), [spacing[axis] for axis in order])
    assert _numbers(after) == pytest.approx(_numbers(before), rel=1e-9)


@many
@given(pairs(), st.floats(0.1, 10))
def test_spacing_scales_millimetres_alone(pair: Pair, factor: float) -> None:
    prediction, label, spacing = pair
    before = score(prediction, label, spacing)
    after = score(prediction, label, [factor * step for step in spacing])
    scaled = {f"{name}_mm": factor * getattr(before, f"{name}_mm") for name in DISTANCES}
    assert _numbers(after) == pytest.approx(_numbers(before) | scaled, rel=1e-9)


@many
@given(pairs())
def test_order_and_bounds(pair: Pair) -> None:
    prediction, label, spacing = pair
    ours = score(prediction, label, spacing)
    worst = score(np.zeros_like(label), label, spacing)
    assert all(0 <= getattr(ours, name) <= 1 for name in SHARES)
    assert ours.dsc == pytest.approx(2 * ours.jaccard / (1 + ours.jaccard))
    assert 0 <= ours.assd_mm <= ours.hd_mm < worst.hd_mm
    assert ours.asd <= ours.hd < worst.asd
    assert ours.hd95 <= ours.hd
    assert _numbers(score(label, label, spacing)) == {name: float(name in SHARES) for name in METRICS}


def test_by_hand() -> None:
    """A square of 3 x 3 and the same one two columns further, pixels of 1 x 2 mm."""
    label, prediction = np.zeros((2, 5, 8), dtype=bool)
    label[1:4, 1:4] = True
    prediction[1:4, 3:6] = True
    ours = score(prediction, label, (1.0, 2.0))

    assert (ours.status, ours.prediction_voxels, ours.label_voxels) == ("scored", 9, 9)
    assert (ours.dsc, ours.jaccard, ours.ppv, ours.tpr) == (6 / 18, 3 / 15, 3 / 9, 3 / 9)
    # The surface is the square without its middle: from columns 3, 4, 5 of the prediction there are 3, 2 and 3 pixels,
    # at 0, 1 and 2 columns from column 3 of the label; the other way round it is the same.
    assert ours.asd == pytest.approx((3 * 0 + 2 * 1 + 3 * 2) / 8)
    assert ours.assd_mm == pytest.approx(2 * ours.asd)
    assert (ours.hd, ours.hd95, ours.hd_mm, ours.hd95_mm) == (2, 2, 4, 4)


def test_asd_runs_from_the_prediction_to_the_label() -> None:
    label, prediction = np.zeros((2, 3, 12), dtype=bool)
    label[1, 1] = prediction[1, 1] = prediction[1, 10] = True
    ours = score(prediction, label, (1.0, 1.0))
    assert (ours.asd, ours.assd) == (9 / 2, 9 / 3)


def test_hd95_pools_both_directions() -> None:
    """One far pixel in 41 is within the 5 % of the pool, though it is alone on its side."""
    label, prediction = np.zeros((2, 1, 100), dtype=bool)
    label[0, :20] = prediction[0, :20] = prediction[0, 90] = True
    ours = score(prediction, label, (1.0, 1.0))
    assert (ours.hd, ours.hd95) == (71, 0)


@pytest.mark.parametrize("shape", [(30, 40), (10, 20, 40)])
def test_empty_policy(shape: tuple[int, ...]) -> None:
    spacing = (2.0, 0.5, 3.0)[: len(shape)]
    empty, full = np.zeros(shape, dtype=bool), np.ones(shape, dtype=bool)
    diagonal, diagonal_mm = np.linalg.norm(shape), np.linalg.norm(np.multiply(shape, spacing))
    for status, prediction, label in (("missed", empty, full), ("invented", full, empty)):
        ours = score(prediction, label, spacing)
        assert ours.status == status
        assert (ours.prediction_voxels, ours.label_voxels) == (prediction.sum(), label.sum())
        assert all(getattr(ours, name) == 0 for name in SHARES)
        assert [getattr(ours, name) for name in DISTANCES] == pytest.approx([diagonal] * 4)
        assert [getattr(ours, f"{name}_mm") for name in DISTANCES] == pytest.approx([diagonal_mm] * 4)
    absent = score(empty, empty, spacing)
    assert (absent.status, absent.prediction_voxels, absent.label_voxels) == ("absent", 0, 0)
    assert all(np.isnan(value) for value in _numbers(absent).values())


def test_shares_of_nothing_are_not_numbers() -> None:
    assert np.isnan(Counts(tp=0, fp=0, fn=3).ppv)
    assert Counts(tp=0, fp=0, fn=3).dsc == 0
