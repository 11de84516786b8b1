"""What every method must keep to, in two and in three dimensions: one list of tests for all of them."""

import copy
from dataclasses import replace

import pytest
import torch

from coranet.engine.optim import make_optimizers
from coranet.engine.run import Accel, Optim
from coranet.engine.step import backward
from coranet.methods import METHODS
from tests import tiny

pytestmark = pytest.mark.parametrize("dims", [2, 3])
every_method = pytest.mark.parametrize("name", METHODS)
EXACT = Accel()


def build(name, dims, classes=3, **fields):
    method = METHODS[name](**fields)
    torch.manual_seed(0)
    return method, method.nets(tiny.make_net(dims, classes))


def phases(method):
    return [phase.name for phase in method.phases]


def train_step(method, nets, optimizers, dims, phase, step=5, classes=3, accel=EXACT, batch=None):
    torch.manual_seed(step)
    batch = batch or tiny.batch(dims, classes, seed=step)
    terms = []
    for update in method.objectives(phase):
        optimizer = optimizers[update.optimizer]
        optimizer.zero_grad(set_to_none=True)
        terms.append(backward(nets, update, batch, tiny.at(phase, step), accel))
        optimizer.step()
    method.after_step(nets, tiny.at(phase, step))
    return terms


def weights(nets):
    return {f"{n}.{key}": value.clone() for n, net in nets.items() for key, value in net.state_dict().items()}


@every_method
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_all_terms_are_finite(name, dims, precision):
    method, nets = build(name, dims)
    optimizers = make_optimizers(method, nets, Optim())
    for phase in phases(method):
        method.begin_phase(nets, phase)
        for terms in train_step(method, nets, optimizers, dims, phase, accel=Accel(precision=precision)):
            assert terms.values
            assert all(torch.isfinite(value) for value in terms.values.values())
    assert all(torch.isfinite(value).all() for value in weights(nets).values())


@every_method
def test_every_trainable_parameter_learns(name, dims):
    method, nets = build(name, dims)
    reached = set()
    for phase in phases(method):
        method.begin_phase(nets, phase)
        for update in method.objectives(phase):
            for net in nets.values():
                net.zero_grad(set_to_none=True)
            backward(nets, update, tiny.batch(dims, 3), tiny.at(phase), EXACT)
            learning = {
                (n, key) for n in nets for key, p in nets[n].named_parameters() if p.grad is not None and p.grad.any()
            }
            assert {n for n, _ in learning} == set(update.trains)
            reached |= learning
    trained = {n for phase in phases(method) for update in method.objectives(phase) for n in update.trains}
    missing = {(n, key) for n in trained for key, _ in nets[n].named_parameters()} - reached
    assert not missing


@every_method
def test_unlabelled_images_change_the_student_unless_it_is_supervised(name, dims):
    method, nets = build(name, dims)
    phase = phases(method)[-1]

    def gradient(batch):
        copies = copy.deepcopy(nets)
        for update in method.objectives(phase):
            torch.manual_seed(0)
            backward(copies, update, batch, tiny.at(phase), EXACT)
        return torch.cat([p.grad.flatten() for p in copies["student"].parameters() if p.grad is not None])

    method.begin_phase(nets, phase)
    with torch.no_grad():  # a teacher that equals its student has nothing to teach
        for key, net in nets.items():
            if key != "student":
                for p in net.parameters():
                    p.add_(torch.randn_like(p) * 0.1)
    one = tiny.batch(dims, 3)
    other = tiny.with_unlabelled(one, one.unlabelled.image.flip(0) * 1.5)
    changed = not torch.equal(gradient(one), gradient(other))
    assert changed == (name != "supervised")


@every_method
def test_the_teacher_gets_no_gradient_and_moves_by_its_share(name, dims):
    method, nets = build(name, dims)
    if "teacher" not in nets:
        return
    optimizers, phase = make_optimizers(method, nets, Optim()), phases(method)[-1]
    method.begin_phase(nets, phase)
    buffers = name != "coranet:released"
    owned = {id(p) for o in optimizers.values() for group in o.param_groups for p in group["params"]}
    assert not owned & {id(p) for p in nets["teacher"].parameters()}
    before = {k: v.clone() for k, v in nets["teacher"].state_dict().items()}
    train_step(method, nets, optimizers, dims, phase)
    assert all(p.grad is None for p in nets["teacher"].parameters())
    student, teacher = nets["student"].state_dict(), nets["teacher"].state_dict()
    moved = False
    for key, value in teacher.items():
        is_buffer = key in dict(nets["teacher"].named_buffers())
        if value.is_floating_point() and (buffers or not is_buffer):
            expected = before[key] + (1 - method.beta) * (student[key] - before[key])
            torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-5)
            moved |= not torch.equal(value, before[key])
    assert moved


@every_method
def test_one_seed_one_result_and_resuming_gives_the_same_next_step(name, dims):
    method, nets = build(name, dims)
    optimizers, phase = make_optimizers(method, nets, Optim()), phases(method)[-1]
    method.begin_phase(nets, phase)
    train_step(method, nets, optimizers, dims, phase, step=3)
    kept = copy.deepcopy(({n: net.state_dict() for n, net in nets.items()}, optimizers["main"].state_dict()))
    train_step(method, nets, optimizers, dims, phase, step=4)
    again_method, again = build(name, dims)
    again_optimizers = make_optimizers(again_method, again, Optim())
    for n, net in again.items():
        net.load_state_dict(kept[0][n])
    again_optimizers["main"].load_state_dict(kept[1])
    train_step(again_method, again, again_optimizers, dims, phase, step=4)
    expected = weights(nets)
    assert all(torch.equal(value, expected[key]) for key, value in weights(again).items())


@every_method
def test_nothing_reads_labels_of_unlabelled_images_or_pixels_outside(name, dims):
    method, nets = build(name, dims)
    phase = phases(method)[-1]
    method.begin_phase(nets, phase)
    one = tiny.batch(dims, 3)
    assert one.unlabelled.label is None
    assert not one.labelled.valid.all()
    assert not one.unlabelled.valid.all()
    outside = {
        name: torch.where(one.unlabelled.valid, m, 1 - m.clamp(max=1)) for name, m in one.unlabelled.maps.items()
    }
    other = replace(
        one,
        labelled=replace(one.labelled, label=torch.where(one.labelled.valid, one.labelled.label, 2)),
        unlabelled=replace(one.unlabelled, maps=outside),
    )
    for update in method.objectives(phase):
        found = []
        for batch in (one, other):
            torch.manual_seed(0)
            found.append(float(backward(copy.deepcopy(nets), update, batch, tiny.at(phase), EXACT).total))
        assert found[0] == found[1]


@every_method
def test_predictions_are_probabilities_with_regions(name, dims):
    method, nets = build(name, dims)
    net = method.inference_net(nets).eval()
    with torch.no_grad():
        prediction = method.decide(method.infer(net, tiny.batch(dims, 3).labelled.image))
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(2, *tiny.SHAPES[dims]))
    assert prediction.regions.certain.shape == (2, *tiny.SHAPES[dims])
    alone = method.inference_net(nets, uncertainty=False)
    assert set(alone.heads) == {"main"}
