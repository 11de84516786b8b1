"""Windows are bent smoothly, never folded, and back again; image and label through the same points."""

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline

from coranet.errors import InputError
from coranet.feed.augmentation import Augment
from coranet.ops.space.elastic import KNOTS, displacement, knot_distance, settled
from coranet.ops.space.warp import inside, sample_image, sample_maps

SHAPES = {2: (40, 33), 3: (20, 17, 12)}


def drawn(dims, bend=0.3, count=3, seed=0, sizes=None):
    augment = Augment(rotate=10, scale=(0.9, 1.1), flip=False, elastic=1.0, bend=bend)
    sizes = torch.tensor([sizes or SHAPES[dims]] * count)
    return augment.draw(sizes, SHAPES[dims], torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dims", [2, 3])
def test_displacements_are_those_of_a_cubic_spline(dims):
    shape = SHAPES[dims]
    knots = torch.randn(2, dims, *[KNOTS] * dims, generator=torch.Generator().manual_seed(0))
    expected = knots.double().numpy()
    for axis, length in enumerate(shape, start=2):
        spline = BSpline(np.arange(-2, KNOTS + 2), np.moveaxis(expected, axis, 0), 3)
        expected = np.moveaxis(spline(np.arange(length) / knot_distance(length) + 1), 0, axis)
    np.testing.assert_allclose(displacement(knots, shape), expected, atol=1e-5)


@pytest.mark.parametrize("dims", [2, 3])
def test_nothing_folds_and_every_point_finds_its_way_back(dims):
    warp = drawn(dims, bend=0.39, count=8)
    moved = displacement(warp.knots, warp.shape)
    slopes = torch.stack(torch.gradient(moved, dim=tuple(range(2, 2 + dims))), dim=2)
    jacobian = slopes.movedim((1, 2), (-2, -1)) + torch.eye(dims)
    assert torch.linalg.det(jacobian).min() > 0
    assert moved.abs().max() > 1
    axes = torch.meshgrid(*(torch.arange(float(n)) for n in warp.shape), indexing="ij")
    grid = torch.stack(axes, dim=-1).expand(8, *warp.shape, dims)
    core = (slice(None), *[slice(4, -4)] * dims)
    back = settled(grid + moved.movedim(1, -1), moved, rounds=60)
    assert (back - grid)[core].abs().max() < 0.02


@pytest.mark.parametrize("dims", [2, 3])
def test_a_label_is_bent_like_its_image(dims):
    warp = drawn(dims)
    axes = torch.meshgrid(*(torch.arange(float(n)) - (n - 1) / 2 for n in warp.shape), indexing="ij")
    radius = torch.stack(axes).square().sum(dim=0).sqrt().expand(3, 1, *warp.shape)
    sizes, lows, points = torch.tensor([warp.shape] * 3), torch.zeros(3, dims), warp.points()
    image = sample_image(radius, points, sizes, lows)[:, 0]
    label = sample_maps((radius < 5).to(torch.uint8), points, sizes, lows)[:, 0]
    assert label.any()
    seen = inside(points, sizes) & ((image - 5).abs() > 1)
    assert torch.equal((image < 5)[seen], (label == 1)[seen])


def test_a_box_holds_all_that_a_bent_window_reads():
    warp = drawn(2, bend=0.39, count=20, sizes=(90, 80))
    lows, shape = warp.reach(torch.tensor([[90, 80]] * 20))
    within = torch.minimum(warp.points().flatten(1, 2).clamp(min=0), torch.tensor([89.0, 79.0]))
    points = within - lows.unsqueeze(1)
    assert points.amin() >= 0
    assert (points <= torch.tensor(shape) - 1).all()
    assert not warp.upright


def test_some_views_are_bent_and_other_draws_stay_as_they_are():
    sizes = torch.tensor([[60, 60]] * 400)
    plain, some = (
        Augment(elastic=chance).draw(sizes, (32, 32), torch.Generator().manual_seed(1)) for chance in (0.0, 0.4)
    )
    assert plain.knots is None
    assert torch.equal(plain.matrix, some.matrix)
    assert torch.equal(plain.target, some.target)
    assert some.knots.flatten(1).any(dim=1).float().mean() == pytest.approx(0.4, abs=0.06)
    assert some.knots.abs().max() <= 0.25 * knot_distance(32)
    for wrong in ({"elastic": 1.2}, {"bend": 0.4}):
        with pytest.raises(InputError, match=r"below 0\.4"):
            Augment(**wrong)
