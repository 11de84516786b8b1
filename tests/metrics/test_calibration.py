"""Retention curves, calibration error and regions against loops over voxels."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coranet.metrics import calibrate, error_retention, expected_calibration_error

seeds = st.integers(0, 10_000)


def scene(seed, n=60, levels=8):
    """Scores with many ties, and mistakes that are likelier where they are high."""
    rng = np.random.default_rng(seed)
    score = rng.integers(0, levels, n) / levels
    return rng, score, rng.random(n) < score


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_the_curve_is_the_mean_over_orders_among_equals(seed):
    rng, score, wrong = scene(seed, n=30, levels=3)
    curve, areas = error_retention(score, wrong), []
    for _ in range(400):
        order = np.lexsort((rng.random(30), score))
        left = [0.0, *(wrong[order][:kept].sum() / 30 for kept in range(1, 31))]
        areas.append(sum((a + b) / 2 / 30 for a, b in pairwise(left)))
    assert curve.area == pytest.approx(np.mean(areas), abs=6 * np.std(areas) / 20 + 1e-12)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_points_of_the_curve(seed):
    _, score, wrong = scene(seed)
    curve = error_retention(score.reshape(6, 10), wrong.reshape(6, 10))
    for kept, errors, threshold in zip(curve.kept[1:], curve.errors[1:], np.unique(score), strict=True):
        assert kept == pytest.approx((score <= threshold).mean())
        assert errors == pytest.approx((wrong & (score <= threshold)).mean())
    assert (curve.kept[0], curve.errors[0], curve.kept[-1]) == (0, 0, 1)
    assert curve.area_at_best - 1 / 60 <= curve.area <= wrong.mean() - curve.area_at_best + 1 / 60


def test_what_knowing_and_not_knowing_is_worth():
    wrong = np.arange(1000) < 100
    assert error_retention(wrong.astype(float), wrong).area == pytest.approx(0.1**2 / 2)
    blind = error_retention(np.zeros(1000), wrong)
    assert blind.area == blind.area_at_random == pytest.approx(0.05)
    assert error_retention(-wrong.astype(float), wrong).area > 0.09


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 20))
def test_calibration_error(seed, bins):
    rng = np.random.default_rng(seed)
    confidence, right = rng.random(80), rng.random(80) < 0.7
    confidence[:3] = 0.0, 1.0, 0.5
    expected = 0.0
    for b in range(bins):
        inside = [
            i for i in range(80) if b / bins <= confidence[i] < (b + 1) / bins or (b == bins - 1 and confidence[i] == 1)
        ]
        if inside:
            expected += len(inside) / 80 * abs(right[inside].mean() - confidence[inside].mean())
    assert expected_calibration_error(confidence, right, bins) == pytest.approx(expected, abs=1e-9)


def test_a_case_in_three_dimensions():
    rng = np.random.default_rng(0)
    label, prediction = rng.integers(0, 3, (2, 4, 5, 6))
    confidence, score = rng.random((2, 4, 5, 6))
    certain = score < 0.6
    found = calibrate(prediction, label, confidence, certain, score)
    wrong = prediction != label
    assert found.error_share == pytest.approx(wrong.mean())
    assert found.uncertain_share == pytest.approx((~certain).mean())
    assert found.errors_held == pytest.approx((wrong & ~certain).sum() / wrong.sum())
    assert found.certain_error_share == pytest.approx((wrong & certain).sum() / certain.sum())
    assert found.certain_ece == expected_calibration_error(confidence[certain], ~wrong[certain])
    assert found.retention_area == error_retention(score, wrong).area


def test_shares_of_nothing():
    ones = np.ones((3, 3))
    found = calibrate(ones, ones, ones, np.zeros((3, 3), bool), ones)
    assert np.isnan([found.errors_held, found.certain_error_share, found.certain_ece]).all()
    assert (found.error_share, found.uncertain_share, found.retention_area) == (0, 1, 0)
