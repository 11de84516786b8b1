"""Adversarial directions on functions whose answer is known, and passes that leave no trace."""

import numpy as np
import pytest
import torch
from torch import nn

from coranet.ops.adversarial import adversarial_direction, belief, fgsm, unit
from coranet.ops.passes import frozen_statistics


@pytest.mark.parametrize("size", [1.0, 1e-30, 1e30])
@pytest.mark.parametrize("shape", [(3, 2, 5, 4), (3, 1, 4, 3, 2)])
def test_each_image_s_direction_has_length_1_however_small_it_is(shape, size):
    found = unit(torch.randn(shape) * size)
    torch.testing.assert_close(found.flatten(1).norm(dim=1), torch.ones(3))
    assert not unit(torch.zeros(shape)).any()


def test_power_iteration_finds_the_direction_of_largest_change():
    curvature = torch.tensor([1.0, 2.0, 9.0, 4.0]).view(1, 1, 2, 2)

    def distance(r):
        return (curvature * r.square()).sum() / 2

    start = torch.ones(2, 1, 2, 2)
    once = adversarial_direction(distance, start, xi=0.1)
    expected = curvature.flatten() / curvature.norm()
    torch.testing.assert_close(once.flatten(1), expected.expand(2, 4))
    often = adversarial_direction(distance, start, xi=0.1, iterations=30)
    torch.testing.assert_close(often.flatten(1), torch.tensor([0.0, 0.0, 1.0, 0.0]).expand(2, 4), atol=1e-6, rtol=0)


def test_fgsm_moves_each_pixel_by_epsilon_up_the_loss_and_leaves_parameters_alone():
    torch.manual_seed(0)
    net, image = nn.Conv2d(1, 1, 3, padding=1), torch.randn(2, 1, 6, 6)
    with torch.no_grad():  # as in a pass that learns nothing
        made = fgsm(lambda x: net(x).square().mean(), image, 0.03)
    inner = image.clone().requires_grad_()
    net(inner).square().mean().backward()
    torch.testing.assert_close(made, image + 0.03 * inner.grad.sign())
    assert not made.requires_grad
    assert not image.requires_grad
    net.zero_grad(set_to_none=True)
    fgsm(lambda x: net(x).square().mean(), image, 0.03)
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_belief_is_the_binary_cross_entropy(truth):
    logits = torch.tensor([-2.0, 0.5, 3.0], dtype=torch.bfloat16)
    p = 1 / (1 + np.exp(-logits.double().numpy()))
    expected = -np.log(p if truth else 1 - p).mean()
    found = belief(logits, truth)
    assert found.dtype == torch.float32
    assert float(found) == pytest.approx(expected, abs=1e-6)


def test_frozen_statistics_do_not_move_and_the_batch_s_are_used():
    torch.manual_seed(0)
    norms = nn.ModuleDict({"batch": nn.BatchNorm2d(2), "instance": nn.InstanceNorm2d(2, affine=True)})
    x, before = torch.randn(4, 2, 5, 5) + 3, {k: v.clone() for k, v in norms.state_dict().items()}
    with frozen_statistics(norms):
        inside = norms["batch"](x)
        torch.testing.assert_close(inside.mean(dim=(0, 2, 3)), torch.zeros(2), atol=1e-5, rtol=0)
    assert all(torch.equal(value, before[key]) for key, value in norms.state_dict().items())
    torch.testing.assert_close(norms["batch"](x), inside)
    assert norms["batch"].num_batches_tracked == 1
    assert not norms["instance"].track_running_stats
    moved = norms["batch"].running_mean.clone()
    norms.eval()
    outside = norms["batch"](x)
    with frozen_statistics(norms):
        torch.testing.assert_close(norms["batch"](x), outside)
    with pytest.raises(RuntimeError), frozen_statistics(norms):
        norms["batch"](x[:, :1])
    assert norms["batch"].track_running_stats
    assert torch.equal(norms["batch"].running_mean, moved)
