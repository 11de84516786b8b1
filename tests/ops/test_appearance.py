"""Looks are drawn within what is asked for; each change is what its formula says, and an image left alone stays so."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter1d
from torch import Tensor

from coranet.errors import InputError
from coranet.feed.augmentation import Augment
from coranet.feed.batches import Batches
from coranet.feed.pools import Pool
from coranet.feed.windows import Slices
from coranet.ops.appearance import Appearance, Look, changed_look

CHANCES = ("contrast", "brightness", "gamma", "blur", "resolution", "noise", "bias")
NEVER = Appearance(**dict.fromkeys(CHANCES, 0.0))
SHAPES = {2: (24, 20), 3: (12, 10, 14)}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(dims: int, count: int = 3, channels: int = 2) -> Tensor:
    return torch.randn(count, channels, *SHAPES[dims], generator=seeded(7)) * 2 - 0.5


def seen(image: Tensor, appearance: Appearance, unit: float = 1.0, seed: int = 0) -> tuple[Tensor, Look]:
    look = appearance.draw(len(image), image.ndim - 2, seeded(seed))
    return changed_look(image, look, seeded(seed + 1), unit), look


def always(*names: str) -> Appearance:
    return replace(NEVER, **dict.fromkeys(names, 1.0))


@pytest.mark.parametrize("dims", [2, 3])
def test_what_nothing_is_drawn_for_stays_to_the_bit(dims: int) -> None:
    image = images(dims)
    changed, look = seen(image, NEVER)
    assert torch.equal(changed, image)
    neutral = changed_look(image, look._replace(changed=torch.ones(len(image))), seeded())
    torch.testing.assert_close(neutral, image, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", CHANCES)
def test_each_change_is_made_as_often_as_asked_and_shifts_no_other(name: str) -> None:
    count = 4000
    alone = replace(NEVER, **{name: 0.25}).draw(count, 2, seeded())
    beside = replace(Appearance(), **{name: 0.25}).draw(count, 2, seeded())
    values, neutral = getattr(alone, name), getattr(NEVER.draw(count, 2, seeded()), name)
    made = (values != neutral).flatten(1).any(dim=1) if values.ndim > 1 else values != neutral
    assert float(made.float().mean()) == pytest.approx(0.25, abs=0.03)
    assert torch.equal(alone.changed > 0, made)
    assert torch.equal(values, getattr(beside, name))


def test_draws_fill_the_stated_ranges() -> None:
    look = always(*CHANCES).draw(4000, 2, seeded())
    for name, low, high in (
        ("contrast", 0.75, 1.25),
        ("brightness", -0.25, 0.25),
        ("gamma", 0.7, 1.5),
        ("blur", 0.5, 1.0),
        ("resolution", 0.5, 1.0),
        ("noise", 0.0, 0.3),
    ):
        values, room = getattr(look, name), 0.01 * (high - low)
        assert low - 1e-6 <= values.min() < low + room
        assert high - room < values.max() <= high + 1e-6
    assert float(look.bias.std()) == pytest.approx(0.3 * (15 / 16) ** 0.5, rel=0.02)
    assert look.bias.flatten(1).mean(dim=1).abs().max() < 1e-6


@pytest.mark.parametrize("dims", [2, 3])
def test_contrast_and_brightness_are_a_line_about_the_mean_in_units(dims: int) -> None:
    image = images(dims)
    changed, look = seen(image, always("contrast", "brightness"), unit=0.5)
    x = image.double().flatten(2)
    mean = x.mean(dim=2, keepdim=True)
    expected = mean + look.contrast.view(-1, 1, 1) * (x - mean) + 0.5 * look.brightness.view(-1, 1, 1)
    torch.testing.assert_close(changed.double().flatten(2), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dims", [2, 3])
def test_gamma_bends_within_the_range_and_keeps_mean_spread_and_order(dims: int) -> None:
    image = images(dims)
    changed, look = seen(image, always("gamma"))
    for one, other, gamma in zip(image.flatten(2), changed.flatten(2), look.gamma.double(), strict=True):
        for before, after in zip(one.double(), other.double(), strict=True):
            curve = ((before - before.min()) / (before.max() - before.min())) ** gamma
            expected = (curve - curve.mean()) / curve.std(correction=0) * before.std(correction=0) + before.mean()
            torch.testing.assert_close(after, expected, atol=1e-5, rtol=1e-4)
            assert torch.equal(before.argsort(), after.argsort())
    assert torch.isfinite(
        changed_look(torch.full((3, 1, 8, 8), -4.0), always("gamma").draw(3, 2, seeded()), seeded())
    ).all()


def test_noise_has_its_deviation_in_units() -> None:
    image = torch.zeros(4, 1, 200, 200)
    changed, look = seen(image, always("noise"), unit=0.125)
    torch.testing.assert_close(changed.flatten(1).std(dim=1), 0.125 * look.noise, atol=1e-4, rtol=0.02)
    again, _ = seen(image, always("noise"), unit=0.125)
    assert torch.equal(changed, again)


@pytest.mark.parametrize("dims", [2, 3])
def test_blur_is_a_gaussian(dims: int) -> None:
    image = images(dims)
    changed, look = seen(image, always("blur"))
    inner = (slice(None), *[slice(5, -5)] * dims) if dims == 2 else (slice(None), *[slice(4, -4)] * dims)
    for one, other, sigma in zip(image.double().numpy(), changed.numpy(), look.blur.tolist(), strict=True):
        for axis in range(1, one.ndim):
            one = gaussian_filter1d(one, sigma, axis=axis, mode="nearest", truncate=4)
        np.testing.assert_allclose(other[inner], one[inner], atol=2e-3)


@pytest.mark.parametrize("dims", [2, 3])
def test_a_low_resolution_keeps_fewer_voxels_and_lines(dims: int) -> None:
    appearance = replace(always("resolution"), resolutions=(0.5, 0.5))
    shape = SHAPES[dims]
    line = torch.arange(shape[0]).view(-1, *[1] * (dims - 1)).expand(shape).float()
    changed, _ = seen(line[None, None].clone(), appearance)
    assert (changed[0, 0] - line)[2:-2].abs().max() <= 0.75
    rough, _ = seen(images(dims, 1, 1), appearance)
    kept = np.linalg.matrix_rank(rough[0, 0].flatten(1).double().numpy(), tol=1e-4)
    assert kept <= shape[0] // 2 + 1


@pytest.mark.parametrize("dims", [2, 3])
def test_a_bias_field_is_smooth_and_multiplies(dims: int) -> None:
    image = torch.zeros(2, 1, *[48] * dims)
    image[..., 0] = -1.0  # the darkest value is where the field begins to count
    changed, _ = seen(image, always("bias"))
    # Mean and spread come back to what the shaded image has: no change of tone was drawn.
    ratio = (changed + 1)[..., 1:]
    assert (ratio > 0.2).all()
    assert ratio.std() > 0.02
    assert ratio.diff(dim=2).abs().max() < 0.15
    torch.testing.assert_close(changed[..., 0], image[..., 0], atol=1e-5, rtol=0)


def pool(labelled: bool) -> Pool:
    generator = seeded(3)
    pictures = tuple(torch.randn(1, 16, 16, generator=generator) for _ in range(6))
    labels = tuple(torch.randint(2, (16, 16), generator=generator, dtype=torch.uint8) for _ in range(6))
    return Pool(pictures, labels if labelled else None, tuple(map(str, range(6))))


def batches(augment: Augment) -> Batches:
    window = Slices(size=(16, 16))
    return Batches(pool(True), pool(False), window=window, augment=augment, sizes=(4, 4), seed=5)


def test_batches_change_the_images_asked_for_and_nothing_else() -> None:
    plain = batches(Augment()).at(3)
    for of in ("both", "labelled", "unlabelled"):
        made = batches(Augment(appearance=always("contrast"), appearance_of=of))
        batch, again = made.at(3), made.at(3)
        assert torch.equal(batch.labelled.image, again.labelled.image)
        assert torch.equal(batch.labelled.image, plain.labelled.image) == (of == "unlabelled")
        assert torch.equal(batch.unlabelled.image, plain.unlabelled.image) == (of == "labelled")
        assert torch.equal(batch.labelled.label, plain.labelled.label)
        assert torch.equal(batch.labelled.valid, plain.labelled.valid)


def test_what_cannot_be_is_refused() -> None:
    for wrong in ({"noise": 1.5}, {"gammas": (2.0, 1.0)}, {"resolutions": (0.5, 2.0)}, {"shift": -1.0}):
        with pytest.raises(InputError):
            Appearance(**wrong)
    assert {f.name for f in fields(Appearance)} >= set(CHANCES)
