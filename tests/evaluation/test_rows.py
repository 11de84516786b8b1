"""One prediction against its label, whole and slice by slice."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from coranet.data.grid import through_plane_axis
from coranet.evaluation import Row, score_pair, score_slices

CLASSES = {1: "liver", 2: "tumour"}


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slices_run_through_the_widest_axis(axis: int) -> None:
    rng = np.random.default_rng(axis)
    prediction, label = rng.integers(0, 3, (2, 4, 5, 6))
    prediction[1], label[1] = 0, 0
    spacing = [0.5, 0.7, 0.9]
    spacing[axis] = 3.0
    rows = score_slices(prediction, label, CLASSES, spacing, case="a")
    expected: list[Row] = []
    for index in range(label.shape[axis]):
        flat = (np.take(prediction, index, axis), np.take(label, index, axis))
        expected += score_pair(*flat, CLASSES, np.delete(spacing, axis), case="a", slice_index=index)
    assert repr(rows) == repr(tuple(expected))
    if axis == 0:
        assert [row.status for row in rows if row.slice_index == 1] == ["absent", "absent"]


def test_the_through_plane_axis() -> None:
    assert through_plane_axis((9, 9, 9), (1.0, 1.0, 1.0)) == 2
    assert through_plane_axis((9, 9, 9), (3.0, 1.0, 1.0)) == 0
    assert through_plane_axis((9, 9, 9), (3.0, 3.0, 1.0)) == 1
    assert through_plane_axis((9, 9, 9), (0.7, 0.70001, 0.7)) == 2
    assert through_plane_axis((1, 9, 9), (1.0, 2.0, 2.0)) == 0


def test_a_flat_image_is_scored_flat() -> None:
    prediction, label = np.zeros((2, 10, 9), dtype=np.uint8)
    prediction[1:6, 1:6] = label[2:7, 2:7] = 1
    flat = score_pair(prediction, label, {1: "disc"}, (1.0, 2.0))
    for axis in range(3):
        spacing = list(np.insert([1.0, 2.0], axis, 9.0))
        volumes = (np.expand_dims(prediction, axis), np.expand_dims(label, axis))
        assert score_pair(*volumes, {1: "disc"}, spacing) == flat
        assert [replace(row, slice_index=None) for row in score_slices(*volumes, {1: "disc"}, spacing)] == list(flat)


def test_a_single_voxel() -> None:
    one = np.ones((1, 1, 1), dtype=np.uint8)
    (row,) = score_pair(one, one, {1: "dot"}, (1, 1, 1))
    assert (row.dsc, row.hd) == (1, 0)
    (missed,) = score_pair(0 * one, one, {1: "dot"}, (1, 1, 1))
    assert missed.hd > 0
    (absent,) = score_pair(0 * one, 0 * one, {1: "dot"}, (1, 1, 1))
    assert isnan(absent.hd)
