"""Overlap counts against counting voxel by voxel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coranet.ops.confusion import dice_from_counts, overlap_counts


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 5),
    shown=st.integers(1, 5),
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=3),
)
def test_counts_and_dice_are_those_of_sets(seed: int, classes: int, shown: int, shape: list[int]) -> None:
    """`shown` classes of `classes` appear, so that some are in neither array."""
    prediction, label = np.random.default_rng(seed).integers(0, min(shown, classes), (2, *shape))
    counts = overlap_counts(torch.from_numpy(prediction), torch.from_numpy(label), classes)
    assert counts.shape == (3, classes)
    for k, dice in enumerate(dice_from_counts(counts).tolist()):
        p, q = (set(np.flatnonzero(x == k).tolist()) for x in (prediction, label))
        assert counts[:, k].tolist() == [len(p), len(q), len(p & q)]
        assert dice == pytest.approx(2 * len(p & q) / (len(p) + len(q)) if p or q else np.nan, nan_ok=True)


def test_counts_of_slices_add_up_to_those_of_the_volume() -> None:
    prediction, label = torch.randint(0, 3, (2, 6, 5, 4), generator=torch.Generator().manual_seed(0))
    slices = [overlap_counts(p, q, 3) for p, q in zip(prediction, label, strict=True)]
    assert torch.equal(torch.stack(slices).sum(dim=0), overlap_counts(prediction, label, 3))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_any_integers_can_be_counted(dtype: torch.dtype) -> None:
    prediction, label = torch.tensor([[0, 1, 1, 2], [0, 1, 2, 2]]).to(dtype)
    assert overlap_counts(prediction, label, 4).tolist() == [[1, 2, 1, 0], [1, 1, 2, 0], [1, 1, 1, 0]]
