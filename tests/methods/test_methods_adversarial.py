"""Adversarial, distance and size methods: each unlabelled loss against its own oracle, and the mistakes of the family.

The networks here treat each pixel alone and in float64, so that the oracles can write down every gradient they need.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import nn

from coranet.engine.run import Accel
from coranet.engine.step import backward
from coranet.errors import InputError
from coranet.methods.advent import Advent
from coranet.methods.dan import DAN
from coranet.methods.dct_seg import DCTSeg
from coranet.methods.dmnet import DMNet
from coranet.methods.dtc import DTC
from coranet.methods.sassnet import SASSNet
from coranet.methods.size_constraint import SizeConstraint
from coranet.methods.vat import VAT
from coranet.nets import Net
from coranet.types import Batch
from tests import oracles, tiny

ALL = [VAT, DAN, Advent, SASSNet, DTC, SizeConstraint, DMNet, DCTSeg]
WITH_CRITIC = [DAN, Advent, SASSNet, DMNet]
every_case = pytest.mark.parametrize(("dims", "classes"), [(2, 2), (2, 4), (3, 2), (3, 4)])


class PixelNet(nn.Module):
    """Logits a_k x + b_k of each pixel alone, for each head."""

    def __init__(self, seed=0, **heads):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.slopes = nn.ParameterDict(
            {n: torch.randn(2, k, generator=generator, dtype=torch.float64) for n, k in heads.items()}
        )

    def forward(self, image, heads=None):
        return {n: self.logits(image, *self.slopes[n]) for n in heads or self.slopes}

    @staticmethod
    def logits(image, slope, offset):
        shape = (1, -1, *[1] * (image.ndim - 2))
        return image * slope.view(shape) + offset.view(shape)

    def flat(self, x, head="main"):
        """The same in numpy: `(B, N)` to `(B, k, N)`."""
        slope, offset = self.slopes[head].detach().numpy()
        return slope[None, :, None] * x[:, None] + offset[None, :, None]


class LinearCritic(nn.Module):
    """Three times the mean over pixels of a weighted sum of the maps."""

    def __init__(self, channels):
        super().__init__()
        self.weights = nn.Parameter(torch.linspace(-1, 2, channels, dtype=torch.float64))

    def forward(self, maps):
        return 3 * (maps.flatten(2).mean(dim=2) * self.weights).sum(dim=1)

    def flat(self, maps):
        return 3 * np.einsum("bcn,c->b", maps, self.weights.detach().numpy()) / maps.shape[2]


def double_batch(dims, classes):
    one = tiny.batch(dims, classes, maps=())
    samples = [replace(sample, image=sample.image.double()) for sample in (one.labelled, one.unlabelled)]
    return Batch(labelled=samples[0], unlabelled=samples[1])


def flat(sample):
    """Image, valid and label (or None) with pixels in a row."""
    count = len(sample.image)
    label = None if sample.label is None else sample.label.numpy().reshape(count, -1)
    return sample.image.numpy().reshape(count, -1), sample.valid.numpy().reshape(count, -1), label


def grown(share, step=5, steps=20):
    return np.exp(-5 * (1 - min(step / (share * steps), 1)) ** 2)


def mean_inside(values, valid):
    return oracles.masked_mean(values, np.ones_like(valid), valid)


def bce(logits, truth):
    p = 1 / (1 + np.exp(-logits))
    return float(np.mean(-np.log(p) if truth else -np.log(1 - p)))


def kl(p, q):
    return (p * np.log(p / q)).sum(axis=1)


def supervised(net, sample, head="main"):
    image, valid, label = flat(sample)
    return mean_inside(oracles.cross_entropy(net.flat(image, head), label), valid)


def compare(terms, **expected):
    """Named values, and the total that their weights make of them: `name=(value, weight)`."""
    assert set(terms.values) == set(expected)
    for name, (value, _) in expected.items():
        assert float(terms.values[name].detach()) == pytest.approx(value, abs=1e-6), name
    assert float(terms.total.detach()) == pytest.approx(sum(v * w for v, w in expected.values()), abs=1e-6)


# Each loss against its oracle


@every_case
def test_vat(dims, classes):
    batch, net = double_batch(dims, classes), PixelNet(main=classes)
    method = VAT(weight=0.7, xi=300.0, epsilon=500.0)
    torch.manual_seed(3)
    terms = method.loss({"student": net}, batch, tiny.at("train"))
    torch.manual_seed(3)
    start = torch.randn_like(batch.unlabelled.image).numpy().reshape(2, -1)
    image, valid, _ = flat(batch.unlabelled)
    slope = net.slopes["main"].detach().numpy()[0]
    clean = oracles.softmax(net.flat(image))
    root = np.sqrt(image.shape[1]) / 256
    probe = 300 * root * start / np.linalg.norm(start, axis=1, keepdims=True) * valid
    moved = oracles.softmax(net.flat(image + probe))
    gradient = np.einsum("bkn,k->bn", moved - clean, slope) * valid / valid.sum(axis=1, keepdims=True)
    adversarial = 500 * root * gradient / np.linalg.norm(gradient, axis=1, keepdims=True)
    expected = mean_inside(kl(clean, oracles.softmax(net.flat(image + adversarial))), valid)
    assert expected > 1e-3
    compare(terms, ce=(supervised(net, batch.labelled), 1), vat=(expected, 0.7 * grown(0.3)))


def shown_by(method, net, sample, classes):
    image, valid, _ = flat(sample)
    p = oracles.softmax(net.flat(image))
    if method is DAN:
        maps = np.concatenate([p, image[:, None]], axis=1)
    elif method is Advent:
        maps = -p * np.log2(p) / np.log2(classes)
    else:
        maps = np.concatenate([np.tanh(net.flat(image, "distance")), image[:, None]], axis=1)
    return maps * valid[:, None]


@every_case
@pytest.mark.parametrize("method", [DAN, Advent, SASSNet])
def test_a_critic_and_who_it_criticises(method, dims, classes):
    batch, net = double_batch(dims, classes), PixelNet(main=classes, distance=classes - 1)
    maps = [shown_by(method, net, sample, classes) for sample in (batch.labelled, batch.unlabelled)]
    critic = LinearCritic(maps[0].shape[1])
    nets, at = {"student": net, "critic": critic}, tiny.at("train")
    expected = {"ce": (supervised(net, batch.labelled), 1)}
    if method is SASSNet:
        expected["distance"] = (0.3 * distance_error(net, batch.labelled, classes), 1)
    weight = {DAN: 0.1 * grown(1.0), Advent: 0.001, SASSNet: 0.01 * grown(1.0)}[method]
    expected["adversarial"] = (bce(critic.flat(maps[1]), 1), weight)
    compare(method().loss(nets, batch, at), **expected)
    told = (bce(critic.flat(maps[0]), 1) + bce(critic.flat(maps[1]), 0)) / 2
    compare(method().critic_loss(nets, batch, at), critic=(told, 1))


def distance_error(net, sample, classes):
    """Mean over images of the mean over objects and valid pixels; distances by SciPy, within the valid part."""
    errors = []
    for image, label, valid in zip(sample.image[:, 0].numpy(), sample.label.numpy(), sample.valid.numpy(), strict=True):
        first = int(np.argmax(valid.any(axis=tuple(range(1, valid.ndim)))))  # tiny batches lack the first rows of one
        assert valid[first:].all()
        said = np.tanh(net.flat(image[first:].reshape(1, -1), "distance"))[0]
        for k in range(1, classes):
            inside = ndimage.distance_transform_edt(label[first:] == k)
            outside = ndimage.distance_transform_edt(label[first:] != k)
            truth = np.where(inside == 1, 0, outside / outside.max() - inside / inside.max())
            errors.append(((said[k - 1] - truth.reshape(-1)) ** 2).mean())
    return np.mean(errors)


@every_case
def test_dtc(dims, classes):
    batch, net = double_batch(dims, classes), PixelNet(main=classes, distance=classes - 1)
    terms = DTC(steepness=5.0).loss({"student": net}, batch, tiny.at("train"))
    each = []
    for sample in (batch.labelled, batch.unlabelled):
        image, valid, _ = flat(sample)
        segmented = 1 / (1 + np.exp(5 * np.tanh(net.flat(image, "distance"))))
        gap = (segmented - oracles.softmax(net.flat(image))[:, 1:]) ** 2
        each.append(mean_inside(gap.mean(axis=1), valid))
    error = 0.3 * distance_error(net, batch.labelled, classes)
    compare(terms, ce=(supervised(net, batch.labelled), 1), distance=(error, 1), agreement=(np.mean(each), grown(0.3)))


@every_case
def test_size_constraint(dims, classes):
    batch, net, method = double_batch(dims, classes), PixelNet(main=classes), SizeConstraint(weight=7.0)
    shares = []
    for sample in (batch.labelled, batch.unlabelled):
        image, valid, label = flat(sample)
        p = oracles.softmax(net.flat(image)) if label is None else np.stack([label == k for k in range(classes)], 1)
        shares.append((p * valid[:, None]).sum(axis=2)[:, 1:] / valid.sum(axis=1, keepdims=True))
    # One image too large, one too small, and within both an object that is neither where there are several.
    factors = np.array([[0.5, 1.05, 0.95], [1.5, 0.93, 1.0]])[:, : classes - 1]
    expected_sizes = torch.tensor(100 * factors * shares[1])
    nets = {"student": net, "sizes": lambda image: expected_sizes}
    penalty = 0.0
    # As released: squares of sizes in voxels, over the voxels of the image, whatever its size.
    for count, found, wanted in zip(flat(batch.unlabelled)[1].sum(axis=1), shares[1], factors * shares[1], strict=True):
        for n, m in zip(count * found, count * wanted, strict=True):
            penalty += (max(0, n - 1.1 * m) ** 2 + max(0, 0.9 * m - n) ** 2) / count
    terms = method.loss(nets, batch, tiny.at("train"))
    compare(terms, ce=(supervised(net, batch.labelled), 1), size=(penalty / 2, 7.0))
    assert SizeConstraint().weight == 0.01
    assert float(terms.measures["sizes_outside"]) == pytest.approx(1 / (classes - 1))
    told = method.sizes_loss(nets, batch, tiny.at("pretrain"))
    wanted = ((expected_sizes.numpy() - 100 * shares[0]) ** 2).mean()
    assert float(told.total) == pytest.approx(wanted, rel=1e-6)


@every_case
def test_dmnet(dims, classes):
    batch, net = double_batch(dims, classes), PixelNet(main=classes, second=classes)
    critic, at, method = LinearCritic(classes + 1), tiny.at("train"), DMNet(agreement=0.4)
    image, valid, _ = flat(batch.unlabelled)
    first, second = (oracles.softmax(net.flat(image, head)) for head in ("main", "second"))

    def sharp(p):
        return p**2 / (p**2).sum(axis=1, keepdims=True)

    def masks(sample):
        image, valid, _ = flat(sample)
        p = [oracles.softmax(net.flat(image, head)) for head in ("main", "second")]
        return [np.concatenate([one, image[:, None]], axis=1) * valid[:, None] for one in p]

    terms = method.loss({"student": net, "critic": critic}, batch, at)
    believed = np.mean([bce(critic.flat(one), 1) for one in masks(batch.unlabelled)])
    compare(
        terms,
        ce=(supervised(net, batch.labelled), 1),
        second_ce=(supervised(net, batch.labelled, "second"), 1),
        agreement=((mean_inside(kl(sharp(second), first) + kl(sharp(first), second), valid)) / 2, 0.4 * grown(0.3)),
        adversarial=(believed, 0.01 * grown(0.3)),
    )
    image, valid, label = flat(batch.labelled)
    true = np.stack([*(label == k for k in range(classes)), image], axis=1) * valid[:, None]
    false = np.mean(
        [bce(critic.flat(one), 0) for sample in (batch.labelled, batch.unlabelled) for one in masks(sample)]
    )
    compare(
        method.critic_loss({"student": net, "critic": critic}, batch, at),
        critic=((bce(critic.flat(true), 1) + false) / 2, 1),
    )


@every_case
@pytest.mark.parametrize("step", [2, 5, 12])
def test_dct_seg(dims, classes, step):
    batch = double_batch(dims, classes)
    nets = {"student": PixelNet(main=classes), "second": PixelNet(seed=1, main=classes)}
    terms = DCTSeg(epsilon=0.3).loss(nets, batch, tiny.at("train", step))
    found = []
    for sample in (batch.labelled, batch.unlabelled):
        image, valid, label = flat(sample)
        for mine, other in (("student", "second"), ("second", "student")):
            p = oracles.softmax(nets[mine].flat(image))
            y = p.argmax(axis=1) if label is None else label
            error = p - np.stack([y == k for k in range(classes)], axis=1)
            gradient = np.einsum("bkn,k->bn", error, nets[mine].slopes["main"].detach().numpy()[0])
            answer = oracles.softmax(nets[other].flat(image + 0.3 * np.sign(gradient) * valid))
            found.append(mean_inside(kl(p, answer), valid))
    image, valid, _ = flat(batch.unlabelled)
    first, second = (oracles.softmax(net.flat(image)) for net in nets.values())
    middle = (first + second) / 2
    late = np.exp(-5 * (1 - min((step - 20 / 6) / (8 - 20 / 6), 1)) ** 2) if step > 20 / 6 else 0
    compare(
        terms,
        ce=(supervised(nets["student"], batch.labelled), 1),
        second_ce=(supervised(nets["second"], batch.labelled), 1),
        agreement=(mean_inside((kl(first, middle) + kl(second, middle)) / 2, valid), 0.5 * grown(0.4, step)),
        adversarial=(np.mean(found), 0.05 * late),
    )


# What must not happen


def build(method, dims=2, classes=2, net=None):
    torch.manual_seed(0)
    make_net = tiny.make_net(dims, classes)
    return method().nets(replace(make_net, net=net) if net else make_net)


def statistics(net):
    return {name: value.clone() for name, value in net.named_buffers()}


def run(nets, update, batch, seed=0):
    torch.manual_seed(seed)
    return backward(nets, update, batch, tiny.at("train"), Accel())


@pytest.mark.parametrize("method", WITH_CRITIC)
def test_segmenter_and_critic_do_not_train_each_other(method):
    nets, batch = build(method), tiny.batch(maps=())
    segmenter, critic = method().objectives("train")
    assert (segmenter.optimizer, critic.optimizer) == ("main", "critic")
    assert critic.adam == 1e-4
    run(nets, segmenter, batch)
    assert all(p.grad is None for p in nets["critic"].parameters())
    nets["student"].zero_grad(set_to_none=True)
    before = statistics(nets["student"])
    run(nets, critic, batch)
    assert all(p.grad is None for p in nets["student"].parameters())
    assert all(p.grad is not None for p in nets["critic"].parameters())
    assert all(torch.equal(value, before[name]) for name, value in statistics(nets["student"]).items())


@pytest.mark.parametrize("method", WITH_CRITIC)
def test_the_segmenter_learns_through_the_critic_to_be_believed(method):
    nets, batch = build(method), tiny.batch(maps=())
    nets["critic"].requires_grad_(False)
    parameters = list(nets["student"].parameters())
    before = method().loss(nets, batch, tiny.at("train")).values["adversarial"]
    gradients = torch.autograd.grad(before, parameters, allow_unused=True)
    with torch.no_grad():
        for p, g in zip(parameters, gradients, strict=True):
            if g is not None:
                p -= 0.1 * g
    assert method().loss(nets, batch, tiny.at("train")).values["adversarial"] < before


@pytest.mark.parametrize("method", [DAN, SASSNet])
def test_a_critic_drops_features_while_it_learns_and_none_while_it_judges(method):
    nets, batch = build(method), tiny.batch(maps=())
    segmenter, critic = method().objectives("train")
    for update, name, draws in ((critic, "critic", True), (segmenter, "adversarial", False)):
        one, other = (float(run(nets, update, batch, seed).values[name]) for seed in (0, 1))
        assert (one != other) is draws
    assert not nets["critic"].training
    run(nets, critic, batch, 0)
    assert nets["critic"].training  # again, where it learns
    drops = [[layer.p for layer in block if isinstance(layer, nn.Dropout2d)] for block in nets["critic"].layers]
    assert drops == [[0.5]] * (len(drops) - 1) + [[]]
    for other in (Advent, DMNet):
        assert not any(isinstance(layer, nn.Dropout2d) for layer in build(other)["critic"].modules())


def test_a_critic_of_two_decoders_drops_none_while_it_judges_either():
    method, batch = DMNet(critic_dropout=0.5), tiny.batch(maps=())
    nets = method.nets(tiny.make_net())
    segmenter, _ = method.objectives("train")
    one, other = (float(run(nets, segmenter, batch, seed).values["adversarial"]) for seed in (0, 1))
    assert one == other


def test_vat_counts_clean_images_alone_and_leaves_no_gradient_behind():
    nets, batch = build(VAT), tiny.batch(maps=())
    other = copy.deepcopy(nets["student"])
    VAT().loss(nets, batch, tiny.at("train"))
    assert all(p.grad is None for p in nets["student"].parameters())
    with torch.no_grad():
        other(batch.labelled.image)
        other(batch.unlabelled.image)
    expected = statistics(other)
    assert all(torch.equal(value, expected[name]) for name, value in statistics(nets["student"]).items())


def test_vat_teaches_by_the_perturbed_image_alone():
    """Of KL(t ‖ softmax z) the gradient by z is softmax z - t, where t is a target and nothing else."""
    net, sample, seen = PixelNet(main=3), double_batch(2, 3).unlabelled, []
    net.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach().numpy().reshape(2, -1)))
    value = VAT(epsilon=500.0).change({"student": net}, sample)
    found = torch.autograd.grad(value, net.slopes["main"])[0][1]
    clean, probe, adversarial = seen
    _, valid, _ = flat(sample)
    np.testing.assert_array_equal(clean, sample.image.numpy().reshape(2, -1))
    assert (probe != adversarial)[valid].any()
    gap = oracles.softmax(net.flat(adversarial)) - oracles.softmax(net.flat(clean))
    expected = [mean_inside(gap[:, k], valid) for k in range(3)]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    np.testing.assert_array_equal(adversarial[~valid], clean[~valid])


def test_dmnet_s_sharpened_targets_get_no_gradient():
    generator = torch.Generator().manual_seed(0)
    logits = {h: torch.randn(2, 3, 4, 4, generator=generator, requires_grad=True) for h in ("main", "second")}
    DMNet().difference(logits, torch.ones(2, 4, 4, dtype=torch.bool)).backward()
    p = {head: oracles.softmax(z.detach().double().numpy()) for head, z in logits.items()}
    for mine, other in (("main", "second"), ("second", "main")):
        target = p[other] ** 2 / (p[other] ** 2).sum(axis=1, keepdims=True)
        expected = (p[mine] - target) / (2 * 2 * 16)
        np.testing.assert_allclose(logits[mine].grad.numpy(), expected, atol=1e-6)


def test_dct_s_targets_get_no_gradient_and_adversarial_images_move_no_statistics():
    nets, batch = build(DCTSeg), tiny.batch(maps=())
    assert not torch.equal(*(next(net.parameters()) for net in nets.values()))
    p = {name: torch.softmax(torch.randn(2, 2, 16, 16), 1).requires_grad_() for name in nets}
    before = {name: statistics(net) for name, net in nets.items()}
    DCTSeg().fooled(nets, batch.unlabelled, p).backward()
    assert all(value.grad is None for value in p.values())
    for name, net in nets.items():
        assert any(q.grad is not None and q.grad.any() for q in net.parameters())
        assert all(torch.equal(value, before[name][key]) for key, value in statistics(net).items())


def test_dct_predicts_by_the_first_network_or_by_the_mean():
    nets, image = build(DCTSeg, classes=4), tiny.batch(classes=4).labelled.image
    for net in nets.values():
        net.eval()
    with torch.no_grad():
        first, second = (net(image)["main"].softmax(1) for net in nets.values())
        for predicts, expected in (("student", first), ("mean", (first + second) / 2)):
            method = DCTSeg(predicts=predicts)
            for uncertainty in (True, False):
                found = method.segmenter(nets, uncertainty=uncertainty)(image)
                torch.testing.assert_close(found.probabilities, expected)


def test_sizes_are_learnt_first_and_then_left_alone():
    nets, batch = build(SizeConstraint, classes=4), tiny.batch(classes=4, maps=())
    method = SizeConstraint()
    assert [update.trains for update in method.objectives("pretrain")] == [("sizes",), ("student",)]
    (update,) = method.objectives("train")
    run(nets, update, batch)
    assert all(p.grad is None for p in nets["sizes"].parameters())
    changed = replace(batch, labelled=replace(batch.labelled, image=batch.labelled.image + 1))
    nets["student"].zero_grad(set_to_none=True)
    sizes = method.objectives("pretrain")[0]
    assert float(run(nets, sizes, batch).total) != float(run(nets, sizes, changed).total)


def test_dtc_s_tasks_agree_where_each_says_what_the_other_does():
    method = DTC()
    label = torch.zeros(1, 16, 16, dtype=torch.long)
    label[:, 4:12, 5:11] = 1
    main = torch.stack([-200.0 * (label == 1), -200.0 * (label == 0)], dim=1)
    distance = torch.where(label == 1, -1.0, 1.0).unsqueeze(1)
    assert method.disagreement(main, distance).abs().max() < 1e-6
    assert method.disagreement(main, -distance).min() > 0.99


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(InputError, match="temperature"):
        DMNet(temperature=0.0)
    with pytest.raises(InputError, match="before they are used"):
        SizeConstraint(pretrain_epochs=0)


# What all have in common


@pytest.mark.parametrize("method", ALL)
def test_without_unlabelled_images_there_are_supervised_terms_alone(method):
    nets, batch = build(method, classes=4), replace(tiny.batch(classes=4, maps=()), unlabelled=None)
    for phase in method().phases:
        for update in method().objectives(phase.name):
            terms = backward(nets, update, batch, tiny.at(phase.name), Accel())
            assert torch.isfinite(terms.total)
            assert set(terms.values) <= {"ce", "second_ce", "distance", "critic", "sizes"}


@pytest.mark.parametrize("method", ALL)
def test_another_body_and_more_channels(method):
    torch.manual_seed(0)
    batch = tiny.batch(2, 3, maps=())
    wide = [replace(one, image=one.image.repeat(1, 2, 1, 1)) for one in (batch.labelled, batch.unlabelled)]
    batch = Batch(labelled=wide[0], unlabelled=wide[1])
    nets = method().nets(replace(tiny.make_net(2, 3, channels=2), net=Net(body="vnet", width=4, levels=2)))
    for update in method().objectives(method().phases[-1].name):
        assert torch.isfinite(run(nets, update, batch).total)


@pytest.mark.parametrize("method", ALL)
def test_it_says_what_it_is(method):
    assert method.paper
    assert method.high
    assert method.low
    assert method.__doc__.count("\n") == 0
