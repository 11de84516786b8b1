"""CoraNet for today: its losses are those of its equations, and all that a view is taught by is cut like it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from coranet.errors import InputError
from coranet.methods import coranet_plus
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_plus import CoraNetPlus, Guide
from coranet.ops.mixing import cutmix_boxes, drawn_voxels, placed_boxes
from coranet.ops.teacher import follow
from coranet.types import Batch, Sample
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
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("labels", ["main", "heads"])
def test_the_loss_is_that_of_its_equations(plain, classes, dims, soft, labels):
    method = CoraNetPlus(**STILL, soft=soft, labels=labels, candidates=0.5, pseudo_dice=0.7, alpha=3.0)
    nets, batch = built(method, classes, dims)
    sample = batch.unlabelled
    terms = method.loss(nets, batch, tiny.at("joint"))
    p, _, _ = said(nets["student"], sample.image)
    q, con, rad = said(nets["teacher"], sample.image)
    if labels == "heads":
        margin = sum(np.log(one / (1 - one)) for one in (np.clip(head, 1e-6, 1 - 1e-6) for head in (con, rad))) / 2
        objects = 1 / (1 + np.exp(-margin))
        both = np.concatenate([np.clip(1 - objects.sum(axis=1, keepdims=True), 1e-6, None), objects], axis=1)
        q = (q + both / both.sum(axis=1, keepdims=True)) / 2
    label, valid = q.argmax(axis=1), sample.valid.numpy()
    w = ((con > 0.5) == (rad > 0.5)).all(axis=1).astype(float)
    if soft:
        w = 1 - np.abs(rad - con).max(axis=1)
    truth = np.moveaxis(np.eye(classes)[label], -1, 1)
    ce = -(truth * np.log(p)).sum(axis=1)
    axes, inside = (0, *range(2, p.ndim)), (w * valid)[:, None]
    overlap, size = (p * truth * inside).sum(axes), ((p**2 + truth) * inside).sum(axes)
    dice = 1 - ((2 * overlap + 1e-5) / (size + 1e-5)).mean()
    assert terms.values["certain"].item() == pytest.approx(weighed(ce, w, valid) + 0.7 * dice, rel=1e-4)
    apart = ((p - q) ** 2).sum(axis=1)
    assert terms.values["uncertain"].item() == pytest.approx(weighed(apart, 1 - w, valid), rel=1e-4, abs=1e-8)
    allowed = np.concatenate([~(con > 0.5).any(axis=1, keepdims=True), (con > 0.5) | (rad > 0.5)], axis=1)
    assert allowed.any(axis=1).all()
    candidates = -np.log((p * allowed).sum(axis=1))
    assert terms.values["candidates"].item() == pytest.approx(weighed(candidates, 1 - w, valid), rel=1e-4, abs=1e-8)
    assert terms.measures["uncertain_share"].item() == pytest.approx(weighed(1 - w, 1, valid), rel=1e-4, abs=1e-7)


def test_weights_grow_after_a_warm_up_on_labels(plain):
    method = CoraNetPlus(**STILL, ramp=0.5, weights=(2.0, 3.0), candidates=4.0)
    nets, batch = built(method)
    at = tiny.at("joint", 5)
    terms = method.loss(nets, batch, at)
    grown = np.exp(-5 * (1 - min(float(at.phase_step) / (0.5 * at.phase_steps), 1)) ** 2)
    expected = {"certain": 2 * grown, "uncertain": 3 * grown, "candidates": 4 * grown}
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
    w = method.weigh(certain, torch.rand(2, 64, 64), target, valid)
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
    parts = (place, (place % 2).float(), sample.image, place.unsqueeze(1) % 5 > 0, place.float(), sample.valid)
    return sample, Guide(*parts)


def is_of(image, guide):
    place = image[:, 0].long()
    parts = (place, (place % 2).float(), image, place.unsqueeze(1) % 5 > 0, place.float(), place % 3 > 0)
    return all(torch.equal(part, expected) for part, expected in zip(guide, parts, strict=True))


@pytest.mark.parametrize("boxes", ["random", "disagreement"])
def test_boxes_move_all_that_an_image_is_taught_by(plain, boxes):
    method = CoraNetPlus(cutmix=1.0, boxes=boxes)
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
    assert CoraNetPlus(beta_end=None).slowness(tiny.at("joint", 5, 6000)) == 0.99


def test_two_teachers_follow_by_turns_and_speak_with_one_voice():
    method = CoraNetPlus(teachers=2, turn=3)
    nets, batch = built(method)
    with torch.no_grad():
        for parameter in nets["teacher2"].parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    guide = method.guide(method.teaching(nets), batch.unlabelled, torch.tensor(0.0))
    voices = [said(nets[name], batch.unlabelled.image) for name in ("teacher", "teacher2")]
    q, con, rad = (np.mean(each, axis=0) for each in zip(*voices, strict=True))
    np.testing.assert_allclose(guide.target.numpy(), q, rtol=1e-6)
    assert np.array_equal(guide.weight.numpy() == 1, ((con > 0.5) == (rad > 0.5)).all(axis=1))
    moved = []
    for step in range(8):
        before = [nets[name].heads["main"][-1].weight.clone() for name in ("teacher", "teacher2")]
        method.after_step(nets, tiny.at("joint", step, 20))
        after = [nets[name].heads["main"][-1].weight for name in ("teacher", "teacher2")]
        moved.append([not torch.equal(one, two) for one, two in zip(before, after, strict=True)])
    assert moved == [[True, False]] * 3 + [[False, True]] * 3 + [[True, False]] * 2


@pytest.mark.parametrize(("done", "width"), [(0.0, 0.6), (0.5, 0.4), (1.0, 0.2)])
def test_a_band_is_as_wide_as_its_schedule_says(done, width):
    method = CoraNetPlus(band=(0.6, 0.2))
    nets, batch = built(method)
    sample = batch.unlabelled
    nets["teacher"].heads["main"][-1].bias.data[0] -= 1  # else hardly any pixel is an object's
    guide = method.guide(method.teaching(nets), sample, torch.tensor(done))
    valid = sample.valid.numpy()
    q, con, rad = said(nets["teacher"], sample.image)
    wanted = int(width * ((q.argmax(axis=1) > 0) & valid).sum())
    assert wanted > 5
    uncertain = guide.weight.numpy() == 0
    assert uncertain.sum() == wanted
    assert not (uncertain & ~valid).any()
    low, high = (np.log(p / (1 - p)) for p in (np.minimum(con, rad), np.maximum(con, rad)))
    margin = np.maximum(low, -high).min(axis=1)
    assert margin[uncertain].max() < margin[~uncertain & valid].min()


def test_nothing_is_learnt_of_unlabelled_images_before_every_object_is_found(plain):
    nets, batch = built(CoraNetPlus(**STILL))
    guide = CoraNetPlus().guide([nets["teacher"]], batch.unlabelled, torch.tensor(0.0))
    shares = [
        [float(((label == k) & valid).sum() / valid.sum()) for k in (1, 2)]
        for label, valid in ((guide.label, guide.valid), (batch.labelled.label, batch.labelled.valid))
    ]
    least = min(one / held for one, held in zip(*shares, strict=True))
    assert least > 0
    for factor, learns in ((0.99, True), (1.01, False)):
        method = CoraNetPlus(**STILL, wait=least * factor)
        weights = method.loss(nets, batch, tiny.at("joint", 20)).weights
        assert (float(weights["certain"]) > 0) == (float(weights["uncertain"]) > 0) == learns


def test_on_labels_alone_only_labels_are_learnt():
    method = CoraNetPlus(candidates=1.0).on_labels_alone()
    nets, batch = built(method)
    (update,) = method.objectives("joint")
    assert set(update.loss(nets, batch, tiny.at("joint")).values) == {"ce", "con", "rad"}


@pytest.mark.parametrize("predicts", ["student", "teacher"])
def test_student_or_teacher_predicts(predicts):
    method = CoraNetPlus(predicts=predicts)
    nets, _ = built(method)
    assert method.segmenter(nets).net is nets[predicts]


def test_voxels_are_drawn_in_proportion():
    torch.manual_seed(0)
    density = torch.zeros(4000, 5, 7)
    density[:, 1, 2], density[:, 4, 6] = 3.0, 1.0
    places = drawn_voxels(density)
    first = (places == torch.tensor([1, 2])).all(dim=1)
    second = (places == torch.tensor([4, 6])).all(dim=1)
    assert (first | second).all()
    assert float(first.float().mean()) == pytest.approx(0.75, abs=0.03)
    anywhere = drawn_voxels(torch.zeros(4000, 5, 7))
    assert len(anywhere.unique(dim=0)) == 35


def test_boxes_lie_about_their_centres():
    boxes = placed_boxes(torch.full((2, 2), 0.5), (8, 12), torch.tensor([[4, 6], [7, 0]]))
    assert boxes[0, 2:6, 3:9].all()
    assert boxes[0].sum() == 24
    assert boxes[1, 4:, :6].all()
    assert boxes[1].sum() == 24
    density = torch.zeros(3, 8, 12)
    density[:, 5, 5] = 1
    assert cutmix_boxes(3, (8, 12), torch.device("cpu"), 1.0, density=density)[:, 5, 5].all()


def test_a_share_that_is_a_tensor_averages_alike():
    nets, _ = built(CoraNetPlus())
    other, _ = built(CoraNetPlus())
    follow(nets["teacher"], nets["student"], 0.9)
    follow(other["teacher"], other["student"], torch.tensor(0.9))
    for one, two in zip(nets["teacher"].state_dict().values(), other["teacher"].state_dict().values(), strict=True):
        torch.testing.assert_close(one, two)


def test_what_cannot_be_is_refused():
    for wrong in (
        {"views": 0},
        {"warm_up": 2.0},
        {"prior": 1.0},
        {"prior": 0.0},
        {"turn": 0},
        {"wait": -1.0},
        {"band": (-1.0, 0.0)},
    ):
        with pytest.raises(InputError):
            CoraNetPlus(**wrong)
