"""CoraNet by strong views: the same losses, of several views of an image and of what it is taught by, cut alike."""

import numpy as np
import pytest
import torch

from coranet.errors import InputError
from coranet.methods import Segmenter, coranet_views
from coranet.methods.coranet_views import Guidance, StrongViewCoraNet
from coranet.types import Sample
from coranet.uncertainty import CRM, Ensemble
from tests import tiny


@pytest.fixture
def plain(monkeypatch):
    """Strong views that are the image itself."""
    monkeypatch.setattr(coranet_views, "strong_view", lambda image, *_: image)


def softmax(logits):
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("guide", ["student", "teacher"])
@pytest.mark.parametrize("classes", [2, 4])
def test_losses_of_views_are_those_of_the_paper(plain, guide, classes):
    method = StrongViewCoraNet(cutmix=0.0, guide=guide, pseudo_dice=0.5, regions=CRM(alpha=3.0))
    nets, batch = method.nets(tiny.make_net(classes=classes)), tiny.batch(classes=classes)
    for net in nets.values():
        net.eval()  # so that a second look says the same
    sample = batch.unlabelled
    terms = method.loss(nets, batch, tiny.at("selftrain"))
    with torch.no_grad():
        seen = Segmenter(nets[guide], method.regions)(sample.image)
        p = softmax(nets["student"](sample.image)["main"].double().numpy())
        target = softmax(nets["teacher"](sample.image)["main"].double().numpy())
    label, certain = seen.probabilities.argmax(dim=1).numpy(), seen.regions.certain.numpy()
    valid, voxels = sample.valid.numpy(), sample.valid.sum().item()
    one_hot = np.moveaxis(np.eye(classes)[label], -1, 1)
    ce = -(one_hot * np.log(p)).sum(axis=1)
    inside = (certain & valid)[:, None]
    axes = (0, *range(2, p.ndim))
    overlap, size = (p * one_hot * inside).sum(axes), ((p**2 + one_hot) * inside).sum(axes)
    dice = 1 - ((2 * overlap + 1e-5) / (size + 1e-5)).mean()
    expected = (ce * certain * valid).sum() / voxels + 0.5 * dice
    assert terms.values["certain"].item() == pytest.approx(expected, rel=1e-4)
    difference = ((p - target) ** 2).sum(axis=1)
    assert terms.values["consistency"].item() == pytest.approx(
        (difference * ~certain * valid).sum() / voxels, rel=1e-4, abs=1e-9
    )
    assert terms.measures["uncertain_share"].item() == pytest.approx((~certain & valid).sum() / voxels)


def test_boxes_move_all_that_an_image_is_taught_by(plain):
    method = StrongViewCoraNet(cutmix=1.0)
    number = torch.arange(1, 5).view(4, 1, 1).expand(4, 16, 16)
    sample = Sample(image=number.unsqueeze(1).float(), valid=number % 2 == 0, maps={})
    guidance = Guidance(number, number > 2, number.unsqueeze(1).float(), sample.valid)
    torch.manual_seed(0)
    image, by = method.strong(sample, guidance)
    assert (image != sample.image).any()
    assert torch.equal(by.label, image[:, 0].long())
    assert torch.equal(by.certain, image[:, 0] > 2)
    assert torch.equal(by.teacher, image)
    assert torch.equal(by.valid, image[:, 0].long() % 2 == 0)


@pytest.mark.parametrize("how", [{"mirror": 1.0}, {"turns": True}])
def test_a_moved_view_is_taught_by_moved_labels(plain, how):
    method = StrongViewCoraNet(cutmix=0.0, **how)
    place = torch.arange(4 * 16 * 16).view(4, 16, 16)
    sample = Sample(image=place.unsqueeze(1).float(), valid=place % 3 > 0, maps={})
    torch.manual_seed(0)
    image, by = method.strong(sample, Guidance(place, place % 2 == 0, sample.image, sample.valid))
    assert (image != sample.image).any()
    assert torch.equal(image.flatten(1).sort().values, sample.image.flatten(1))
    moved = image[:, 0].long()
    assert torch.equal(by.label, moved)
    assert torch.equal(by.certain, moved % 2 == 0)
    assert torch.equal(by.teacher, image)
    assert torch.equal(by.valid, moved % 3 > 0)


def test_a_dropped_view_is_one_more_and_weights_grow(plain):
    methods = [StrongViewCoraNet(cutmix=0.0, feature_dropout=rate, ramp=0.5, weights=(2.0, 3.0)) for rate in (0.0, 0.5)]
    torch.manual_seed(1)
    nets, batch = methods[0].nets(tiny.make_net()), tiny.batch()
    without, beside = (method.loss(nets, batch, tiny.at("selftrain", 5)) for method in methods)
    assert without.values["consistency"] != beside.values["consistency"]
    at = tiny.at("selftrain", 5)
    grown = np.exp(-5 * (1 - min(float(at.phase_step) / (0.5 * at.phase_steps), 1)) ** 2)
    assert float(without.weights["certain"]) == pytest.approx(2 * grown)
    assert float(without.weights["consistency"]) == pytest.approx(3 * grown)
    assert methods[1].needs == {"levels"}
    assert not methods[0].needs


@pytest.mark.parametrize("guide", ["student", "teacher"])
def test_gradients_reach_the_student_alone(guide):
    method = StrongViewCoraNet(guide=guide, feature_dropout=0.5)
    nets, batch = method.nets(tiny.make_net()), tiny.batch()
    terms = method.loss(nets, batch, tiny.at("selftrain"))
    (terms.values["certain"] + terms.values["consistency"]).backward()
    assert all(parameter.grad is None for parameter in nets["teacher"].parameters())
    assert any(parameter.grad is not None and parameter.grad.any() for parameter in nets["student"].parameters())
    heads = nets["student"].heads
    assert all(parameter.grad is None for name in ("con", "rad") for parameter in heads[name].parameters())
    assert set(nets["teacher"].heads) == ({"main", "con", "rad"} if guide == "teacher" else {"main"})


def test_without_a_view_it_is_another_method():
    with pytest.raises(InputError, match="Without views it is coranet:repaired"):
        StrongViewCoraNet(views=0)


def test_an_averaged_guide_may_have_an_ensemble_s_members():
    method = StrongViewCoraNet(guide="teacher", regions=Ensemble(members=2))
    nets, batch = method.nets(tiny.make_net()), tiny.batch()
    assert torch.isfinite(method.loss(nets, batch, tiny.at("selftrain")).total)
