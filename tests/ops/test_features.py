"""Perturbations of features, weighted means and embeddings, and orientations of the axes."""

import numpy as np
import pytest
import torch

from coranet.ops.features import (
    class_means,
    cut_box,
    drop_active,
    drop_channels,
    perturb_levels,
    scale_noise,
    similarities,
    surest,
    weighted_mean,
)
from coranet.ops.space.orientation import ORIENTATIONS

SHAPES = {2: (8, 6), 3: (4, 8, 6)}
both_dims = pytest.mark.parametrize("dims", [2, 3])


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def feature(dims, count=3, channels=5):
    return torch.rand(count, channels, *SHAPES[dims]) + 0.5


@both_dims
def test_noise_scales_each_value_by_at_most_its_limit_and_all_images_alike(dims):
    x = feature(dims)
    ratio = scale_noise(x, 0.3) / x
    assert ((ratio - 1).abs() <= 0.3 + 1e-6).all()
    assert (ratio - 1).abs().max() > 0.2
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))


@both_dims
def test_the_most_active_places_are_dropped(dims):
    x = feature(dims)
    attention = x.mean(1, keepdim=True)
    largest = attention.flatten(1).amax(1).view(-1, *[1] * (dims + 1))
    dropped = drop_active(x)
    assert not (dropped * (attention >= 0.9 * largest)).any()
    weak = (attention < 0.6 * largest).expand_as(x)
    assert torch.equal(dropped[weak], x[weak])
    assert torch.equal(drop_active(x, 1.01, 1.01), x)


@both_dims
def test_whole_channels_are_dropped_and_the_mean_is_kept(dims):
    x = torch.ones(200, 50, *[2] * dims)
    dropped = drop_channels(x, 0.5)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(
        dropped, dropped[:, :, :1, :1].expand_as(x) if dims == 2 else dropped[:, :, :1, :1, :1].expand_as(x)
    )
    assert float(dropped.mean()) == pytest.approx(1, abs=0.05)


@both_dims
def test_a_box_is_cut_within_the_objects_bounding_box(dims):
    shape = (20, 30, 25)[:dims]
    objects = torch.zeros(50, *shape, dtype=torch.bool)
    objects[:49, 5:15, 10:20] = True
    box = cut_box(objects, 0.4)
    assert not box[49].any()
    bounds = torch.zeros_like(objects)
    bounds[:, 5:15, 10:20] = True
    assert not (box & ~bounds).any()
    # An extent of ten, or of all 25 along the third axis, by 0.4; a box between two voxels may meet one more or less.
    sides = [range(4, 6), range(4, 6), range(10, 12)][:dims]
    firsts = set()
    for one in box[:49]:
        where = np.argwhere(one.numpy())
        extent = where.max(0) - where.min(0) + 1
        assert all(abs(n - side[0]) <= 1 for n, side in zip(extent, sides, strict=True))
        assert one.sum() == extent.prod()
        firsts.add(tuple(where.min(0)))
    assert len(firsts) > 5


@pytest.mark.parametrize("kind", ["cutout", "objects", "context"])
@both_dims
def test_hidden_places_are_the_same_in_all_levels(kind, dims):
    shape = (8,) * dims
    objects = torch.zeros(2, *shape, dtype=torch.bool)
    objects[:, 2:6] = True
    fine, coarse = torch.ones(2, 3, *shape), torch.ones(2, 7, *[4] * dims)
    one, other = perturb_levels([fine, coarse], kind, objects)
    assert torch.equal(other[:, :3], one[(slice(None), slice(None), *[slice(None, None, 2)] * dims)])
    kept = one[:, 0].bool()
    if kind == "objects":
        assert torch.equal(kept, ~objects)
    elif kind == "context":
        assert torch.equal(kept, objects)
    else:
        assert (kept | objects).all()
        assert not kept.all()


def test_each_level_is_perturbed():
    levels = [feature(2), feature(2)[..., ::2, ::2]]
    for kind in ("noise", "activation", "dropout"):
        for before, after in zip(levels, perturb_levels(levels, kind, torch.ones(3, 8, 6).bool()), strict=True):
            assert after.shape == before.shape
            assert not torch.equal(after, before)


def test_weighted_mean():
    values, weights = torch.rand(2, 4, 5).double(), torch.rand(2, 4, 5).double()
    valid = torch.rand(2, 4, 5) > 0.3
    expected = np.average(values[valid].numpy(), weights=weights[valid].numpy())
    assert float(weighted_mean(values, weights, valid)) == pytest.approx(expected, abs=1e-12)
    assert float(weighted_mean(values.fill_(float("nan")), weights, torch.zeros_like(valid))) == 0


def test_the_surest_say_counts_most():
    means, spread = torch.rand(3, 2, 4, 5, 5), torch.rand(3, 2, 1, 5, 5) + 0.1
    expected = np.average(means.numpy(), axis=0, weights=(1 / (spread + 1e-6)).expand_as(means).numpy())
    np.testing.assert_allclose(surest([*zip(means, spread, strict=True)]).numpy(), expected, rtol=1e-5)
    spread[1] = 0
    torch.testing.assert_close(surest([*zip(means, spread, strict=True)]), means[1], atol=1e-4, rtol=0)


@both_dims
def test_means_of_classes_and_likeness_to_them(dims):
    x, label = feature(dims).double(), torch.randint(0, 3, (3, *SHAPES[dims]))
    valid = torch.rand(3, *SHAPES[dims]) > 0.3
    means, there = class_means(x, label, valid, 4)
    rows = x.movedim(1, -1)
    for k in range(3):
        torch.testing.assert_close(means[k], rows[valid & (label == k)].mean(0))
    assert there.flatten().tolist() == [True, True, True, False]
    assert not means[3].any()
    likeness = similarities(x, means)
    assert likeness.shape == (3, 4, *SHAPES[dims])
    unit = means[1] / means[1].norm()
    torch.testing.assert_close(likeness[:, 1], rows @ unit)
    assert not likeness[:, 3].any()


@both_dims
def test_orientations_differ_and_are_undone_to_the_bit(dims):
    x = torch.rand(2, 3, *SHAPES[dims])
    views = [side.apply(x) for side in ORIENTATIONS[dims]]
    assert torch.equal(views[0], x)
    for number, (side, view) in enumerate(zip(ORIENTATIONS[dims], views, strict=True)):
        assert torch.equal(side.undo(view), x)
        assert torch.equal(side.undo(side.apply(x[:, 0])), x[:, 0])
        assert not any(torch.equal(view, other) for other in views[:number] if view.shape == other.shape)
    turned = {2: lambda: torch.rot90(x, 1, (2, 3)), 3: lambda: x.permute(0, 1, 3, 4, 2)}
    assert torch.equal(views[1], turned[dims]())
