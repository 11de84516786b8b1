"""Distances on the device against SciPy's, and signed distance maps against their definition."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import ndimage

from coranet.ops import distance
from coranet.ops.distance import distance_error, distance_maps, distance_to, signed_distance

masks = st.integers(2, 3).flatmap(
    lambda dims: arrays.arrays(bool, arrays.array_shapes(min_dims=dims, max_dims=dims, min_side=1, max_side=7))
)


def signed(mask, valid=None):
    valid = np.ones_like(mask) if valid is None else valid
    return signed_distance(torch.tensor(mask)[None, None], torch.tensor(valid)[None])[0, 0].numpy()


def released(mask):
    """The signed distance of one mask as SASSNet and DTC compute it, for masks with both sides."""
    inside, outside = ndimage.distance_transform_edt(mask), ndimage.distance_transform_edt(~mask)
    out = outside / outside.max() - inside / inside.max()
    inner = mask & ~ndimage.binary_erosion(mask, border_value=1)
    out[inner] = 0
    return out


def blob(shape, seed):
    smooth = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=shape), 2)
    return smooth > np.quantile(smooth, 0.7)


@settings(max_examples=60, deadline=None)
@given(masks)
def test_distance_is_scipy_s(mask):
    found = distance_to(torch.tensor(mask)[None, None])[0, 0].numpy()
    expected = ndimage.distance_transform_edt(~mask) if mask.any() else np.full(mask.shape, np.inf)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_images_and_channels_do_not_mix_and_parts_do_not_show(monkeypatch):
    voxels = torch.rand(3, 2, 9, 6, 5, generator=torch.Generator().manual_seed(0)) < 0.02
    whole = distance_to(voxels)
    for b, c in np.ndindex(3, 2):
        torch.testing.assert_close(whole[b, c], distance_to(voxels[b : b + 1, c : c + 1])[0, 0])
    for pairs in (1, 2 * voxels.numel(), 3 * voxels.numel()):
        monkeypatch.setattr(distance, "PAIRS", pairs)
        assert torch.equal(distance_to(voxels), whole)


@pytest.mark.parametrize("shape", [(30, 23), (14, 11, 12)])
@pytest.mark.parametrize("seed", [0, 1])
def test_signed_distance_is_the_released_one(shape, seed):
    mask = blob(shape, seed)
    found = signed(mask)
    np.testing.assert_allclose(found, released(mask), atol=1e-6)
    assert found.min() == -1
    assert found.max() == 1


def test_there_is_no_distance_without_an_object_or_without_anything_else():
    mask = np.zeros((5, 6), bool)
    assert not signed(mask).any()
    assert not signed(~mask).any()
    one = mask.copy()
    one[2, 3] = True
    assert signed(one)[2, 3] == 0
    assert signed(one).max() == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000))
def test_what_lies_outside_the_image_is_not_looked_at(seed):
    generator = np.random.default_rng(seed)
    mask, valid = blob((9, 8), seed), np.ones((9, 8), bool)
    valid[:3] = False
    other = np.where(valid, mask, generator.random(mask.shape) < 0.5)
    found = signed(mask, valid)
    np.testing.assert_array_equal(found, signed(other, valid))
    np.testing.assert_allclose(found[3:], signed(mask[3:]), atol=1e-6)
    assert not found[:3].any()


@pytest.mark.parametrize("classes", [2, 4])
def test_error_is_the_mean_over_images_objects_and_valid_voxels(classes):
    generator = torch.Generator().manual_seed(classes)
    label = torch.tensor(np.stack([sum(blob((12, 10), s + 7 * k) for k in range(classes - 1)) for s in (0, 1)])).long()
    logits = torch.randn(2, classes - 1, 12, 10, generator=generator, dtype=torch.float64)
    valid = torch.ones_like(label, dtype=torch.bool)
    valid[0, :, 8:] = False
    expected = []
    for b in range(2):
        width = 8 if b == 0 else 10
        for k in range(1, classes):
            truth = signed(np.ascontiguousarray((label[b, :, :width] == k).numpy()))
            expected.append(((np.tanh(logits[b, k - 1, :, :width].numpy()) - truth) ** 2).mean())
    assert float(distance_error(distance_maps(logits), label, valid)) == pytest.approx(np.mean(expected), abs=1e-6)
