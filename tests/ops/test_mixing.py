"""Boxes, mixtures, components and strong views: against numpy and scipy, and against what they promise."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.ndimage
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coranet.ops import mixing
from coranet.ops.components import component_numbers, largest_components
from coranet.ops.losses import cross_entropy, one_hot, soft_dice
from coranet.ops.passes import guess
from coranet.ops.perturbation import gaussian_blur, strong_view
from coranet.types import Sample
from tests import oracles, tiny

CPU = torch.device("cpu")
draws = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 10_000)
shapes = st.sampled_from([(7, 9), (4, 5, 6)])


def extents(boxes):
    """`(B, D)` side lengths of boxes, which fill them wholly."""
    sides = []
    for box in boxes.numpy():
        places = np.argwhere(box)
        length = places.max(axis=0) - places.min(axis=0) + 1 if len(places) else np.zeros(box.ndim, int)
        assert len(places) == length.prod()
        sides.append(length)
    return np.stack(sides)


@draws
@given(seeds, shapes, st.floats(0.05, 1.0))
def test_boxes_have_their_sides_and_lie_inside(seed, shape, side):
    torch.manual_seed(seed)
    boxes = mixing.placed_boxes(torch.full((5, len(shape)), side), shape)
    assert boxes.shape == (5, *shape)
    expected = [max(1, int(np.round(np.float32(side) * n))) for n in shape]
    np.testing.assert_array_equal(extents(boxes), np.tile(expected, (5, 1)))


def test_every_place_is_equally_likely():
    torch.manual_seed(0)
    boxes = mixing.placed_boxes(torch.full((6000, 1), 0.6), (5,))
    first = boxes.int().argmax(dim=1).bincount(minlength=3).numpy() / 6000
    np.testing.assert_allclose(first, [1 / 3] * 3, atol=0.03)


@pytest.mark.parametrize("shape", [(60, 40), (20, 24, 16)])
def test_cutmix_boxes_hold_their_share(shape):
    torch.manual_seed(0)
    boxes = mixing.cutmix_boxes(800, shape, CPU, chance=0.5)
    there = boxes.flatten(1).any(dim=1)
    assert float(there.float().mean()) == pytest.approx(0.5, abs=0.06)
    share = boxes[there].flatten(1).float().mean(dim=1)
    assert 0.01 < float(share.min()) < 0.06
    assert 0.36 < float(share.max()) < 0.44
    assert float(share.mean()) == pytest.approx(0.21, abs=0.02)
    sides = extents(boxes[there]) / np.array(shape)
    ratio = sides.max(axis=1) / sides.min(axis=1)
    assert 2 < ratio.max() < 1 / 0.3 * 1.35  # sides are whole voxels
    assert not mixing.cutmix_boxes(50, shape, CPU, chance=0.0).any()
    torch.manual_seed(1)
    one = mixing.cutmix_boxes(4, shape, CPU)
    torch.manual_seed(1)
    assert torch.equal(one, mixing.cutmix_boxes(4, shape, CPU))


@draws
@given(seeds, shapes)
def test_cutmix_treats_an_image_and_its_label_alike(seed, shape):
    torch.manual_seed(seed)
    image, boxes = torch.randn(3, 2, *shape), mixing.cutmix_boxes(3, shape, CPU)
    mixed = mixing.cutmixed(image, boxes)
    assert torch.equal(mixing.cutmixed((image > 0)[:, 0], boxes), (mixed > 0)[:, 0])
    for number, (mine, before) in enumerate(zip(image, image[[2, 0, 1]], strict=True)):
        inside = boxes[number]
        assert torch.equal(mixed[number][:, inside], before[:, inside])
        assert torch.equal(mixed[number][:, ~inside], mine[:, ~inside])


def sampled(count, shape, seed):
    image = torch.randn(count, 1, *shape, generator=torch.Generator().manual_seed(seed))
    return Sample(image=image, valid=image[:, 0] > -1, label=(image[:, 0] > 0).long())


@pytest.mark.parametrize("counts", [(2, 2), (1, 3), (3, 2)])
@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 5)])
def test_copy_paste_keeps_image_label_and_validity_together(counts, shape):
    torch.manual_seed(0)
    onto, piece = sampled(counts[0], shape, 1), sampled(counts[1], shape, 2)
    box = mixing.placed_boxes(torch.full((1, len(shape)), 0.6), shape)
    mixed = mixing.copy_paste(replace(onto, unit=0.2), piece, box)
    assert mixed.unit == 0.2
    assert len(mixed.image) == max(counts)
    assert torch.equal(mixed.label, (mixed.image[:, 0] > 0).long())
    assert torch.equal(mixed.valid, mixed.image[:, 0] > -1)
    for number, image in enumerate(mixed.image):
        assert torch.equal(image[:, box[0]], piece.image[number % counts[1]][:, box[0]])
        assert torch.equal(image[:, ~box[0]], onto.image[number % counts[0]][:, ~box[0]])


@pytest.mark.parametrize(("count", "first", "last"), [(4, [0, 1], [2, 3]), (3, [0, 1], [1, 2]), (1, [0], [0])])
def test_halves(count, first, last):
    whole = replace(sampled(count, (3, 3), 0), unit=0.2)
    for half, rows in zip(mixing.halves(whole), (first, last), strict=True):
        assert half.unit == whole.unit
        assert all(torch.equal(getattr(half, name), getattr(whole, name)[rows]) for name in ("image", "valid", "label"))


def test_mixup():
    torch.manual_seed(0)
    shares = mixing.mixup_shares(20_000, 0.75, CPU)
    reference = np.random.default_rng(0).beta(0.75, 0.75, 20_000)
    reference = np.maximum(reference, 1 - reference)
    quantiles = np.linspace(0.05, 0.95, 10)
    np.testing.assert_allclose(np.quantile(shares, quantiles), np.quantile(reference, quantiles), atol=0.015)
    a, b = torch.randn(2, 3, 1, 4, 4)
    mixed = mixing.mixed_up(a, b, torch.tensor([1.0, 0.5, 0.75]))
    torch.testing.assert_close(mixed, torch.stack([a[0], (a[1] + b[1]) / 2, 0.75 * a[2] + 0.25 * b[2]]))


@draws
@given(seeds, st.integers(2, 4), st.sampled_from([0.1, 0.5, 1.0]))
def test_sharpening(seed, classes, temperature):
    p = oracles.softmax(np.random.default_rng(seed).normal(size=(2, classes, 12)) * 2)
    powers = p ** (1 / temperature)
    expected = powers / powers.sum(axis=1, keepdims=True)
    ours = mixing.sharpen(torch.from_numpy(p).view(2, classes, 3, 4), temperature)
    np.testing.assert_allclose(ours.flatten(2), expected, atol=1e-12)
    assert (ours.amax(dim=1).flatten(1).numpy() >= p.max(axis=1) - 1e-12).all()


@draws
@given(seeds, st.integers(2, 4))
def test_losses_to_mixed_labels(seed, classes):
    rng = np.random.default_rng(seed)
    logits, label = rng.normal(size=(2, classes, 12)) * 2, rng.integers(0, classes, (2, 12))
    other, share, mask = rng.integers(0, classes, (2, 12)), 0.7, rng.random((2, 12)) < 0.7
    hard = [one_hot(torch.from_numpy(x), classes).double() for x in (label, other)]
    soft = share * hard[0] + (1 - share) * hard[1]
    t = torch.from_numpy(logits)
    expected = share * oracles.cross_entropy(logits, label) + (1 - share) * oracles.cross_entropy(logits, other)
    np.testing.assert_allclose(mixing.soft_cross_entropy(t, soft), expected, atol=1e-9)
    torch.testing.assert_close(mixing.soft_cross_entropy(t, hard[0]), cross_entropy(t, torch.from_numpy(label)))
    p, m = torch.softmax(t, dim=1), torch.from_numpy(mask)
    torch.testing.assert_close(mixing.mixed_dice(p, hard[0], m), soft_dice(p, torch.from_numpy(label), m))
    q, scores = soft.numpy() * mask[:, None], []
    for k in range(classes):
        mine = p.numpy()[:, k] * mask
        scores.append((2 * (mine * q[:, k]).sum() + 1e-5) / ((mine**2).sum() + (q[:, k] ** 2).sum() + 1e-5))
    assert float(mixing.mixed_dice(p, soft, m)) == pytest.approx(1 - np.mean(scores), abs=1e-9)


def touching(mask):
    return scipy.ndimage.label(mask, np.ones((3,) * mask.ndim))


@draws
@given(seeds, st.sampled_from([(12, 17), (5, 1), (5, 6, 7)]), st.floats(0.05, 0.95))
def test_components_are_scipy_s(seed, shape, density):
    masks = np.random.default_rng(seed).random((3, *shape)) < density
    numbers = component_numbers(torch.from_numpy(masks)).numpy()
    for mask, ours in zip(masks, numbers, strict=True):
        theirs, count = touching(mask)
        np.testing.assert_array_equal(ours > 0, mask)
        pairs = {(int(a), int(b)) for a, b in zip(ours[mask], theirs[mask], strict=True)}
        assert len(pairs) == count == len({a for a, _ in pairs})


def test_a_path_through_the_whole_image_is_one_component():
    path = torch.zeros(1, 128, 128, dtype=torch.bool)
    path[0, ::2] = True
    path[0, 1::4, -1] = path[0, 3::4, 0] = True
    for mask in (path, path.flip(1), path.transpose(1, 2)):
        assert component_numbers(mask).unique().numel() == 2


@draws
@given(seeds, st.sampled_from([(14, 11), (6, 5, 7)]), st.integers(2, 4))
def test_the_largest_component_of_each_object_is_kept(seed, shape, classes):
    label = np.random.default_rng(seed).integers(0, classes, (2, *shape))
    kept = largest_components(torch.from_numpy(label), classes).numpy()
    assert ((kept == label) | (kept == 0)).all()
    for before, after in zip(label, kept, strict=True):
        for k in range(1, classes):
            theirs, count = touching(before == k)
            assert touching(after == k)[1] == min(count, 1)
            assert (after == k).sum() == (np.bincount(theirs.flat)[1:].max() if count else 0)


def test_a_guess_leaves_no_trace():
    net = tiny.make_net()(dropout=0.5)
    before, image = copy.deepcopy(net.state_dict()), torch.randn(2, 1, 16, 16)
    seen = guess(net, image)
    assert net.training
    assert all(module.training for module in net.modules())
    assert not seen.requires_grad
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert torch.equal(seen, guess(net, image))
    torch.testing.assert_close(seen, torch.softmax(net.eval()(image)["main"], dim=1).detach())
    guess(net, image)
    assert not net.training


@pytest.mark.parametrize("shape", [(2, 20, 17), (1, 9, 8, 14)])
def test_each_image_has_its_own_blur(shape):
    image, sigma = torch.randn(3, *shape, dtype=torch.float64), torch.tensor([0.1, 0.8, 2.0], dtype=torch.float64)
    blurred = gaussian_blur(image, sigma)
    for mine, x, s in zip(blurred, image, sigma, strict=True):
        for channel, y in zip(mine, x, strict=True):
            expected = scipy.ndimage.gaussian_filter(y.numpy(), float(s), mode="nearest", radius=6)
            np.testing.assert_allclose(channel.numpy(), expected, atol=1e-12)


def test_a_strong_view_changes_most_images():
    torch.manual_seed(0)
    image = torch.randn(600, 1, 8, 8)
    view = strong_view(image, 0.5)
    same = (view == image).flatten(1).all(dim=1).float().mean()
    assert float(same) == pytest.approx(0.2 * 0.5, abs=0.04)
    torch.manual_seed(0)
    assert torch.equal(strong_view(torch.randn(600, 1, 8, 8), 0.5), view)
