"""One binary sub-task for each object: each is the method it wraps, and together they are the paper's vote."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from coranet.engine.codec import decode, override
from coranet.engine.optimizers import make_optimizers
from coranet.engine.run import Accel, Optim
from coranet.engine.step import Updates
from coranet.errors import InputError
from coranet.methods import METHODS, WRAPPERS, Method, find_method, method_name
from coranet.methods.coranet import CoraNet
from coranet.methods.mean_teacher import MeanTeacher
from coranet.methods.one_vs_rest import OneVsRest, numbered_update, sub_task
from coranet.methods.supervised import Supervised
from coranet.methods.vote import Vote, merge_masks, merge_probabilities, merge_regions, of_object
from coranet.nets import count_parameters
from coranet.ops.passes import evaluating
from coranet.types import Regions, Terms, Trace, Update
from coranet.uncertainty import Softmax
from tests import oracles, tiny
from tests.methods.test_contract import WRAPPED

every_method = pytest.mark.parametrize("name", WRAPPED)
MAPS = tuple(f"{k}.{name}" for k in (1, 2, 3) for name in ("label", "certain"))
# Steps of 1/64 are exact in single precision, and meet one half and each other often.
CONFIDENCES = arrays.arrays(
    np.float32,
    arrays.array_shapes(min_dims=3, max_dims=3, max_side=4),
    elements=st.integers(0, 64).map(lambda n: n / 64),
)


def build(inner, objects=3):
    method = OneVsRest(inner=inner, objects=objects)
    torch.manual_seed(0)
    return method, method.nets(tiny.make_net(classes=objects + 1))


def predict(segmenter):
    with evaluating(segmenter.net), torch.no_grad():
        return segmenter(tiny.batch().labelled.image)


@settings(deadline=None)
@given(CONFIDENCES)
def test_the_most_likely_class_is_the_vote(confidence):
    merged = merge_probabilities(torch.from_numpy(confidence))
    np.testing.assert_array_equal(merged.argmax(dim=1).numpy(), oracles.vote(confidence))
    torch.testing.assert_close(merged.sum(dim=1), torch.ones_like(merged[:, 0]))
    assert (merged >= 0).all()


@settings(deadline=None)
@given(CONFIDENCES, st.integers(0, 2**32 - 1))
def test_masks_merge_into_the_most_confident_that_is_set(confidence, seed):
    masks = np.random.default_rng(seed).integers(0, 2, confidence.shape).astype(np.uint8)
    merged = merge_masks(torch.from_numpy(masks), torch.from_numpy(confidence))
    assert merged.dtype == torch.uint8
    np.testing.assert_array_equal(merged.numpy(), oracles.vote(confidence, masks))


def test_with_one_object_nothing_changes():
    confidence = torch.rand(2, 1, 16, 16)
    torch.testing.assert_close(merge_probabilities(confidence), torch.cat([1 - confidence, confidence], dim=1))


def test_certain_is_what_no_object_doubts():
    generator = torch.Generator().manual_seed(0)
    regions = [
        Regions(certain=torch.rand(2, 30, generator=generator) < 0.7, score=torch.rand(2, 30, generator=generator))
        for _ in range(3)
    ]
    merged = merge_regions(regions, torch.rand(2, 3, 30, generator=generator))
    certain, score = (np.stack([getattr(one, name).numpy() for one in regions]) for name in ("certain", "score"))
    np.testing.assert_array_equal(merged.uncertain.numpy(), (~certain).any(axis=0))
    np.testing.assert_array_equal(merged.score.numpy(), score.max(axis=0))
    assert merged.maps == {}


@every_method
def test_every_sub_task_is_the_method_on_its_own(name):
    """Losses, their weights and what moves without gradients: to the bit what the method gives for `label == k`."""
    method, nets = build(METHODS[name]())
    inner, batch = METHODS[name](), tiny.batch(classes=4, maps=MAPS)
    alone = {k: copy.deepcopy(of_object(k, nets)) for k in (1, 2, 3)}
    for phase in (phase.name for phase in inner.phases):
        at, expected = tiny.at(phase), []
        method.begin_phase(nets, phase)
        for k in (1, 2, 3):
            mine = replace(
                batch,
                labelled=replace(batch.labelled, label=(batch.labelled.label == k).long()),
                unlabelled=replace(
                    batch.unlabelled, maps={n: batch.unlabelled.maps[f"{k}.{n}"] for n in ("label", "certain")}
                ),
            )
            inner.begin_phase(alone[k], phase)
            for update in inner.objectives(phase):
                torch.manual_seed(0)
                expected.append((k, update, update.loss(alone[k], mine, at)))
        found = []
        for update in method.objectives(phase):
            torch.manual_seed(0)
            found.append((update, update.loss(nets, batch, at)))
        for (k, plain, theirs), (update, terms) in zip(expected, found, strict=True):
            assert (update.name, update.optimizer) == (f"{k}.{plain.name}", f"{k}.{plain.optimizer}")
            assert update.trains == tuple(f"{k}.{net}" for net in plain.trains)
            assert torch.equal(terms.total, theirs.total)
            for kind in ("values", "weights"):
                assert set(getattr(terms, kind)) == {f"{k}.{n}" for n in getattr(theirs, kind)}
            assert set(terms.measures) == {name for n in theirs.measures for name in (n, f"{k}.{n}")}
        method.after_step(nets, at)
        for k, own in alone.items():
            inner.after_step(own, at)
            for net, module in own.items():
                assert all(torch.equal(v, nets[f"{k}.{net}"].state_dict()[n]) for n, v in module.state_dict().items())


def test_the_sum_of_all_sub_tasks():
    method, nets = build(MeanTeacher(weight=3.0))
    batch, at = tiny.batch(classes=4, maps=MAPS), tiny.at("train")
    torch.manual_seed(0)
    terms = method.loss(nets, batch, at)
    torch.manual_seed(0)
    parts = [update.loss(nets, batch, at).total for update in method.objectives("train")]
    assert set(terms.values) == {f"{k}.{name}" for k in (1, 2, 3) for name in ("ce", "consistency")}
    torch.testing.assert_close(terms.total, torch.stack(parts).sum())


def test_networks_are_numbered_of_two_classes_and_start_apart():
    _, nets = build(CoraNet())
    assert list(nets) == [f"{k}.{name}" for k in (1, 2, 3) for name in ("student", "teacher")]
    assert all(nets[f"{k}.student"].heads["main"][-1].out_channels == 2 for k in (1, 2, 3))
    assert not torch.equal(*(next(nets[f"{k}.student"].parameters()) for k in (1, 2)))


def test_rates_and_traces_are_kept():
    """What an update says beside its loss holds for every object's."""

    def loss(nets, batch, at):
        return Terms(values={"one": torch.zeros(())}, traces={"seen": Trace(values=torch.ones(1, 1, 2, 2), decay=0.6)})

    update = numbered_update(2, Update(name="critic", loss=loss, trains=("critic",), optimizer="critic", rate=0.1))
    assert (update.name, update.trains, update.optimizer, update.rate) == ("2.critic", ("2.critic",), "2.critic", 0.1)
    batch = tiny.batch()
    assert update.loss({}, batch, tiny.at("train")).traces["2.seen"].decay == 0.6


def test_an_object_s_number_is_read_whole():
    assert of_object(1, {"1.a": 1, "11.a": 2, "a": 3}) == {"a": 1}


@every_method
def test_each_sub_task_remembers_its_own_prediction(name):
    inner = METHODS[name]()
    method, nets = build(inner)
    prediction = predict(method.segmenter(nets))
    assert len(prediction.objects) == 3
    expected = {}
    for k in (1, 2, 3):
        alone = predict(inner.segmenter(of_object(k, nets)))
        expected |= {f"{k}.{n}": values for n, values in inner.remember(alone).items()}
    kept = method.remember(prediction)
    assert kept.keys() == expected.keys()
    assert all(torch.equal(kept[n], values) for n, values in expected.items())


def test_conservative_and_radical_maps_are_merged():
    method, nets = build(CoraNet())
    prediction = predict(method.segmenter(nets))
    confidence = torch.stack([one.probabilities[:, 1] for one in prediction.objects], dim=1).flatten(2)
    for name in ("conservative", "radical"):
        masks = torch.stack([one.regions.maps[name] for one in prediction.objects], dim=1).flatten(2)
        expected = oracles.vote(confidence.numpy(), masks.numpy())
        np.testing.assert_array_equal(prediction.regions.maps[name].flatten(1).numpy(), expected)


def test_without_uncertainty_the_main_heads_alone():
    method, nets = build(CoraNet())
    segmenter = method.segmenter(nets, uncertainty=False)
    prediction = predict(segmenter)
    assert segmenter.estimator is None
    assert prediction.regions is None
    assert torch.equal(prediction.probabilities, predict(method.segmenter(nets)).probabilities)
    assert count_parameters(segmenter.net) == sum(count_parameters(nets[f"{k}.teacher"]) for k in (1, 2, 3))


def test_the_networks_are_one_module():
    method, nets = build(Supervised())
    segmenter = method.segmenter(nets)
    assert isinstance(segmenter, Vote)
    assert count_parameters(segmenter.net) == 3 * count_parameters(nets["1.student"])
    assert set(segmenter.infer(tiny.batch().labelled.image)) == {"1.main", "2.main", "3.main"}
    segmenter.net.to(torch.float64).eval()
    assert all(p.dtype == torch.float64 for p in nets["3.student"].parameters())
    assert not nets["2.student"].training


@pytest.mark.parametrize("predicts", ["student", "teacher"])
def test_a_look_at_the_prediction_leaves_every_network_in_its_mode(predicts):
    method, nets = build(MeanTeacher(predicts=predicts))
    predict(method.segmenter(nets))
    assert {name: module.training for name, module in nets.items()} == {name: name.endswith("student") for name in nets}


def test_measures_are_logged_for_each_object_and_as_their_mean():
    method, nets = build(CoraNet())
    updates = Updates(method, nets, make_optimizers(method, nets, Optim()), Accel())
    logged = updates(tiny.batch(classes=4, maps=MAPS), tiny.at("selftrain"), 1e-3).measures
    assert list(logged) == ["uncertain_share", "1.uncertain_share", "2.uncertain_share", "3.uncertain_share"]
    each = [float(logged[f"{k}.uncertain_share"]) for k in (1, 2, 3)]
    assert len(set(each)) == 3
    assert float(logged["uncertain_share"]) == pytest.approx(np.mean(each))


def test_without_unlabelled_images():
    method, nets = build(CoraNet())
    alone = method.on_labels_alone()
    assert alone == OneVsRest(inner=CoraNet().on_labels_alone(), objects=3)
    batch = replace(tiny.batch(classes=4), unlabelled=None)
    assert sub_task(2, batch).unlabelled is None
    names = [update.name for update in alone.objectives("selftrain")]
    assert names == ["1.crm", "2.crm", "3.crm"]
    assert all(
        torch.isfinite(update.loss(nets, batch, tiny.at("selftrain")).total) for update in alone.objectives("selftrain")
    )


def test_what_is_not_per_object_is_the_inner_method_s():
    inner = CoraNet(regions=Softmax(threshold=0.7), pretrain_epochs=3)
    method = OneVsRest(inner=inner, objects=2)
    assert method.phases == inner.phases
    assert method.estimator == inner.estimator


def test_a_run_file_names_it_and_a_user_does_not():
    assert not WRAPPERS.keys() & METHODS.keys()
    assert find_method("one_vs_rest") is OneVsRest
    content = {"kind": "one_vs_rest", "inner": {"kind": "coranet", "beta": 0.9}, "objects": 3}
    method = decode(Method, content)
    assert method == OneVsRest(inner=CoraNet(beta=0.9), objects=3)
    assert override(method, "inner.regions.alpha", "2").inner.regions.alpha == 2.0
    with pytest.raises(InputError, match="one_vs_rest wraps another method: use --classes binary"):
        method_name("one_vs_rest")


def test_wrong_settings_say_what_is_right():
    with pytest.raises(InputError, match="at least one object, not 0"):
        OneVsRest(inner=CoraNet(), objects=0)
    with pytest.raises(InputError, match="belongs to the method of each sub-task"):
        OneVsRest(inner=CoraNet(), objects=3, dice=1.0)
    with pytest.raises(InputError, match="objects is 5, but the labels have 3 objects"):
        OneVsRest(inner=CoraNet(), objects=5).nets(tiny.make_net(classes=4))


def test_the_dice_term_is_the_inner_method_s():
    method, nets = build(CoraNet(dice=0.5))
    terms = method.objectives("pretrain")[1].loss(nets, tiny.batch(classes=4), tiny.at("pretrain"))
    assert set(terms.values) == {"2.ce", "2.dice", "2.con", "2.rad"}
