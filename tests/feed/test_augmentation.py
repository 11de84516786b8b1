"""Views are drawn within what is asked for, from their generator alone, and one setting at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from coranet.errors import InputError
from coranet.feed.augmentation import Augment
from coranet.ops.space.warp import Warp, sample_image, sample_maps


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def scales_and_angles(warp: Warp) -> tuple[Tensor, Tensor, Tensor]:
    """Magnification, degrees and mirrored axes of the plane; from A = R F / s with F diagonal, signs."""
    plane = warp.matrix[:, :2, :2].double()
    scale = plane.det().abs().rsqrt()
    upright = plane * scale[:, None, None]
    signs = torch.diagonal(upright, dim1=1, dim2=2).sign()  # within 90 degrees R has a positive diagonal
    turn = upright * signs[:, None]
    return scale, torch.rad2deg(torch.atan2(turn[:, 1, 0], turn[:, 0, 0])), signs < 0


def corners(warp: Warp) -> Tensor:
    return warp.target - warp.centre


SIZES = torch.tensor([[40, 20, 9]] * 4000)
WINDOW = (32, 32, 9)


@pytest.mark.parametrize("dims", [2, 3])
def test_draws_fill_the_stated_ranges(dims: int) -> None:
    warp = Augment(rotate=20, scale=(0.5, 2.0)).draw(SIZES[:, :dims], WINDOW[:dims], generator(0))
    scale, angle, mirrored = scales_and_angles(warp)
    assert 0.5 <= scale.min() < 0.51
    assert 1.98 < scale.max() <= 2.0 + 1e-6
    assert scale.log().mean().abs() < 0.03  # evenly on a logarithmic scale: as often smaller as larger
    assert angle.abs().max() <= 20 + 1e-4
    assert -20 <= angle.min() < -19.8 < 19.8 < angle.max()
    assert (mirrored.double().mean(dim=0) - 0.5).abs().max() < 0.03
    places = corners(warp)
    assert torch.equal(places, places.round())
    assert set(places[:, 0].tolist()) == set(range(9))
    assert set(places[:, 1].tolist()) == set(range(-12, 1))  # a window larger than the image holds all of it
    if dims == 3:
        through = torch.zeros(3).index_fill(0, torch.tensor(2), 1)
        assert (warp.matrix[:, 2] == through).all()
        assert (warp.matrix[:, :, 2] == through).all()
        assert not places[:, 2].any()


def test_magnifying_makes_things_larger() -> None:
    augment = Augment(rotate=0, scale=(2, 2), flip=False, crop=False)
    warp = augment.draw(torch.tensor([[64, 48]]), (64, 48), generator(0))
    square = torch.zeros(1, 1, 64, 48, dtype=torch.uint8)
    square[..., 27:37, 19:29] = 1
    seen = sample_maps(square, warp.points(), torch.tensor([[64, 48]]), torch.zeros(1, 2))
    assert seen.sum() == 4 * square.sum()


def test_a_draw_is_a_pure_function_of_its_generator() -> None:
    before = torch.get_rng_state()
    one, same, other = (Augment().draw(SIZES, WINDOW, generator(seed)) for seed in (7, 7, 8))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.matrix, same.matrix)
    assert torch.equal(one.target, same.target)
    assert not torch.equal(one.matrix, other.matrix)
    assert not torch.equal(one.target, other.target)


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        (Augment(rotate=0), "scale flip crop"),
        (Augment(scale=(1, 1)), "angle flip crop"),
        (Augment(flip=False), "scale angle crop"),
        (Augment(crop=False), "scale angle flip"),
        (Augment(share=0.3), "flip crop"),
    ],
)
def test_one_setting_does_not_shift_the_draws_of_another(changed: Augment, kept: str) -> None:
    parts = []
    for augment in (Augment(), changed):
        warp = augment.draw(SIZES, WINDOW, generator(3))
        parts.append(dict(zip(("scale", "angle", "flip"), scales_and_angles(warp), strict=True), crop=corners(warp)))
    for name in ("scale", "angle", "flip", "crop"):
        same = torch.allclose(parts[0][name].double(), parts[1][name].double(), atol=1e-4)
        assert same == (name in kept.split())


def test_a_share_of_views_is_turned_and_scaled() -> None:
    whole, some = (Augment(share=share, flip=False).draw(SIZES, WINDOW, generator(5)) for share in (1.0, 0.3))
    plain = (some.matrix == torch.eye(3)).flatten(1).all(dim=1)
    assert float((~plain).float().mean()) == pytest.approx(0.3, abs=0.03)
    assert torch.equal(some.matrix[~plain], whole.matrix[~plain])


@pytest.mark.parametrize("window", [(32, 32), (33, 31), (64, 9)])
@pytest.mark.parametrize("size", [(32, 32), (41, 30), (20, 57)])
def test_without_crop_the_window_looks_at_the_middle(window: tuple[int, int], size: tuple[int, int]) -> None:
    warp = Augment(crop=False).draw(torch.tensor([size]), window, generator(0))
    expected = [(n - w) // 2 for n, w in zip(size, window, strict=True)]
    assert corners(warp)[0].tolist() == expected
    assert (warp.target[0] - (torch.tensor(size) - 1) / 2).abs().max() <= 0.5


@pytest.mark.parametrize("scale", [(2.0, 0.5), (0.0, 1.0), (-1.0, 1.0)])
def test_an_impossible_scale_is_refused(scale: tuple[float, float]) -> None:
    with pytest.raises(InputError, match=r"augment\.scale"):
        Augment(scale=scale)


def test_quarter_turns_are_exact_and_come_in_all_four_kinds() -> None:
    warp = Augment(rotate=0, scale=(1, 1), flip=False, turns=True).draw(
        torch.tensor([[16, 16, 5]] * 40), (16, 16, 5), generator(0)
    )
    image = torch.randn(1, 1, 16, 16, 5, generator=generator(1))
    boxes, sizes = image.expand(40, -1, -1, -1, -1), torch.tensor([[16, 16, 5]] * 40)
    seen = sample_image(boxes, warp.points(), sizes, torch.zeros(40, 3))
    found = set()
    for view in seen:
        kinds = [k for k in range(4) if torch.allclose(view, image[0].rot90(k, (1, 2)), atol=1e-4)]
        assert len(kinds) == 1
        found |= set(kinds)
    assert found == {0, 1, 2, 3}


def test_a_share_of_the_area_is_shown_whole() -> None:
    """Crops of 85 to 95 % of an image, stretched to the window: nothing beyond the image is seen, and every place occurs."""
    sizes, window = torch.tensor([[40, 20]] * 4000), (32, 32)
    warp = Augment(rotate=0, scale=(1, 1), flip=False, area=(0.85, 0.95)).draw(sizes, window, generator(0))
    shown = torch.diagonal(warp.matrix, dim1=1, dim2=2) * torch.tensor(window)
    share = shown.prod(dim=1) / 800
    assert 0.85 <= share.min() < 0.851
    assert 0.949 < share.max() <= 0.9501
    torch.testing.assert_close(shown[:, 0] / 40, shown[:, 1] / 20)
    low, high = warp.target - shown / 2 + 0.5, warp.target + shown / 2 + 0.5
    assert low.min() >= -1e-4
    assert (high <= sizes + 1e-4).all()
    assert (low[:, 0] / (40 - shown[:, 0])).quantile(0.9) > 0.8
    with pytest.raises(InputError, match=r"augment\.area goes from small to large"):
        Augment(area=(0.9, 1.1))


def test_shown_areas_leave_a_third_axis_alone() -> None:
    plain, cut = (
        Augment(rotate=0, scale=(1, 1), area=area).draw(SIZES, WINDOW, generator(1)) for area in (None, (0.5, 0.9))
    )
    assert torch.equal(plain.target[:, 2], cut.target[:, 2])
    assert torch.equal(plain.matrix[:, 2], cut.matrix[:, 2])


def test_some_views_stay_upright_and_nothing_else_changes() -> None:
    sizes, window = torch.full((4000, 2), 40), (16, 16)
    fields = {"rotate": 0.0, "scale": (1.0, 1.0), "flip": True, "turns": True}
    every = Augment(**fields).draw(sizes, window, generator(3))
    half = Augment(**fields, upright=0.5).draw(sizes, window, generator(3))
    still = (half.matrix == torch.eye(2)).all(dim=(1, 2))
    changed = (every.matrix != half.matrix).any(dim=(1, 2))
    assert 0.53 < still.float().mean() < 0.60  # a half, and one in eight of the others: two ways to stand upright of 16
    assert still[changed].all()
    assert torch.equal(every.target, half.target)
