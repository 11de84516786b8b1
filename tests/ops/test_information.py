"""Mutual information of soft assignments: against loops over voxels, and by what it must be in plain cases."""

import math

import numpy as np
import pytest
import torch

from coranet.ops.information import global_information, joint_distribution, local_information, mutual_information

SHAPES = {2: (5, 6), 3: (4, 3, 5)}


def two_views(dims, clusters, seed=0, count=2):
    generator = torch.Generator().manual_seed(seed)
    shape = (count, clusters, *SHAPES[dims])
    p, q = (torch.randn(shape, generator=generator, dtype=torch.float64).mul(2).softmax(1) for _ in range(2))
    return p, q, torch.rand(count, *SHAPES[dims], generator=generator) > 0.2


def joint_by_loops(p, q, valid, shift):
    """Σ over pairs of voxels a displacement apart, both in the image and both valid."""
    clusters, shape = p.shape[1], p.shape[2:]
    joint = np.zeros((clusters, clusters))
    for b, *at in np.ndindex(len(p), *shape):
        other = [a + s for a, s in zip(at, shift, strict=True)]
        if all(0 <= o < n for o, n in zip(other, shape, strict=True)) and valid[b, *at] and valid[b, *other]:
            joint += np.outer(p[b, :, *at], q[b, :, *other])
    joint = joint + joint.T
    return joint / joint.sum()


def information_by_loops(joint):
    rows, columns = joint.sum(1), joint.sum(0)
    return sum(x * math.log(x / rows[i] / columns[j]) for (i, j), x in np.ndenumerate(joint) if x > 0)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("clusters", [2, 4])
@pytest.mark.parametrize("padding", [0, 1])
def test_against_loops(dims, clusters, padding):
    p, q, valid = two_views(dims, clusters)
    shifts = [tuple(s - padding for s in shift) for shift in np.ndindex(*[2 * padding + 1] * dims)]
    arrays = p.numpy(), q.numpy(), valid.numpy()
    expected = [joint_by_loops(*arrays, shift) for shift in shifts]
    joint = joint_distribution(p, q, valid, padding)
    # Which of the two is displaced does not matter: all displacements come with their opposites.
    for one in joint.numpy():
        assert min(np.abs(one - other).max() for other in expected) < 1e-12
    found = local_information(p, q, valid, padding=padding)
    assert float(found) == pytest.approx(np.mean([information_by_loops(x) for x in expected]), abs=1e-12)


@pytest.mark.parametrize("dims", [2, 3])
def test_gradients(dims):
    p, q, valid = two_views(dims, 3)
    p, q = p.log().requires_grad_(), q.log().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a, b: local_information(a.softmax(1), b.softmax(1), valid, padding=1, patch=4), (p, q)
    )


def test_patches_overlap_by_half_and_are_averaged():
    p, q, valid = two_views(2, 3)
    corners = [(a, b) for a in (0, 1) for b in (0, 2)]
    each = []
    for a, b in corners:
        place = slice(a, a + 4), slice(b, b + 4)
        each.append(local_information(p[:, :, *place], q[:, :, *place], valid[:, *place], padding=1))
    found = local_information(p, q, valid, padding=1, patch=4)
    torch.testing.assert_close(found, torch.stack(each).mean())


def test_equal_sure_answers_share_all_they_say():
    """K equally frequent clusters: log K; independent answers: nothing."""
    label = torch.arange(64).view(1, 8, 8) % 4
    sure = torch.nn.functional.one_hot(label, 4).movedim(-1, 1).float()
    everywhere = torch.ones(1, 8, 8, dtype=torch.bool)
    assert float(local_information(sure, sure, everywhere, padding=0)) == pytest.approx(math.log(4), abs=1e-6)
    even = torch.full_like(sure, 0.25)
    assert float(local_information(sure, even, everywhere, padding=0)) == pytest.approx(0, abs=1e-6)


def test_what_is_independent_shares_nothing_whatever_its_margins():
    """Of several displacements at once, and where rows and columns differ."""
    rows, columns = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.3, 0.3, 0.4])
    joint = torch.outer(rows, columns).expand(4, 3, 3)
    assert mutual_information(joint).shape == (4,)
    torch.testing.assert_close(mutual_information(joint), torch.zeros(4), atol=1e-6, rtol=0)


def test_voxels_outside_change_nothing():
    p, q, valid = two_views(2, 3)
    outside = ~valid.unsqueeze(1)
    torch.testing.assert_close(
        local_information(torch.where(outside, 0.9, p), torch.where(outside, 0.1, q), valid),
        local_information(p, q, valid),
    )


def test_an_image_that_is_all_outside_says_nothing_and_stays_finite():
    p, q, valid = two_views(2, 3)
    p.requires_grad_()
    found = local_information(p, q, torch.zeros_like(valid))
    found.backward()
    assert float(found.detach()) == 0
    assert not p.grad.any()


def test_one_assignment_an_image():
    p, q, _ = two_views(2, 3, count=5)
    p, q = p[:, :, 0, 0], q[:, :, 0, 0]
    joint = sum(np.outer(a, b) for a, b in zip(p.numpy(), q.numpy(), strict=True))
    joint = (joint + joint.T) / (2 * joint.sum())
    assert float(global_information(p, q)) == pytest.approx(information_by_loops(joint), abs=1e-12)
    torch.testing.assert_close(global_information(p, q), mutual_information(torch.from_numpy(joint)))


def test_half_precision_arithmetic_around_it_does_not_reach_it():
    p, q, valid = (x.float() if x.is_floating_point() else x for x in two_views(2, 4))
    exact = local_information(p, q, valid), global_information(p[..., 0, 0], q[..., 0, 0])
    with torch.autocast("cpu", torch.bfloat16):
        found = local_information(p, q, valid), global_information(p[..., 0, 0], q[..., 0, 0])
    assert all(torch.equal(a, b) for a, b in zip(found, exact, strict=True))
