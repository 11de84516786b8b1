"""Means, intervals and comparisons over cases."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from coranet.errors import InputError
from coranet.metrics import compare, mean_of_present, summarise

values = st.lists(st.floats(-100, 100), min_size=1, max_size=30)


@settings(deadline=None, max_examples=50)
@given(values)
def test_the_interval_lies_among_the_cases(cases: list[float]) -> None:
    ours = summarise(cases)
    assert ours.n == len(cases)
    assert ours.mean == pytest.approx(np.mean(cases), abs=1e-9)
    assert min(cases) - 1e-9 <= ours.low <= ours.high <= max(cases) + 1e-9


@settings(deadline=None, max_examples=30)
@given(st.floats(-100, 100), st.integers(1, 30))
def test_the_interval_of_a_constant_is_that_constant(value: float, n: int) -> None:
    ours = summarise([value] * n)
    assert (ours.mean, ours.low, ours.high) == pytest.approx((value,) * 3)


def test_the_interval_is_the_percentile_bootstrap() -> None:
    cases = np.random.default_rng(1).gamma(2.0, size=40)
    expected = bootstrap((cases,), np.mean, method="percentile", n_resamples=20_000, rng=2).confidence_interval
    ours = summarise(cases)
    assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high), abs=0.02)
    assert ours.std == pytest.approx(np.std(cases, ddof=1))


def test_the_seed_decides_the_interval() -> None:
    cases = np.random.default_rng(1).random(20)
    assert summarise(cases, seed=3) == summarise(cases, seed=3)
    assert summarise(cases, seed=3) != summarise(cases, seed=4)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    samples = np.random.default_rng(0).normal(size=(400, 40))
    covered = np.mean([summary.low <= 0 <= summary.high for summary in map(summarise, samples)])
    assert 0.90 <= covered <= 0.97  # a percentile interval of 40 cases is a little narrow


def test_what_is_absent_is_left_out() -> None:
    ours = summarise([0.2, nan, 0.4])
    assert (ours.mean, ours.n) == (pytest.approx(0.3), 2)
    assert (ours.low, ours.high) == pytest.approx((0.2, 0.4))
    alone = summarise([0.5])
    assert (alone.mean, alone.low, alone.high, alone.n) == (0.5, 0.5, 0.5, 1)
    assert isnan(alone.std)
    for nothing in (summarise([nan, nan]), summarise([])):
        assert nothing.n == 0
        assert all(isnan(value) for value in (nothing.mean, nothing.std, nothing.low, nothing.high))


def test_mean_of_present() -> None:
    table = np.array([[1.0, nan, 3.0], [nan, nan, nan]])
    np.testing.assert_array_equal(mean_of_present(table, axis=1), [2.0, nan])
    np.testing.assert_array_equal(mean_of_present(table), [1.0, nan, 3.0])


def _by_case(cases: list[float]) -> dict[str, float]:
    return {f"case{i}": value for i, value in enumerate(cases)}


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=7))
def test_swapping_two_methods_turns_the_comparison_round(cases: list[tuple[float, float]]) -> None:
    first, second = (_by_case(list(side)) for side in zip(*cases, strict=True))
    there, back = compare(first, second), compare(second, first)
    assert there.difference == pytest.approx(np.mean([a - b for a, b in cases]), abs=1e-12)
    assert (there.difference, there.low, there.high) == pytest.approx((-back.difference, -back.high, -back.low))
    assert there.p == pytest.approx(back.p)


def test_comparison_by_hand() -> None:
    """Six cases, all better by different amounts: of 2^6 signs only two are as extreme."""
    second = _by_case([0.5] * 6)
    ours = compare(_by_case([0.51, 0.52, 0.53, 0.54, 0.55, 0.56]), second)
    assert (ours.difference, ours.p, ours.n) == (pytest.approx(0.035), pytest.approx(2 / 64), 6)
    assert 0.01 < ours.low < 0.035 < ours.high < 0.06
    same = compare(second, second)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)


def test_comparison_pairs_by_case_not_by_order_and_leaves_out_what_one_lacks() -> None:
    ours = compare({"a": 0.9, "b": 0.5, "c": nan}, {"c": 0.1, "b": 0.4, "a": 0.8})
    assert (ours.difference, ours.n) == (pytest.approx(0.1), 2)


def test_comparison_of_other_cases_is_refused() -> None:
    with pytest.raises(InputError, match=r"b, c.*same cases"):
        compare({"a": 1.0, "b": 1.0}, {"a": 1.0, "c": 1.0})
