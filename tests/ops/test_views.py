"""Views move an image and its maps alike, and symmetries give back to the bit what they took."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from coranet.ops.space.warp import Warp
from coranet.ops.views import Symmetry, draw_symmetry, draw_warp, warped, warped_mask

SHAPES = [(6, 6), (6, 4), (5, 5, 3), (4, 6, 2)]


def images(shape: tuple[int, ...], count: int = 3, channels: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(count, channels, *shape, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(SHAPES), st.integers(0, 10**6), st.floats(0, 1), st.booleans())
def test_symmetries_are_undone_to_the_bit(shape: tuple[int, ...], seed: int, mirror: float, quarters: bool) -> None:
    image = images(shape)
    torch.manual_seed(seed)
    view = draw_symmetry(image, mirror=mirror, quarters=quarters)
    assert torch.equal(view.undo(view.apply(image)), image)
    assert torch.equal(view.apply(view.undo(image)), image)
    valid = image[:, 0] > 0
    assert torch.equal(view.undo(view.apply(valid)), valid)
    assert torch.equal(view.apply(valid), view.apply(image)[:, 0] > 0)


@pytest.mark.parametrize("shape", [(6, 6), (5, 5, 3)])
def test_a_symmetry_is_numpy_s(shape: tuple[int, ...]) -> None:
    """Every image has its own: all mirrorings of two axes with all right angles."""
    mirror = torch.tensor([(a, b, 0)[: len(shape)] for a in (0, 1) for b in (0, 1) for _ in range(4)]).bool()
    quarters = torch.arange(4).repeat(4)
    image = images(shape, count=16)
    seen = Symmetry(mirror, quarters).apply(image)
    for row in range(16):
        axes = [1 + int(axis) for axis in np.flatnonzero(mirror[row])]
        expected = np.rot90(np.flip(image[row].numpy(), axes), int(quarters[row]), (1, 2))
        np.testing.assert_array_equal(seen[row], expected)


def test_all_symmetries_are_drawn_and_no_others() -> None:
    torch.manual_seed(0)
    square, oblong, volume = (torch.zeros(400, 1, *shape) for shape in ((4, 4), (4, 6), (4, 4, 4)))
    turned = draw_symmetry(square, quarters=True)
    assert set(turned.quarters.tolist()) == {0, 1, 2, 3}
    assert 150 < int(turned.mirror[:, 0].sum()) < 250
    assert set(draw_symmetry(oblong, quarters=True).quarters.tolist()) == {0, 2}
    assert not draw_symmetry(square).quarters.any()
    assert not draw_symmetry(square, mirror=0.0).mirror.any()
    assert draw_symmetry(square, mirror=1.0).mirror.all()
    assert not draw_symmetry(volume, mirror=1.0).mirror[:, 2].any()


def test_gradients_go_through_a_symmetry() -> None:
    image = images((4, 4)).requires_grad_()
    weights = images((4, 4), seed=1)
    torch.manual_seed(3)
    view = draw_symmetry(image, quarters=True)
    (view.apply(image) * weights).sum().backward()
    assert image.grad is not None
    assert torch.equal(image.grad, view.undo(weights))


@pytest.mark.parametrize("shape", [(16, 16), (12, 9), (7, 8, 6)])
def test_a_warp_that_does_nothing_and_one_by_right_angles(shape: tuple[int, ...]) -> None:
    image = images(shape)
    still = draw_warp(image)
    torch.testing.assert_close(warped(image, still), image, atol=1e-5, rtol=0)
    assert warped_mask(torch.ones(3, *shape, dtype=torch.bool), still).all()
    if shape[0] == shape[1]:
        turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).repeat(3, 1, 1)
        seen = warped(image, Warp(turn, still.centre, still.target, shape))
        torch.testing.assert_close(seen, torch.rot90(image, -1, (2, 3)), atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([(20, 20), (20, 14), (12, 14, 6)]))
def test_a_linear_image_stays_linear_under_a_warp(seed: int, shape: tuple[int, ...]) -> None:
    """Interpolating linearly, g · o is seen as g · (A (o - c) + c), wherever only voxels of the image are read."""
    torch.manual_seed(seed)
    slope = torch.randn(len(shape))
    places = torch.stack(torch.meshgrid(*[torch.arange(float(n)) for n in shape], indexing="ij"), dim=-1)
    image = (places @ slope).expand(2, 1, *shape)
    warp = draw_warp(image, rotate=40, scale=(0.7, 1.5))
    inside = warped_mask(torch.ones(2, *shape, dtype=torch.bool), warp)
    expected = warp.points() @ slope
    torch.testing.assert_close(warped(image, warp)[:, 0][inside], expected[inside], atol=1e-3, rtol=1e-4)
    depth = torch.minimum(warp.points(), torch.tensor(shape) - 1 - warp.points()).amin(dim=-1)
    assert inside[depth > 0].all()
    assert not inside[depth < -1e-3].any()


def test_warps_turn_and_scale_within_their_bounds() -> None:
    torch.manual_seed(0)
    matrix = draw_warp(torch.zeros(500, 1, 4, 4, 4), rotate=30, scale=(0.8, 1.25)).matrix
    size = torch.linalg.det(matrix[:, :2, :2]).rsqrt()
    angle = torch.rad2deg(torch.atan2(matrix[:, 1, 0], matrix[:, 0, 0]))
    for values, low, high in ((size, 0.8, 1.25), (angle, -30, 30)):
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < values.max() <= high + 1e-4
    torch.testing.assert_close(matrix[:, 2], torch.tensor([0.0, 0, 1]).expand(500, -1))
    torch.testing.assert_close(matrix[:, :, 2], torch.tensor([0.0, 0, 1]).expand(500, -1))


def test_a_mask_leaves_out_what_is_read_from_outside_it() -> None:
    """A change of the image outside the mask changes no voxel that the mask still holds after the warp."""
    torch.manual_seed(1)
    image, mask = images((14, 14), count=8), torch.rand(8, 14, 14) < 0.9
    warp = draw_warp(image, rotate=45, scale=(0.6, 1.6))
    changed = torch.where(mask.unsqueeze(1), image, image + 5)
    kept = warped_mask(mask, warp)
    assert kept.any()
    assert not kept.all()
    difference = (warped(image, warp) - warped(changed, warp)).abs().amax(dim=1)
    assert difference[kept].max() < 1e-2
    assert difference[~kept].max() > 1


def test_autocast_does_not_blur_the_grid() -> None:
    torch.manual_seed(0)
    image = images((64, 64))
    warp = draw_warp(image, rotate=20, scale=(0.8, 1.2))
    expected = warped(image, warp)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(warped(image, warp), expected)
        assert warped(image.bfloat16(), warp).dtype == torch.float32
