"""The conservative-radical module's two ways to many classes: a cost for each object, or one for all of them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coranet.engine.run import Accel
from coranet.errors import InputError
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.uncertainty import CRM
from tests import oracles, tiny


def random_logits(outputs, seed=0, shape=(2, 40)):
    generator = torch.Generator().manual_seed(seed)
    batch, *space = shape
    return {
        name: 2 * torch.randn(batch, outputs, *space, generator=generator, dtype=torch.float64)
        for name in ("main", "con", "rad")
    }


class Says(torch.nn.Module):
    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, image, heads):
        return {name: self.logits[name] for name in heads}


def regions(crm, logits):
    return crm.judge(crm.infer(Says(logits), None))


def learnt(posterior, costs):
    """What a head says that has learnt a posterior at these costs."""
    weighted = np.asarray(costs, float) * posterior
    return weighted / weighted.sum()


def soft_maps(crm, posterior):
    """The module's maps at one pixel whose heads have learnt a posterior `(K,)`."""
    if crm.costs == "background":
        objects = len(posterior) - 1
        con, rad = ([crm.alpha] + [1] * objects, [1] + [crm.alpha] * objects)
        found = {"con": learnt(posterior, con), "rad": learnt(posterior, rad)}
    else:
        p = np.asarray(posterior[1:])
        found = {"con": p / (p + crm.alpha * (1 - p)), "rad": crm.alpha * p / (crm.alpha * p + 1 - p)}
    return {name: torch.from_numpy(values).view(1, -1, 1) for name, values in found.items()}


@pytest.mark.parametrize("alpha", [1.0, 5.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_losses_with_one_cost_for_all_objects(alpha, classes):
    crm, logits = CRM(alpha=alpha, costs="background"), random_logits(classes)
    assert crm.heads(classes) == {"con": classes, "rad": classes}
    label = torch.randint(0, classes, (2, 40), generator=torch.Generator().manual_seed(1))
    losses = crm.losses(logits, label)
    arrays = [logits[name].numpy() for name in ("con", "rad")]
    for name, expected in zip(
        ("con", "rad"), oracles.crm_background_losses(*arrays, label.numpy(), alpha), strict=True
    ):
        np.testing.assert_allclose(losses[name].numpy(), expected, atol=1e-6)


def test_regions_with_one_cost_for_all_objects():
    crm, logits = CRM(costs="background"), random_logits(4)
    found = regions(crm, logits)
    con, rad = (logits[name].numpy().argmax(axis=1) for name in ("con", "rad"))
    np.testing.assert_array_equal(found.uncertain.numpy(), con != rad)
    np.testing.assert_array_equal(found.maps["conservative"].numpy(), con)
    np.testing.assert_array_equal(found.maps["radical"].numpy(), rad)
    gap = np.abs(oracles.softmax(logits["rad"].numpy()) - oracles.softmax(logits["con"].numpy()))
    np.testing.assert_allclose(found.score.numpy(), gap.max(axis=1), atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 8, 8), (1, 4, 4, 4)], ids=["2D", "3D"])
def test_with_two_classes_both_ways_are_one(shape):
    one, other = (CRM(costs=costs) for costs in ("object", "background"))
    assert one.heads(2) == other.heads(2)
    logits = random_logits(2, shape=shape)
    label = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(one.losses(logits, label), other.losses(logits, label))
    mine, theirs = regions(one, logits), regions(other, logits)
    assert mine.uncertain.any()
    assert mine.certain.any()
    assert torch.equal(mine.certain, theirs.certain)
    torch.testing.assert_close(mine.score, theirs.score)
    assert all(torch.equal(mine.maps[name], theirs.maps[name]) for name in ("conservative", "radical"))


def test_two_organs_that_are_equally_likely():
    """Background is impossible, and no head can know which organ it is."""
    posterior = np.array([0.0, 0.5, 0.5])
    for costs, uncertain in (("object", True), ("background", False)):
        crm = CRM(costs=costs)
        assert bool(crm.judge(soft_maps(crm, posterior)).uncertain) is uncertain


@settings(deadline=None)
@given(st.floats(0.001, 0.999), st.floats(1, 20))
def test_one_cost_for_all_objects_is_blind_between_organs(share, alpha):
    posterior = np.array([0.0, share, 1 - share])
    each, one = CRM(alpha=alpha), CRM(alpha=alpha, costs="background")
    assert bool(one.judge(soft_maps(one, posterior)).certain)
    doubtful = 1 / (1 + alpha) + 1e-6 < share < alpha / (1 + alpha) - 1e-6
    sure = share < 1 / (1 + alpha) - 1e-6 or share > alpha / (1 + alpha) + 1e-6
    if doubtful or sure:
        assert bool(each.judge(soft_maps(each, posterior)).uncertain) is doubtful


@pytest.mark.parametrize("costs", ["object", "background"])
def test_the_losses_teach_what_the_blindness_is_shown_with(costs):
    """At those probabilities the expected loss over the posterior has no gradient left."""
    crm, posterior = CRM(costs=costs), np.array([0.2, 0.5, 0.3])
    logits = {}
    for name, soft in soft_maps(crm, posterior).items():
        outputs = soft if costs == "background" else torch.cat([1 - soft, soft], dim=1)
        logits[name] = outputs.log().requires_grad_()
    expected = torch.zeros((), dtype=torch.float64)
    for k, p in enumerate(posterior):
        expected = expected + p * sum(loss.sum() for loss in crm.losses(logits, torch.tensor([[k]])).values())
    expected.backward()
    for head in logits.values():
        torch.testing.assert_close(head.grad, torch.zeros_like(head), atol=1e-6, rtol=0)


def test_every_output_learns_with_one_cost_for_all_objects():
    method = CoraNet(regions=CRM(costs="background"))
    torch.manual_seed(0)
    nets = method.nets(tiny.make_net(classes=4))
    (update,) = method.objectives("pretrain")
    tiny.backward(nets, update, tiny.batch(classes=4), tiny.at("pretrain"), Accel())
    assert all(p.grad is not None and p.grad.any() for p in nets["student"].parameters())
    with torch.no_grad():
        prediction = method.segmenter(nets)(tiny.batch().labelled.image)
    assert prediction.regions.certain.shape == (2, 16, 16)


def test_the_released_code_knows_one_kind_of_costs():
    with pytest.raises(InputError, match=r"costs for each object: set other regions on the method coranet"):
        ReleasedCoraNet(regions=CRM(costs="background"))
