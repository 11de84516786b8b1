"""Perturbations stay within what they promise, and come from the seed alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from coranet.data.prepare.intensity import spread
from coranet.data.prepare.preparation import Preparation
from coranet.methods import METHODS, Method
from coranet.methods.temporal_ensembling import TemporalEnsembling
from coranet.ops.perturbation import gaussian_noise, intensity_view
from coranet.types import Batch
from tests.tiny import at, batch, make_net

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


MEASURED_IN_UNITS = (
    "mean_teacher",
    "pi_model",
    "temporal_ensembling",
    "ua_mt",
    "tcsm",
    "perturbation_mining",
    "fixmatch",
    "unimatch",
    "mixmatch",
    "coranet:repaired",
    "coranet:plus",
)


def shown(method: Method, unit: float) -> list[Tensor]:
    """All that the networks are shown in a step, of images that spread by so much."""
    torch.manual_seed(0)
    nets, seen = method.nets(make_net(2, 2)), list[Tensor]()
    for net in nets.values():
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d) and layer.in_channels == 1:
                layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach().clone()))
    last = method.phases[-1].name
    one = batch(maps=("ensemble",) if isinstance(method, TemporalEnsembling) else ("label", "certain"))
    scaled = Batch(
        labelled=replace(one.labelled, image=one.labelled.image * unit, unit=unit),
        unlabelled=replace(one.unlabelled, image=one.unlabelled.image * unit, unit=unit),
    )
    torch.manual_seed(1)
    for update in method.objectives(last):
        update.loss(nets, scaled, at(last))
    return seen


@pytest.mark.parametrize("name", MEASURED_IN_UNITS)
def test_methods_change_images_by_as_much_as_scans_spread(name: str) -> None:
    """Scans in [0, 1] under noise that is meant for unit variance are hardly seen: Sunnybrook's rows fell to nothing."""
    method = METHODS[name]()
    plain, small = shown(method, 1.0), shown(method, 0.125)
    assert len(plain) == len(small) > 1
    for one, other in zip(plain, small, strict=True):
        torch.testing.assert_close(other, one * 0.125)
    assert any(not torch.equal(one, plain[0]) for one in plain)


def test_the_adversarial_direction_is_as_long_as_scans_spread() -> None:
    lengths = []
    for unit in (1.0, 0.125):
        seen = shown(METHODS["vat"](), unit)
        lengths.append((seen[-1] - seen[1]).flatten(1).norm(dim=1) / unit)
    torch.testing.assert_close(lengths[0], lengths[1])


def test_a_spread_is_that_of_normalised_scans() -> None:
    scans = [np.random.default_rng(seed).random((1, 8, 8, 8), np.float32) for seed in range(3)]
    assert spread(scans, Preparation(intensity="minmax")) == pytest.approx(1 / 12**0.5, rel=0.1)
    assert spread(scans, Preparation(intensity="zscore")) == 1
    assert spread([np.zeros((1, 4, 4, 4), np.float32)], Preparation(intensity="minmax")) == 1
    assert spread([], Preparation(intensity="minmax")) == 1
    calm, wild = np.full((1, 4, 4, 4), 0.5, np.float32), scans[0]
    patients = [*[calm] * 40, *[wild] * 40]  # slices of one patient come before those of the next
    assert spread(patients, Preparation(intensity="minmax")) == pytest.approx(wild.std() / 2, rel=0.1)
    both = [np.concatenate([scan, scan]) for scan in scans]
    mixed = spread(both, Preparation(intensities=("zscore", "minmax")))
    assert mixed == pytest.approx((1 + spread(scans, Preparation(intensity="minmax"))) / 2)
