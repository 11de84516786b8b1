"""Estimators of uncertainty against their equations, and each as a field of CoraNet."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from coranet.engine.codec import decode, encode
from coranet.engine.optimizers import make_optimizers
from coranet.engine.run import Optim
from coranet.errors import InputError
from coranet.methods.coranet import CoraNet
from coranet.methods.one_vs_rest import OneVsRest
from coranet.nets import count_parameters
from coranet.ops.passes import dropout_on
from coranet.ops.teacher import copy_weights
from coranet.runs.launch import train
from coranet.uncertainty import ESTIMATORS, TTA, Aleatoric, Ensemble, Estimator, MCDropout
from coranet.uncertainty.ensemble import EnsembleBody
from tests import oracles, tiny
from tests.methods import test_contract
from tests.methods.subjects import Subject
from tests.uncertainty.quick import QUICK

every_estimator = pytest.mark.parametrize("name", QUICK)
both_dims = pytest.mark.parametrize("dims", [2, 3])


@dataclass(frozen=True)
class ByEstimator(Subject):
    """CoraNet with an estimator in the place of the conservative-radical module."""

    @property
    def plain(self):
        return CoraNet(regions=QUICK[self.name])


class Pointwise(torch.nn.Module):
    """A network without context: p_1 is the image's own value, wherever it lies."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, image, heads=None):
        self.seen.append(image)
        p = image.float().clamp(1e-6, 1 - 1e-6)
        return {"main": torch.cat([(1 - p).log(), p.log()], dim=1)}


def ramp(shape):
    """Values that rise evenly along each axis, which linear interpolation meets exactly."""
    axes = [torch.linspace(0.1, 0.3, n) for n in shape]
    return sum(torch.meshgrid(*axes, indexing="ij")).expand(3, 1, *shape).contiguous()


# Contract


@pytest.mark.parametrize(
    ("name", "dims", "classes"),
    [
        (name, dims, 2 if (dims == 2) == (number % 2 == 0) else 4)  # by pairs
        for number, name in enumerate(QUICK)
        for dims in (2, 3)
    ],
)
def test_contract_as_a_field_of_coranet(name, dims, classes):
    subject = ByEstimator(name, classes)
    test_contract.test_all_terms_are_finite(subject, dims, "bf16")
    test_contract.test_every_trainable_parameter_learns(subject, dims)
    test_contract.test_the_teacher_gets_no_gradient_and_moves_by_its_share(subject, dims)
    test_contract.test_one_seed_one_result_and_resuming_gives_the_same_next_step(subject, dims)
    test_contract.test_nothing_reads_labels_of_unlabelled_images_or_pixels_outside(subject, dims)
    test_contract.test_predictions_are_probabilities_with_regions(subject, dims)


@every_estimator
def test_each_object_has_an_estimator_of_its_own_in_one_versus_rest(name):
    test_contract.test_every_trainable_parameter_learns(ByEstimator(name, 3, True), 2)
    test_contract.test_predictions_are_probabilities_with_regions(ByEstimator(name, 3, True), 2)


@every_estimator
def test_online_masks_leave_networks_as_they_were(name):
    method = CoraNet(regions=QUICK[name], masks="online")
    nets, batch = method.nets(tiny.make_net()), tiny.batch(maps=())
    before = test_contract.weights(nets)
    label, certain = method.targets(nets, batch.unlabelled)
    assert label.shape == certain.shape == (2, 16, 16)
    after = test_contract.weights(nets)
    assert all(torch.equal(after[key], value) for key, value in before.items())
    assert nets["student"].training
    assert all(layer.training for layer in nets["student"].modules())


@every_estimator
def test_only_who_says_the_same_twice_has_a_rule(name):
    """Whoever has none is not exported."""
    estimator = QUICK[name]
    nets = CoraNet(regions=estimator).nets(tiny.make_net())
    net = estimator.join(nets["student"].eval(), nets)
    image = torch.rand(1, 1, 16, 16)
    first, second = (estimator.judge(estimator.infer(net, image)).score for _ in range(2))
    assert torch.equal(first, second) == bool(estimator.rule)


def test_runs_name_every_estimator():
    assert {"crm", "softmax", "tta", "mc_dropout", "aleatoric", "ensemble"} <= ESTIMATORS.keys()  # the paper's
    for name in ESTIMATORS:
        method = CoraNet(regions=ESTIMATORS[name]())
        assert decode(Estimator, json.loads(json.dumps(encode(method.regions)))) == method.regions
        assert decode(Estimator, name) == method.regions


@pytest.mark.parametrize(
    "make",
    [
        lambda: TTA(passes=0),
        lambda: TTA(scale=(1.1, 0.8)),
        lambda: TTA(shift=0.0),
        lambda: TTA(shift=1.0),
        lambda: MCDropout(rate=1.0),
        lambda: MCDropout(threshold=2.0),
        lambda: Aleatoric(draws=1),
        lambda: Aleatoric(threshold=0.0),
        lambda: Ensemble(members=0),
    ],
)
def test_settings_that_mean_nothing_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_a_run_that_draws_is_reproducible(scans, small, tmp_path):
    regions = {"kind": "mc_dropout", "threshold": 0.5, "passes": 2}
    changes = (("method.regions", json.dumps(regions)), ("train.checks", "1"))
    logs = []
    for folder in ("one", "other"):
        train(scans, tmp_path / folder, small(steps=4, overrides=changes))
        lines = [json.loads(line) for line in (tmp_path / folder / "log.jsonl").read_text().splitlines()]
        logs.append([line["terms"] for line in lines])
    assert logs[0] == logs[1]


# Test-time augmentation


@both_dims
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_views_are_mapped_back_to_where_they_came_from(dims, precision):
    image = ramp({2: (24, 20), 3: (12, 10, 8)}[dims])
    net = Pointwise()
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        p = TTA(passes=30).infer(net, image)["main"]
    inner = (slice(None), 0, *[slice(2, -2)] * dims)
    torch.testing.assert_close(p[:, 1:][inner], image[inner], atol=1e-5, rtol=0)
    torch.testing.assert_close(p[:, 1:], image, atol=0.01, rtol=0)  # views at the border end between two pixels
    torch.testing.assert_close(p.sum(1), torch.ones_like(p[:, 0]))
    assert len(net.seen) == 30


@both_dims
def test_views_really_differ(dims):
    image = torch.randn(2, 1, *{2: (24, 20), 3: (12, 10, 8)}[dims])
    net = Pointwise()
    TTA(passes=20).infer(net, image)
    assert torch.equal(net.seen[0], image)
    others = [view[number] for view in net.seen[1:] for number in range(2)]
    different = sum(not torch.allclose(view, image[n % 2], atol=1e-3) for n, view in enumerate(others))
    assert different >= {2: 38, 3: 30}[dims]  # in three dimensions, one shift in 16 of so few voxels is none
    assert not torch.allclose(others[0], others[1])


def test_views_are_those_of_the_paper():
    """2D: mirrored one time in two, along the first axis alone, 0.8 to 1.1 times as large. 3D: shifted by whole voxels."""
    torch.manual_seed(0)
    there, back = TTA().draw(torch.zeros(2000, 1, 24, 20))
    first, second = there.matrix[:, 0, 0], there.matrix[:, 1, 1]
    assert 0.45 < float((first < 0).float().mean()) < 0.55
    torch.testing.assert_close(first.abs(), second)
    assert 0.8 <= float(1 / second.max()) < 0.81
    assert 1.09 < float(1 / second.min()) <= 1.1
    torch.testing.assert_close(back.matrix @ there.matrix, torch.eye(2).expand(2000, 2, 2))
    there, back = TTA(shift=0.25).draw(torch.zeros(500, 1, 12, 8, 4))
    moved = there.target - there.centre
    assert torch.equal(moved, moved.round())
    assert moved.abs().amax(0).tolist() == [3, 2, 1]
    assert torch.equal(back.target - back.centre, -moved)


def test_a_pixel_that_a_view_leaves_out_is_averaged_over_the_others():
    """A network that says 1 in views and 0 of the image itself: at the border fewer views have a say."""

    class Contrary(torch.nn.Module):
        calls = 0

        def forward(self, image, heads=None):
            logit = torch.full_like(image, 20.0 if self.calls else -20.0)
            self.calls += 1
            return {"main": torch.cat([-logit, logit], dim=1)}

    p = TTA(passes=2, scale=(2.0, 2.0)).infer(Contrary(), torch.zeros(1, 1, 16, 16))["main"][0, 1]
    torch.testing.assert_close(p[5:11, 5:11], torch.full((6, 6), 0.5))
    assert float(p[:3].max()) < 1e-6


# Monte Carlo dropout


@both_dims
def test_dropout_draws_and_norms_keep_their_statistics(dims):
    estimator = MCDropout(passes=7)
    net = CoraNet(regions=estimator).nets(tiny.make_net(dims))["student"]
    image = tiny.batch(dims).unlabelled.image
    net(image)  # running statistics that are not those of a new network
    with torch.no_grad():
        net.heads["main"][-1].weight *= 100  # far from one half, where means of logits and of probabilities part
    net.eval()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    with torch.no_grad():
        torch.manual_seed(3)
        found = estimator.infer(net, image)["main"]
        torch.manual_seed(3)
        with dropout_on(net):
            assert {type(layer).__name__ for layer in net.modules() if layer.training} == {"Dropout"}
            logits = [net(image)["main"].double().numpy() for _ in range(7)]
        alone = oracles.softmax(net(image)["main"].double().numpy())
    assert not any(layer.training for layer in net.modules())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    passes = [oracles.softmax(one) for one in logits]
    assert min(np.abs(passes[0] - one).max() for one in passes[1:]) > 1e-4
    np.testing.assert_allclose(found.numpy(), np.mean(passes, axis=0), atol=1e-6)
    assert np.abs(found.numpy() - oracles.softmax(np.mean(logits, axis=0))).max() > 1e-6
    assert np.abs(found.numpy() - alone).max() > 1e-4


def test_dropout_lies_on_the_coarsest_feature_and_the_last_and_is_on_in_training():
    method = CoraNet(regions=MCDropout())
    nets = method.nets(tiny.make_net())
    layers = {key: layer for key, layer in nets["student"].named_modules() if isinstance(layer, torch.nn.Dropout)}
    assert {key: layer.p for key, layer in layers.items()} == {"dropout": 0.5, "decoders.main.dropout": 0.5}
    assert method.needs == {"dropout"} == OneVsRest(inner=method, objects=2).needs
    image = tiny.batch().labelled.image
    assert not torch.equal(nets["student"](image)["main"], nets["student"](image)["main"])
    assert torch.equal(nets["teacher"](image)["main"], nets["teacher"](image)["main"])


def test_confidence_is_that_of_the_mean():
    p = torch.tensor([0.75, 0.85, 0.1]).view(1, 1, 3)
    for estimator in (TTA(), MCDropout()):
        regions = estimator.judge({"main": torch.cat([1 - p, p], dim=1)})
        assert regions.certain.tolist() == [[False, True, True]]
        torch.testing.assert_close(regions.score, torch.tensor([[0.25, 0.15, 0.1]]))


# Aleatoric uncertainty


def drawn_noise(shape, draws, seed):
    torch.manual_seed(seed)
    return [torch.randn(shape, dtype=torch.float64).numpy() for _ in range(draws)]


@both_dims
@pytest.mark.parametrize("classes", [2, 4])
def test_aleatoric_loss_and_std(dims, classes):
    draws, shape = {2: 20, 3: 10}[dims], (2, classes, *tiny.SHAPES[dims])
    generator = torch.Generator().manual_seed(1)
    heads = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name in ("main", "mean", "spread")}
    label = torch.randint(0, classes, (2, *shape[2:]), generator=generator)
    mean, sigma = heads["mean"].numpy(), np.exp(heads["spread"].numpy())
    samples = [oracles.softmax(mean + sigma * noise) for noise in drawn_noise(shape, draws, seed=4)]
    average = np.mean(samples, axis=0)
    expected = -np.log(np.take_along_axis(average, label.numpy()[:, None], axis=1))[:, 0]
    torch.manual_seed(4)
    np.testing.assert_allclose(Aleatoric().losses(heads, label)["aleatoric"].numpy(), expected, atol=1e-6)

    torch.manual_seed(4)
    maps = Aleatoric().infer(lambda image, names: {name: heads[name] for name in names}, None)
    std = np.sqrt(np.mean([(one - average) ** 2 for one in samples], axis=0))
    np.testing.assert_allclose(maps["std"].numpy(), std, atol=1e-6)
    np.testing.assert_allclose(maps["main"].numpy(), oracles.softmax(heads["main"].numpy()), atol=1e-6)
    regions = Aleatoric(threshold=0.2).judge(maps)
    np.testing.assert_array_equal(regions.certain.numpy(), std.max(axis=1) < 0.2)
    assert 0 < regions.certain.float().mean() < 1
    np.testing.assert_allclose(regions.score.numpy(), std.max(axis=1), atol=1e-6)


def test_pixels_outside_the_certain_region_teach_nothing():
    """The mask is really used: pseudo-labels of uncertain pixels change no loss, those of certain ones do."""
    method = CoraNet(regions=Aleatoric(), mean_teacher=False)
    nets, batch = method.nets(tiny.make_net()), tiny.batch()
    certain, label = batch.unlabelled.maps["certain"], batch.unlabelled.maps["label"]

    def loss(changed):
        batch.unlabelled.maps["label"] = torch.where(changed, 1 - label, label)
        return float(method.certain_loss(nets, batch, tiny.at("selftrain")).total.detach())

    nets["student"].eval()
    assert loss(certain == 0) == loss(certain > 1) != loss(certain == 1)


def test_a_spread_of_nothing_is_certain_everywhere():
    heads = {
        "main": torch.randn(1, 3, 8, 8),
        "mean": torch.randn(1, 3, 8, 8),
        "spread": torch.full((1, 3, 8, 8), -20.0),
    }
    maps = Aleatoric().infer(lambda image, names: heads, None)
    assert Aleatoric().judge(maps).certain.all()
    heads["spread"] = torch.zeros(1, 3, 8, 8)
    assert not Aleatoric().judge(Aleatoric().infer(lambda image, names: heads, None)).certain.any()


# Ensemble


@pytest.mark.parametrize("classes", [2, 4])
def test_ensemble_is_the_mean_of_its_members_and_the_label_the_student_s(classes):
    method = CoraNet(regions=Ensemble(members=3, threshold=0.45))
    nets, image = method.nets(tiny.make_net(classes=classes)), tiny.batch().unlabelled.image
    segmenter = method.segmenter(nets)
    segmenter.net.eval()
    with torch.no_grad():
        maps = segmenter.infer(image)
        each = [oracles.softmax(member.eval()(image)["main"].double().numpy()) for member in nets["members"]]
        main = oracles.softmax(nets["student"].eval()(image)["main"].double().numpy())
    assert np.abs(each[0] - each[1]).max() > 1e-3
    np.testing.assert_allclose(maps["members"].numpy(), np.mean(each, axis=0), atol=1e-6)
    np.testing.assert_allclose(maps["main"].numpy(), main, atol=1e-6)
    prediction = segmenter.decide(maps)
    np.testing.assert_array_equal(prediction.regions.certain.numpy(), np.mean(each, axis=0).max(axis=1) > 0.45)
    np.testing.assert_allclose(prediction.probabilities.numpy(), main, atol=1e-6)


def test_members_learn_labels_alone_each_as_if_it_were_the_only_one():
    method, batch = CoraNet(regions=Ensemble(members=2)), tiny.batch()
    nets = method.nets(tiny.make_net())
    (update,) = method.regions.updates()
    assert method.objectives("pretrain")[-1] == method.objectives("selftrain")[-1] == update
    terms = update.loss(nets, batch, tiny.at("selftrain"))
    valid, label = batch.labelled.valid, batch.labelled.label
    for member, value in zip(nets["members"], terms.values.values(), strict=True):
        logits = member(batch.labelled.image)["main"].detach().double().numpy().reshape(2, 2, -1)
        loss = oracles.cross_entropy(logits, label.numpy().reshape(2, -1))
        everywhere = np.ones_like(loss, bool)
        expected = oracles.masked_mean(loss, everywhere, valid.numpy().reshape(2, -1))
        assert float(value.detach()) == pytest.approx(expected, abs=1e-6)
    first, second = nets["members"]
    terms.values["member 1"].backward()
    assert all(p.grad is None for p in second.parameters())
    assert all(p.grad is not None for p in first.parameters())


def test_members_travel_with_uncertainty_alone():
    method = CoraNet(regions=Ensemble(members=2))
    nets, plain = method.nets(tiny.make_net()), count_parameters(tiny.make_net()())
    alone = method.segmenter(nets, uncertainty=False).net
    assert isinstance(method.segmenter(nets).net, EnsembleBody)
    assert count_parameters(method.segmenter(nets).net) == 3 * plain
    assert count_parameters(alone) == count_parameters(nets["teacher"]) == plain
    copy_weights(nets["teacher"], nets["student"])
    owners = make_optimizers(method, nets, Optim())
    assert list(owners) == ["main"]
    nets["student"].eval()
    method.targets_now(nets, tiny.batch().unlabelled)
    assert not nets["student"].training
    assert all(member.training for member in nets["members"])
