"""CoraNet for today: its losses are those of its equations, and all that a view is taught by is cut like it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from coranet.errors import InputError
from coranet.methods import coranet_plus
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_plus import CoraNetPlus, Guide
from coranet.ops.teacher import follow
from coranet.types import Batch, Regions, Sample, Terms
from coranet.uncertainty import CRM, Softmax
from tests import tiny

STILL = {"cutmix": 0.0}
"""With the fixture below: views that are the image itself."""


@pytest.fixture
def plain(monkeypatch):
    """Strong views at the grey levels of the image."""
    monkeypatch.setattr(coranet_plus, "strong_view", lambda image, *_: image)


def softmax(logits, axis=1):
    exponents = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return exponents / exponents.sum(axis=axis, keepdims=True)


def built(method, classes=3, dims=2):
    torch.manual_seed(1)
    nets, batch = method.nets(tiny.make_net(dims, classes)), tiny.batch(dims, classes)
    with torch.no_grad():
        for parameter in nets["teacher"].parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    for net in nets.values():
        net.double().eval()  # a second look says the same, and no pixel changes sides by rounding
    halves = (replace(half, image=half.image.double()) for half in (batch.labelled, batch.unlabelled))
    return nets, Batch(**dict(zip(("labelled", "unlabelled"), halves, strict=True)))


def said(net, image):
    """Probabilities of classes, and what con and rad give each object, in float64."""
    with torch.no_grad():
        logits = {name: values.double().numpy() for name, values in net(image).items()}
    pairs = [softmax(np.stack(np.split(logits[name], 2, axis=1), axis=1))[:, 1] for name in ("con", "rad")]
    return softmax(logits["main"]), *pairs


def weighed(values, weight, valid):
    """Mean over images of each one's mean over its valid pixels."""
    axes = tuple(range(1, values.ndim))
    return ((values * weight * valid).sum(axes) / valid.sum(axes)).mean()


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("region", ["soft", "crm"])
@pytest.mark.parametrize("views", [1, 2])
def test_the_loss_is_that_of_its_equations(plain, classes, dims, region, views):
    method = CoraNetPlus(**STILL, region=region, views=views, pseudo_dice=0.7, alpha=3.0)
    nets, batch = built(method, classes, dims)
    sample = batch.unlabelled
    terms = method.loss(nets, batch, tiny.at("joint"))
    p, _, _ = said(nets["student"], sample.image)
    q, con, rad = said(nets["teacher"], sample.image)
    label, valid = q.argmax(axis=1), sample.valid.numpy()
    w = 1 - np.abs(rad - con).max(axis=1)
    if region == "crm":
        w = ((con > 0.5) == (rad > 0.5)).all(axis=1).astype(float)
    truth = np.moveaxis(np.eye(classes)[label], -1, 1)
    ce = -(truth * np.log(p)).sum(axis=1)
    axes, inside = (0, *range(2, p.ndim)), (w * valid)[:, None]
    overlap, size = (p * truth * inside).sum(axes), ((p**2 + truth) * inside).sum(axes)
    dice = 1 - ((2 * overlap + 1e-5) / (size + 1e-5)).mean()
    assert terms.values["certain"].item() == pytest.approx(weighed(ce, w, valid) + 0.7 * dice, rel=1e-4)
    apart = ((p - q) ** 2).sum(axis=1)
    assert terms.values["uncertain"].item() == pytest.approx(weighed(apart, 1 - w, valid), rel=1e-4, abs=1e-8)
    assert terms.measures["uncertain_share"].item() == pytest.approx(weighed(1 - w, 1, valid), rel=1e-4, abs=1e-7)


def test_weights_grow_after_a_warm_up_on_labels(plain):
    method = CoraNetPlus(**STILL, ramp=0.5, weights=(2.0, 3.0), passes=0)
    nets, batch = built(method)
    at = tiny.at("joint", 5)
    terms = method.loss(nets, batch, at)
    grown = np.exp(-5 * (1 - min(float(at.phase_step) / (0.5 * at.phase_steps), 1)) ** 2)
    expected = {"certain": 2 * grown, "uncertain": 3 * grown}
    assert {name: float(weight) for name, weight in terms.weights.items()} == pytest.approx(expected)
    (alone,) = method.objectives("labels")
    assert set(alone.loss(nets, batch, at).values) == {"ce", "con", "rad"}
    assert [phase.name for phase in method.phases] == ["labels", "joint"]
    assert method.phases[0].epochs == pytest.approx(0.15 * sum(phase.epochs for phase in method.phases))


@pytest.mark.parametrize("region", ["softmax", "chance", "none"])
def test_other_regions(region):
    method = CoraNetPlus(region=region, threshold=0.6)
    torch.manual_seed(0)
    certain = torch.rand(2, 64, 64) < 0.7
    target, valid = torch.rand(2, 3, 64, 64).softmax(dim=1), torch.ones(2, 64, 64, dtype=torch.bool)
    valid[0, :32] = False
    w = method.weigh(Regions(certain=certain, score=torch.rand(2, 64, 64)), target, valid)
    assert set(w.unique().tolist()) <= {0.0, 1.0}
    if region == "softmax":
        assert torch.equal(w.bool(), target.amax(dim=1) > 0.6)
    elif region == "none":
        assert w.all()
    else:
        assert float(w.mean()) == pytest.approx(float(certain[valid].float().mean()), abs=0.03)
        assert torch.corrcoef(torch.stack([w.flatten(), certain.float().flatten()]))[0, 1].abs() < 0.05


def numbered(count=4):
    """A sample and a guide whose every part tells the image and pixel it is of."""
    place = torch.arange(1, count * 256 + 1).view(count, 16, 16)
    sample = Sample(image=place.unsqueeze(1).float(), valid=place % 3 > 0)
    parts = (place, (place % 2).float(), sample.image, sample.valid)
    return sample, Guide(*parts)


def is_of(image, guide):
    place = image[:, 0].long()
    parts = (place, (place % 2).float(), image, place % 3 > 0)
    return all(torch.equal(part, expected) for part, expected in zip(guide, parts, strict=True))


def test_boxes_move_all_that_an_image_is_taught_by(plain):
    method = CoraNetPlus(cutmix=1.0)
    sample, guide = numbered()
    torch.manual_seed(0)
    image, by = method.strong(sample, guide)
    assert (image != sample.image).flatten(1).any(dim=1).all()
    assert is_of(image, by)


def test_gradients_reach_the_student_alone():
    method = CoraNetPlus()
    nets, batch = built(method)
    found = method.loss(nets, batch, tiny.at("joint", 20))
    (found.values["certain"] + found.values["uncertain"]).backward()
    assert all(parameter.grad is None for parameter in nets["teacher"].parameters())
    heads = nets["student"].heads
    assert all(parameter.grad is None for name in ("con", "rad") for parameter in heads[name].parameters())


@pytest.mark.parametrize("method", [CoraNetPlus(prior=0.02, alpha=4.0), CoraNet(prior=0.02, regions=CRM(alpha=4.0))])
def test_heads_begin_at_the_share_of_an_object(method):
    nets = method.nets(tiny.make_net(classes=3))
    for name, odds in (("con", 0.02 / 0.98 / 4), ("rad", 0.02 / 0.98 * 4)):
        rest, objects = nets["student"].heads[name][-1].bias.detach().chunk(2)
        assert torch.allclose(torch.exp(objects - rest), torch.full((2,), odds))


@pytest.mark.parametrize("changes", [{"prior": 1.5}, {"prior": 0.02, "regions": Softmax()}])
def test_a_prior_is_of_the_two_heads_alone(changes):
    with pytest.raises(InputError, match="prior is a share between 0 and 1"):
        CoraNet(**changes)


@pytest.mark.parametrize(("step", "steps", "beta"), [(100, 200, 0.945), (190, 200, 0.97), (5, 20, 0.7)])
def test_a_teacher_slows_down_but_never_averages_over_more_than_a_sixth_of_the_run(step, steps, beta):
    method = CoraNetPlus(beta=0.9, beta_end=0.99)
    nets, _ = built(method)
    before = {key: value.clone() for key, value in nets["teacher"].state_dict().items()}
    method.after_step(nets, tiny.at("joint", step, steps))
    for key, value in nets["teacher"].state_dict().items():
        if value.is_floating_point():
            expected = beta * before[key] + (1 - beta) * nets["student"].state_dict()[key]
            torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-5)


def test_on_labels_alone_only_labels_are_learnt():
    method = CoraNetPlus().on_labels_alone()
    nets, batch = built(method)
    (update,) = method.objectives("joint")
    assert set(update.loss(nets, batch, tiny.at("joint")).values) == {"ce", "con", "rad"}


def test_the_average_predicts():
    method = CoraNetPlus()
    nets, _ = built(method)
    assert method.segmenter(nets).net is nets["teacher"]


def test_a_share_that_is_a_tensor_averages_alike():
    nets, _ = built(CoraNetPlus())
    other, _ = built(CoraNetPlus())
    follow(nets["teacher"], nets["student"], 0.9)
    follow(other["teacher"], other["student"], torch.tensor(0.9))
    for one, two in zip(nets["teacher"].state_dict().values(), other["teacher"].state_dict().values(), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize(("finds", "expected"), [("nothing", 0.0), ("all", 1.0)])
def test_what_it_teaches_itself_counts_by_what_it_knows_of_labels(plain, monkeypatch, finds, expected):
    method = CoraNetPlus(**STILL, dice=0.5, ramp=0.0, passes=0)
    nets, batch = built(method)
    label = batch.labelled.label if finds == "all" else torch.zeros_like(batch.labelled.label)
    sure = torch.nn.functional.one_hot(label, 3).movedim(-1, 1).double() * 100
    honest = method.labelled_loss

    def labelled_loss(self, nets, batch, at):
        terms = honest(nets, batch, at)
        return replace(terms, values=terms.values | method.supervised_terms(sure, batch.labelled))

    monkeypatch.setattr(CoraNetPlus, "labelled_loss", labelled_loss)
    weights = method.loss(nets, batch, tiny.at("joint", 20)).weights
    assert float(weights["certain"]) == pytest.approx(expected, abs=1e-3)
    assert replace(method, dice=0.0).trust(Terms(values={}), 3, tiny.at("joint")) == 1  # no Dice is learnt


@pytest.mark.parametrize(("passes", "expected"), [(0.0, 1.0), (2.5, 1.0), (5.0, 1.0), (10.0, 0.5), (50.0, 0.1)])
def test_and_by_how_often_it_has_seen_them(plain, passes, expected):
    method = CoraNetPlus(**STILL, ramp=0.0, passes=passes)
    nets, batch = built(method)
    at = tiny.at("joint", 20)
    assert float(at.passes) == 5
    weights = method.loss(nets, batch, at).weights
    assert float(weights["certain"]) == pytest.approx(expected)
    assert float(weights["uncertain"]) == pytest.approx(expected)


def test_what_cannot_be_is_refused():
    for wrong in ({"views": 0}, {"warm_up": 2.0}, {"prior": 1.0}, {"prior": 0.0}, {"passes": -1}):
        with pytest.raises(InputError):
            CoraNetPlus(**wrong)
