"""Deep supervision: the labels at coarser levels, beside whatever a method learns, and refused where there are no levels."""

import numpy as np
import pytest
import torch

from coranet.engine.optimizers import make_optimizers
from coranet.engine.run import Accel, Optim
from coranet.engine.step import Updates
from coranet.errors import InputError
from coranet.methods import METHODS
from coranet.methods.deep_supervision import DeepSupervision, supervised_deeply
from coranet.methods.one_vs_rest import OneVsRest
from coranet.methods.supervised import Supervised
from coranet.methods.taps import features_inside
from coranet.nets import Net
from coranet.runs.launch import train
from tests import tiny


def built(method, dims=2, classes=3):
    torch.manual_seed(0)
    return method.nets(tiny.make_net(dims, classes))


@pytest.mark.parametrize("dims", [2, 3])
def test_the_loss_is_that_of_its_equation(dims):
    method = DeepSupervision(inner=Supervised(dice=0.0), weight=0.6)
    nets, batch = built(method, dims), tiny.batch(dims, 3)
    for net in nets.values():
        net.eval()
    terms = method.loss(nets, batch, tiny.at("train"))
    features = features_inside(nets["student"], batch.labelled.image)[:-1]
    label, valid, expected = batch.labelled.label.numpy(), batch.labelled.valid.numpy(), 0.0
    for s, feature in enumerate(reversed(features[-3:]), start=1):
        head = nets["deep"].heads[len(features[-3:]) - s]
        logits = head(feature).detach().double().numpy()
        few = tuple(slice(2 ** (s - 1), None, 2**s) for _ in range(dims))  # the voxel nearest to the middle of 2^s
        truth, inside = label[(slice(None), *few)], valid[(slice(None), *few)]
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        ce = -np.log(np.take_along_axis(p, truth[:, None], axis=1))[:, 0]
        axes = tuple(range(1, 1 + dims))
        expected += 0.5**s * ((ce * inside).sum(axes) / inside.sum(axes)).mean()
    assert terms.values["deep"].item() == pytest.approx(expected, rel=1e-5)
    assert terms.weights["deep"] == 0.6
    assert set(terms.values) == {"ce", "deep"}


@pytest.mark.parametrize("name", ["coranet", "coranet:plus", "cps", "dan", "temporal_ensembling"])
def test_every_head_learns_beside_any_method(name):
    inner = METHODS[name](dice=1.0)
    method = supervised_deeply(inner, 0.5)
    nets = built(method)
    updates = Updates(method, nets, make_optimizers(method, nets, Optim()), Accel())
    before = [p.clone() for p in nets["deep"].parameters()]
    phase = inner.phases[-1].name
    batch = tiny.batch(2, 3, maps=("ensemble",) if name == "temporal_ensembling" else ("label", "certain"))
    found = updates(batch, tiny.at(phase), 0.01)
    assert torch.isfinite(found.values["deep"])
    assert all(not torch.equal(one, two) for one, two in zip(before, nets["deep"].parameters(), strict=True))
    assert len(method.objectives(phase)) == len(inner.objectives(phase))


def test_each_sub_task_has_heads_of_its_own():
    method = supervised_deeply(OneVsRest(inner=Supervised(), objects=2), 0.5)
    assert {"1.deep", "2.deep"} <= set(built(method))
    assert supervised_deeply(Supervised(), 0.0) == Supervised()


def test_a_run_has_it_by_one_field_and_continues(scans, small, tmp_path):
    options = small(method="supervised", val=0, overrides=(("net.deep", "0.5"),))
    run = train(scans, tmp_path / "run", options)
    assert '"deep": ' in (run / "log.jsonl").read_text()
    train(scans, tmp_path / "run", options, resume=True)


def test_a_body_without_levels_is_refused():
    with pytest.raises(InputError, match="monai:SegResNet has no levels"):
        Net(body="monai:SegResNet", deep=0.5)
