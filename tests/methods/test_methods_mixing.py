"""Pseudo-labels, strong views and mixing: each objective, and its gradient, against the equations in numpy.

The networks here are linear in each pixel, so that an oracle can follow an image through every change that is made to it.
An oracle takes two sets of weights, those that learn and those that the targets come from: in the gradient only the former
may count.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from coranet.engine.run import Accel
from coranet.engine.step import backward
from coranet.errors import InputError
from coranet.methods import bcp, fixmatch, mixmatch, unimatch
from coranet.methods.bcp import BCP
from coranet.methods.cps import CPS
from coranet.methods.fixmatch import FixMatch
from coranet.methods.mixmatch import MixMatch
from coranet.methods.pseudo_label import PseudoLabel
from coranet.methods.self_training import SelfTraining
from coranet.methods.unimatch import UniMatch
from coranet.nets import MakeNet, Net
from coranet.types import Batch, Prediction
from tests import oracles, tiny

ALL = (PseudoLabel, SelfTraining, CPS, FixMatch, UniMatch, MixMatch, BCP)
VIEWS = ((1.5, 0.2), (0.7, -0.3), (1.1, 0.1))
"""Contrast and brightness of the changed images, in the order they are asked for."""


class Linear(nn.Module):
    """Logits a_k x + b_k in each pixel."""

    def __init__(self, classes, seed):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(2, classes, generator=generator, dtype=torch.float64))

    def encode(self, image):
        return [image]

    def read(self, levels, heads=None):
        a, b = (w.view(1, -1, *[1] * (levels[0].ndim - 2)) for w in self.weight)
        return {"main": a * levels[0] + b}

    def forward(self, image, heads=None):
        return self.read(self.encode(image))


class Scene:
    """Networks, a batch, and draws that an oracle can repeat."""

    def __init__(self, dims, classes, monkeypatch):
        self.classes, self.at = classes, tiny.at("selftrain", step=5, steps=20)
        self.nets = {name: Linear(classes, seed) for seed, name in enumerate(("student", "second", "teacher"))}
        one = tiny.batch(dims, classes)
        self.batch = Batch(
            labelled=replace(one.labelled, image=one.labelled.image.double()),
            unlabelled=replace(one.unlabelled, image=one.unlabelled.image.double()),
        )
        rng, shape = np.random.default_rng(dims), tiny.SHAPES[dims]
        self.boxes = [rng.random((2, *shape)) < 0.4 for _ in VIEWS]
        self.shares = rng.uniform(0.5, 1, 6)
        views, boxes = iter(VIEWS), iter(self.boxes)

        def changed(image, *_):
            contrast, brightness = next(views)
            return image * contrast + brightness

        def next_boxes(count, *_):
            return torch.from_numpy(next(boxes))

        for module, name, draw in (
            (fixmatch, "strong_view", changed),
            (fixmatch, "cutmix_boxes", next_boxes),
            (mixmatch, "intensity_view", changed),
            (mixmatch, "mixup_shares", lambda count, *_: torch.from_numpy(self.shares[:count])),
            (unimatch, "drop_channels", lambda level, rate: level * 0.6),
            (bcp, "placed_boxes", lambda *_: torch.from_numpy(self.boxes[0][:1])),
        ):
            monkeypatch.setattr(module, name, draw)
        torch.manual_seed(3)
        self.order = torch.rand(6).argsort().numpy()
        torch.manual_seed(3)

    def weights(self, name="student"):
        return self.nets[name].weight.detach().numpy().copy()

    @property
    def images(self):
        return self.batch.labelled.image.numpy(), self.batch.unlabelled.image.numpy()

    @property
    def valid(self):
        return self.batch.labelled.valid.numpy(), self.batch.unlabelled.valid.numpy()


@pytest.fixture(params=[(2, 2), (2, 4), (3, 2), (3, 4)], ids=lambda p: f"{p[0]}D {p[1]} classes")
def scene(request, monkeypatch):
    return Scene(*request.param, monkeypatch)


def flat(array):
    return array.reshape(len(array), -1)


def linear(image, weights):
    """`(B, 1, *S)` to logits `(B, K, N)`."""
    return weights[0][None, :, None] * flat(image)[:, None] + weights[1][None, :, None]


def mean(values, mask, valid, normalise="image"):
    return oracles.masked_mean(values, flat(np.broadcast_to(mask, valid.shape)), flat(valid), normalise)


def supervised(scene, weights, dice=0.0):
    label, valid, logits = scene.batch.labelled.label.numpy(), scene.valid[0], linear(scene.images[0], weights)
    terms = mean(oracles.cross_entropy(logits, flat(label)), np.ones_like(valid), valid)
    return terms + dice * oracles.soft_dice(oracles.softmax(logits), flat(label), flat(valid)) if dice else terms


def pseudo_label(scene, weights, target, threshold=0.0):
    image, valid = scene.images[1], scene.valid[1]
    q = oracles.softmax(linear(image, target))
    kept = (q.max(axis=1) > threshold).reshape(valid.shape)
    loss = oracles.cross_entropy(linear(image, weights), q.argmax(axis=1))
    return supervised(scene, weights) + oracles.gaussian_ramp(5, 6) * mean(loss, kept, valid)


def self_training(scene, weights, target):
    valid, label = scene.valid[1], flat(scene.batch.unlabelled.maps["label"].numpy())
    loss = oracles.cross_entropy(linear(scene.images[1], weights), label)
    return supervised(scene, weights) + mean(loss, np.ones_like(valid), valid)


def cps(scene, weights, target):
    image, valid = scene.images[1], scene.valid[1]
    total, everywhere = 0.0, np.ones_like(valid)
    second = scene.weights("second")
    for mine, theirs in ((weights, second), (second, target)):
        loss = oracles.cross_entropy(linear(image, mine), linear(image, theirs).argmax(axis=1))
        total += supervised(scene, mine) + 0.1 * oracles.gaussian_ramp(5, 6) * mean(loss, everywhere, valid)
    return total


def cutmix(array, box):
    """In the box the other of two images."""
    box = box if array.ndim == box.ndim else box[:, None]
    return np.where(box, array[::-1], array)


def seen(scene, target, threshold):
    """Labels and kept pixels of the unlabelled images as they are, `(B, *S)`."""
    q = oracles.softmax(linear(scene.images[1], target))
    shape = scene.valid[1].shape
    return q.argmax(axis=1).reshape(shape), (q.max(axis=1) > threshold).reshape(shape)


def strong(scene, target, number, threshold):
    """A strong view's image, label, kept pixels and valid ones."""
    contrast, brightness = VIEWS[number]
    label, kept = seen(scene, target, threshold)
    arrays = (scene.images[1] * contrast + brightness, label, kept, scene.valid[1])
    return [cutmix(array, scene.boxes[number]) for array in arrays]


def fix_match(scene, weights, target, threshold=0.6):
    image, label, kept, valid = strong(scene, target, 0, threshold)
    loss = oracles.cross_entropy(linear(image, weights), flat(label))
    return supervised(scene, weights) + mean(loss, kept, valid)


def uni_match(scene, weights, target, threshold=0.6):
    total = supervised(scene, weights, dice=1.0)
    for number in range(2):
        image, label, kept, valid = strong(scene, target, number, threshold)
        total += 0.5 * oracles.soft_dice(oracles.softmax(linear(image, weights)), flat(label), flat(kept & valid))
    label, kept = seen(scene, target, threshold)
    dropped = oracles.softmax(linear(scene.images[1] * 0.6, weights))
    return total + oracles.soft_dice(dropped, flat(label), flat(kept & scene.valid[1]))


def mix_match(scene, weights, target):
    views = [scene.images[1] * c + b for c, b in VIEWS[:2]]
    q = np.mean([oracles.softmax(linear(view, target)) for view in views], axis=0) ** 2
    q = q / q.sum(axis=1, keepdims=True)
    label = np.eye(scene.classes)[flat(scene.batch.labelled.label.numpy())].transpose(0, 2, 1)
    contrast, brightness = VIEWS[2]
    image = np.concatenate([scene.images[0] * contrast + brightness, *views])
    labels = np.concatenate([label, q, q])
    valid = np.concatenate([scene.valid[0], scene.valid[1], scene.valid[1]])
    total, count = 0.0, 2
    for i, j in enumerate(scene.order):
        share = scene.shares[i]
        p = oracles.softmax(linear((share * image[i] + (1 - share) * image[j])[None], weights))
        target_map = (share * labels[i] + (1 - share) * labels[j])[None]
        both = (valid[i] & valid[j])[None]
        if i < count:
            total += mean(-(target_map * np.log(p)).sum(axis=1), np.ones_like(both), both) / count
        else:
            distance = ((p - target_map) ** 2).mean(axis=1)
            total += oracles.gaussian_ramp(5, 6) * mean(distance, np.ones_like(both), both) / (2 * count)
    return total


def copy_paste(scene, weights, target):
    """Two images of each kind: the first labelled one gets the first unlabelled box, the second unlabelled the other."""
    box, teacher = scene.boxes[0][:1], scene.weights("teacher")
    (labelled, unlabelled), (valid, valid_u) = scene.images, scene.valid
    label = scene.batch.labelled.label.numpy()
    pseudo = linear(unlabelled, teacher).argmax(axis=1).reshape(valid_u.shape)
    total = 0.0
    for parts, alphas in (
        (((labelled[:1], label[:1], valid[:1]), (unlabelled[:1], pseudo[:1], valid_u[:1])), (1.0, 0.5)),
        (((unlabelled[1:], pseudo[1:], valid_u[1:]), (labelled[1:], label[1:], valid[1:])), (0.5, 1.0)),
    ):
        image, mixed, inside = (np.where(box, b, a) for a, b in zip(*parts, strict=True))
        logits = linear(image, weights)
        for region, alpha in zip((~box, box), alphas, strict=True):
            ce = mean(oracles.cross_entropy(logits, flat(mixed)), region, inside, "region")
            dice = oracles.soft_dice(oracles.softmax(logits), flat(mixed), flat(region & inside))
            total += alpha * (ce + dice) / 2
    return total


ORACLES = {
    "pseudo_label": (PseudoLabel(), pseudo_label),
    "pseudo_label gated": (PseudoLabel(threshold=0.6), lambda *a: pseudo_label(*a, threshold=0.6)),
    "self_training": (SelfTraining(), self_training),
    "cps": (CPS(), cps),
    "fixmatch": (FixMatch(threshold=0.6), fix_match),
    "unimatch": (UniMatch(threshold=0.6), uni_match),
    "mixmatch": (MixMatch(weight=1.0), mix_match),
    "bcp": (BCP(largest=False), copy_paste),
}
each = pytest.mark.parametrize("name", ORACLES)


@each
def test_objective_and_gradient(scene, name):
    """The gradient is that of the weights that learn: targets stay put, and changed images do not."""
    method, oracle = ORACLES[name]
    total = method.loss(scene.nets, scene.batch, scene.at).total
    weights = scene.weights()
    assert float(total.detach()) == pytest.approx(oracle(scene, weights, weights), abs=1e-6)
    total.backward()
    expected, step = np.zeros_like(weights), 1e-5
    for place in np.ndindex(*weights.shape):
        shift = np.zeros_like(weights)
        shift[place] = step
        ends = [oracle(scene, weights + sign * shift, weights) for sign in (1, -1)]
        expected[place] = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(scene.nets["student"].weight.grad.numpy(), expected, atol=1e-6)
    assert scene.nets["teacher"].weight.grad is None


@each
def test_without_unlabelled_images_only_labels_count(scene, name):
    method, _ = ORACLES[name]
    values = method.loss(scene.nets, Batch(labelled=scene.batch.labelled), scene.at).values
    assert set(values) <= {"ce", "dice", "second_ce", "second_dice", "labelled"}


def test_pretraining_looks_at_no_unlabelled_image(scene):
    at = tiny.at("pretrain")
    total = SelfTraining().loss(scene.nets, scene.batch, at).total
    assert float(total.detach()) == pytest.approx(supervised(scene, scene.weights()), abs=1e-6)
    terms = BCP().loss(scene.nets, scene.batch, at)
    box, (labelled, _) = scene.boxes[0][0], scene.images
    label, valid = scene.batch.labelled.label.numpy(), scene.valid[0]
    image, mixed, inside = (np.where(box, x[1], x[0])[None] for x in (labelled, label, valid))
    logits = linear(image, scene.weights())
    ce = mean(oracles.cross_entropy(logits, flat(mixed)), np.ones_like(inside), inside)
    dice = oracles.soft_dice(oracles.softmax(logits), flat(mixed), flat(inside))
    assert float(terms.total.detach()) == pytest.approx((ce + dice) / 2, abs=1e-6)


def test_unimatch_by_cross_entropy(scene):
    total = UniMatch(threshold=0.6, agreement="ce", weight=2.0, dice=0.0).loss(scene.nets, scene.batch, scene.at).total
    weights = scene.weights()
    expected = supervised(scene, weights)
    for number in range(2):
        image, label, kept, valid = strong(scene, weights, number, 0.6)
        expected += mean(oracles.cross_entropy(linear(image, weights), flat(label)), kept, valid)
    label, kept = seen(scene, weights, 0.6)
    loss = oracles.cross_entropy(linear(scene.images[1] * 0.6, weights), flat(label))
    expected += 2 * mean(loss, kept, scene.valid[1])
    assert float(total.detach()) == pytest.approx(expected, abs=1e-6)


def test_unimatch_s_decoder_sees_as_many_features_dropped_as_whole(scene, monkeypatch):
    """Labelled ones among them: that makes the batch statistics the authors' are."""
    net, read = scene.nets["student"], []
    monkeypatch.setattr(net, "read", lambda levels, *_: read.append(len(levels[0])) or Linear.read(net, levels))
    UniMatch().loss(scene.nets, scene.batch, scene.at)
    assert read[0] == 2 * (len(scene.batch.labelled.image) + len(scene.batch.unlabelled.image))


def test_the_teacher_s_labels_are_its_largest_components(scene):
    image = torch.zeros(1, 1, *scene.batch.unlabelled.image.shape[2:], dtype=torch.float64)
    image[:, :, :1], image[:, :, 3:6] = 1, 1
    scene.nets["teacher"].weight.data = torch.zeros(2, scene.classes, dtype=torch.float64)
    scene.nets["teacher"].weight.data[:, :2] = torch.tensor([[0.0, 4.0], [0.0, -2.0]])
    sample = replace(scene.batch.unlabelled, image=image)
    found = {largest: BCP(largest=largest).taught(scene.nets["teacher"], sample).label for largest in (True, False)}
    assert torch.equal(found[False], (image[:, 0] > 0).long())
    image[:, :, :1] = 0
    assert torch.equal(found[True], (image[:, 0] > 0).long())


@pytest.mark.parametrize("dims", [2, 3])
def test_labels_travel_with_the_boxes(dims, monkeypatch):
    """Of a network that looks at one pixel at a time, the label of a mixture is the mixture of labels."""
    monkeypatch.setattr(fixmatch, "strong_view", lambda image, *_: image)
    sample, net = tiny.batch(dims, 4).unlabelled, Linear(4, 0)
    shown = fixmatch.guess(net, sample.image.double())
    torch.manual_seed(0)
    view = FixMatch(threshold=0.5, cutmix=1.0).changed(replace(sample, image=sample.image.double()), shown)
    again = fixmatch.guess(net, view.image)
    assert not torch.equal(view.image, sample.image.double())
    assert torch.equal(view.label, again.argmax(dim=1))
    assert torch.equal(view.maps["kept"], again.amax(dim=1) > 0.5)


def step(method, nets, batch, phase):
    for update in method.objectives(phase):
        backward(nets, update, batch, tiny.at(phase), Accel())


@pytest.mark.parametrize(
    ("method", "passes"),
    [(PseudoLabel(), 2), (FixMatch(), 2), (UniMatch(), 2), (MixMatch(), 1), (BCP(), 1), (SelfTraining(), 2)],
    ids=lambda x: type(x).__name__,
)
def test_only_passes_that_learn_move_running_statistics(method, passes):
    nets, phase = method.nets(tiny.make_net()), method.phases[-1].name
    before = {name: copy.deepcopy(net.state_dict()) for name, net in nets.items()}
    step(method, nets, tiny.batch(), phase)
    counter = "encoder.0.0.1.num_batches_tracked"
    assert nets["student"].state_dict()[counter] == passes
    assert nets["student"].training
    if "teacher" in nets:
        assert not nets["teacher"].training
        assert all(torch.equal(value, before["teacher"][key]) for key, value in nets["teacher"].state_dict().items())


def test_mixmatch_guesses_by_the_statistics_of_the_batch():
    """Running ones are of mixtures, and a guess is of images as they are."""
    method, batch, found = MixMatch(), tiny.batch(), []
    nets = method.nets(tiny.make_net())
    for shift in (0.0, 5.0):
        for layer in nets["student"].modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean += shift
        torch.manual_seed(1)
        found.append(method.loss(nets, batch, tiny.at("train")).values["guess"])
    torch.testing.assert_close(*found)


def test_the_two_networks_of_cps_start_apart_and_both_learn():
    method = CPS()
    nets = method.nets(tiny.make_net())
    first, second = (torch.cat([p.flatten() for p in net.parameters()]) for net in nets.values())
    assert not torch.equal(first, second)
    (update,) = method.objectives("train")
    assert update.trains == tuple(nets)
    values = method.loss(nets, tiny.batch(), tiny.at("train")).values
    for cross, learner, other in (("cross", "student", "second"), ("second_cross", "second", "student")):
        values[cross].backward(retain_graph=True)
        assert any(p.grad is not None for p in nets[learner].parameters())
        assert all(p.grad is None for p in nets[other].parameters())
        nets[learner].zero_grad(set_to_none=True)


def test_no_label_is_learnt_below_the_threshold():
    """A network that says nothing in particular."""
    for method in (FixMatch(), UniMatch(), PseudoLabel(threshold=0.95)):
        nets = method.nets(tiny.make_net())
        nn.init.zeros_(nets["student"].heads["main"][-1].weight)
        nn.init.zeros_(nets["student"].heads["main"][-1].bias)
        terms = method.loss(nets, tiny.batch(), tiny.at("train"))
        learnt = [value for name, value in terms.values.items() if name not in ("ce", "dice")]
        assert learnt
        assert all(float(value.detach()) == pytest.approx(0, abs=1e-6) for value in learnt)
        assert float(terms.measures["kept_share"]) == 0


def test_stored_labels():
    probabilities = torch.softmax(torch.randn(2, 3, 4, 4), dim=1)
    kept = SelfTraining().remember(Prediction(probabilities=probabilities))
    assert torch.equal(kept["label"], probabilities.argmax(dim=1).to(torch.uint8))
    first, second = SelfTraining(refresh_every=2).phases
    assert (first.name, first.refresh_every) == ("pretrain", None)
    assert (second.name, second.refresh_every) == ("selftrain", 2)


@pytest.mark.parametrize("counts", [(1, 1), (1, 3), (3, 2)])
@pytest.mark.parametrize("method", [m() for m in ALL], ids=lambda m: type(m).__name__)
def test_any_number_of_images(method, counts):
    torch.manual_seed(0)
    nets, phase = method.nets(tiny.make_net(classes=3)), method.phases[-1].name
    labelled, unlabelled = (
        tiny.sample(2, 3, labelled=x, seed=n, count=n, maps=() if x else ("label",))
        for x, n in zip((True, False), counts, strict=True)
    )
    step(method, nets, Batch(labelled=labelled, unlabelled=unlabelled), phase)
    assert all(torch.isfinite(p.grad).all() for p in nets["student"].parameters())


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("method", [m() for m in ALL], ids=lambda m: type(m).__name__)
def test_nothing_waits_for_the_device(method, dims):
    """Tensors on the meta device have no values: whoever asks for one, or brings one from elsewhere, is refused."""

    def moved(sample):
        kept = {name: value.to("meta") for name, value in sample.maps.items()}
        label = None if sample.label is None else sample.label.to("meta")
        return replace(sample, image=sample.image.to("meta"), valid=sample.valid.to("meta"), label=label, maps=kept)

    nets = {name: net.to("meta") for name, net in method.nets(tiny.make_net(dims)).items()}
    one = tiny.batch(dims)
    batch = Batch(labelled=moved(one.labelled), unlabelled=moved(one.unlabelled))
    for phase in method.phases:
        now = tiny.at(phase.name)
        at = replace(now, **{name: getattr(now, name).to("meta") for name in ("step", "phase_step", "epoch")})
        method.begin_phase(nets, phase.name)
        for update in method.objectives(phase.name):
            update.loss(nets, batch, at).total.backward()
        method.after_step(nets, at)


@pytest.mark.parametrize("body", ["unet", "vnet", "resnet18"])
@pytest.mark.parametrize("dims", [2, 3])
def test_unimatch_on_every_body_with_levels(body, dims):
    torch.manual_seed(0)
    make_net = MakeNet(Net(body=body, width=4, levels=1), dims, 1, 2)
    method = UniMatch(threshold=0.0)
    nets = method.nets(make_net)
    assert method.needs <= make_net.net.offers
    step(method, nets, tiny.batch(dims), "train")
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in nets["student"].parameters())


def test_fields_out_of_range():
    for make in (
        lambda: PseudoLabel(threshold=1.0),
        lambda: FixMatch(cutmix=1.2),
        lambda: UniMatch(threshold=-0.1),
        lambda: MixMatch(views=0),
        lambda: MixMatch(temperature=0.0),
        lambda: SelfTraining(refresh_every=0),
        lambda: BCP(side=1.0),
        lambda: BCP(pretrain_epochs=0),
    ):
        with pytest.raises(InputError):
            make()
