"""Perturbations stay within what they promise, and come from the seed alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from coranet.ops.perturb import gaussian_noise, intensity_view

Perturb = Callable[[Tensor], Tensor]
EACH: list[Perturb] = [partial(gaussian_noise, sigma=0.3), partial(intensity_view, strength=0.5)]


def images(count: int, *shape: int) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("perturb", EACH)
@pytest.mark.parametrize("shape", [(1, 6, 5), (3, 4, 5, 6)])
def test_the_seed_decides_and_the_input_stays(perturb: Perturb, shape: tuple[int, ...]) -> None:
    image = images(2, *shape)
    seen = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        seen.append(perturb(image))
    assert seen[0].shape == image.shape
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    assert torch.equal(image, images(2, *shape))


def test_noise_is_gaussian_and_clipped_at_two_deviations() -> None:
    torch.manual_seed(0)
    noise = gaussian_noise(torch.zeros(1, 1, 400, 400), 0.1)
    assert noise.abs().max() <= 0.2 + 1e-7
    assert noise.mean().abs() < 0.001
    inner = 0.6827  # of a normal distribution within one deviation
    assert float((noise.abs() < 0.1).float().mean()) == pytest.approx(inner, abs=0.01)
    assert float((noise.abs() > 0.2 - 1e-6).float().mean()) == pytest.approx(0.0455, abs=0.005)
    image = images(1, 1, 8, 8)
    assert torch.equal(gaussian_noise(image, 0.0), image)


def test_a_view_has_one_contrast_and_brightness_an_image() -> None:
    """A line through each image's pixels, before and after, gives back c, b and the deviation of n."""
    torch.manual_seed(0)
    strength, image = 0.4, images(600, 1, 24, 24)
    x, y = image.flatten(1).double(), intensity_view(image, strength).flatten(1).double()
    centred = x - x.mean(dim=1, keepdim=True)
    contrast = (centred * y).sum(dim=1) / centred.square().sum(dim=1)
    brightness = y.mean(dim=1) - contrast * x.mean(dim=1)
    noise = (y - contrast[:, None] * x - brightness[:, None]).std(dim=1)
    for values, low, high in (
        (contrast.log(), -strength, strength),
        (brightness, -strength, strength),
        (noise, 0, 0.3 * strength),
    ):
        room = 0.06 * (high - low)
        assert low - room <= values.min() < low + room
        assert high - room < values.max() <= high + room
        assert float(values.mean()) == pytest.approx((low + high) / 2, abs=room)
    pairs = torch.corrcoef(torch.stack([contrast.log(), brightness, noise]))
    assert (pairs - torch.eye(3)).abs().max() < 0.15


def test_a_view_of_no_strength_is_the_image() -> None:
    image = images(2, 2, 5, 5)
    torch.testing.assert_close(intensity_view(image, 0.0), image)
