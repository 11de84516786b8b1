"""What every method must keep to: one list of tests for all of them.

In two and in three dimensions, with two classes and with four, by pairs; some with four also as one-versus-rest.
"""

import copy
from dataclasses import replace
from itertools import product

import pytest
import torch

from coranet.engine.optimizers import make_optimizers
from coranet.engine.run import Accel, Optim
from coranet.engine.step import backward
from coranet.ops.passes import evaluating
from tests import tiny
from tests.methods.subjects import CASES, MAKERS, TAUGHT, WRAPPED, Subject, by_pairs, every_method, named

EXACT = Accel()


def phases(method):
    return [phase.name for phase in method.phases]


def test_every_pair_occurs():
    """Of method, dimensions, classes and precision."""
    rows = [
        (s.name, dims, "one-vs-rest" if s.one_vs_rest else s.classes, at) for s, dims, at in by_pairs("fp32", "bf16")
    ]
    names, ways = set(MAKERS), {2, 4, "one-vs-rest"}
    assert {(name, dims) for name, dims, _, _ in rows} == set(product(names, (2, 3)))
    assert {(name, way) for name, _, way, _ in rows} == {*product(names, (2, 4)), *product(WRAPPED, ("one-vs-rest",))}
    assert {(name, at) for name, _, _, at in rows} == set(product(names, ("fp32", "bf16")))
    assert {(dims, way) for _, dims, way, _ in rows} == set(product((2, 3), ways))
    assert {(dims, at) for _, dims, _, at in rows} == set(product((2, 3), ("fp32", "bf16")))
    assert {(way, at) for _, _, way, at in rows} == set(product(ways, ("fp32", "bf16")))
    assert [row[:2] for row in by_pairs("fp32", "bf16")] == CASES


def test_a_teacher_is_what_moves_without_gradients():
    taught = {subject.name for subject, _ in TAUGHT}
    assert {name for name in MAKERS if "teacher" in Subject(name, 2).build(2)[1]} == taught


def train_step(method, nets, optimizers, batch, phase, step=5, accel=EXACT):
    torch.manual_seed(step)
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


@pytest.mark.parametrize(("subject", "dims", "precision"), named(by_pairs("fp32", "bf16")))
def test_all_terms_are_finite(subject, dims, precision):
    method, nets = subject.build(dims)
    optimizers = make_optimizers(method, nets, Optim())
    for phase in phases(method):
        method.begin_phase(nets, phase)
        accel = Accel(precision=precision)
        for terms in train_step(method, nets, optimizers, subject.batch(dims, seed=5), phase, accel=accel):
            assert terms.values
            assert all(torch.isfinite(value) for value in terms.values.values())
    assert all(torch.isfinite(value).all() for value in weights(nets).values())


@every_method
def test_every_trainable_parameter_learns(subject, dims):
    method, nets = subject.build(dims)
    reached = set()
    for phase in phases(method):
        method.begin_phase(nets, phase)
        for update in method.objectives(phase):
            for net in nets.values():
                net.zero_grad(set_to_none=True)
            backward(nets, update, subject.batch(dims), tiny.at(phase), EXACT)
            learning = {
                (n, key) for n in nets for key, p in nets[n].named_parameters() if p.grad is not None and p.grad.any()
            }
            assert {n for n, _ in learning} == set(update.trains)
            reached |= learning
    trained = {n for phase in phases(method) for update in method.objectives(phase) for n in update.trains}
    missing = {(n, key) for n in trained for key, _ in nets[n].named_parameters()} - reached
    assert not missing


@every_method
def test_unlabelled_images_change_the_student_unless_it_is_supervised(subject, dims):
    method, nets = subject.build(dims)
    phase = phases(method)[-1]

    def gradients(batch):
        copies = copy.deepcopy(nets)
        for update in method.objectives(phase):
            torch.manual_seed(0)
            backward(copies, update, batch, tiny.at(phase, 20), EXACT)  # at the end, when every weight has grown
        students = [copies[f"{prefix}student"] for prefix in subject.prefixes]
        return [torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None]) for net in students]

    method.begin_phase(nets, phase)
    one = subject.batch(dims)
    with torch.no_grad():  # a teacher that equals its student has nothing to teach
        for key, net in nets.items():
            if not key.endswith("student"):
                for p in net.parameters():
                    p.add_(torch.randn_like(p) * 0.1)
            else:  # and a student that is unsure of everything teaches itself nothing where a threshold has to be passed
                net.heads["main"][-1].weight.mul_(50)
                for _ in range(20):
                    net(one.unlabelled.image)  # running statistics that are those of its images
    other = tiny.with_unlabelled(one, one.unlabelled.image.flip(0) * 1.5)
    for before, after in zip(gradients(one), gradients(other), strict=True):
        assert torch.equal(before, after) == (subject.name == "supervised")


@pytest.mark.parametrize(("subject", "dims"), named(TAUGHT))
def test_the_teacher_gets_no_gradient_and_moves_by_its_share(subject, dims):
    method, nets = subject.build(dims)
    teachers = {name: net for name, net in nets.items() if name.endswith("teacher")}
    assert list(teachers) == [f"{prefix}teacher" for prefix in subject.prefixes]
    optimizers, phase = make_optimizers(method, nets, Optim()), phases(method)[-1]
    method.begin_phase(nets, phase)
    buffers = subject.name != "coranet:released"
    owned = {id(p) for o in optimizers.values() for group in o.param_groups for p in group["params"]}
    assert not owned & {id(p) for teacher in teachers.values() for p in teacher.parameters()}
    before = weights(teachers)
    train_step(method, nets, optimizers, subject.batch(dims, seed=5), phase)
    after = weights(nets)
    for name, teacher in teachers.items():
        assert all(p.grad is None for p in teacher.parameters())
        moved = False
        for key, value in teacher.state_dict().items():
            is_buffer = key in dict(teacher.named_buffers())
            if value.is_floating_point() and (buffers or not is_buffer):
                old, student = before[f"{name}.{key}"], after[f"{name.removesuffix('teacher')}student.{key}"]
                expected = old + (1 - slowness_of(subject.plain, phase)) * (student - old)
                torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-5)
                moved |= not torch.equal(value, old)
        assert moved


def slowness_of(method, phase):
    """β of the step that `train_step` makes."""
    return method.slowness(tiny.at(phase)) if hasattr(method, "slowness") else method.beta


@every_method
def test_one_seed_one_result_and_resuming_gives_the_same_next_step(subject, dims):
    method, nets = subject.build(dims)
    optimizers, phase = make_optimizers(method, nets, Optim()), phases(method)[-1]
    method.begin_phase(nets, phase)
    train_step(method, nets, optimizers, subject.batch(dims, seed=3), phase, step=3)
    kept_nets = copy.deepcopy({name: net.state_dict() for name, net in nets.items()})
    kept_optimizers = copy.deepcopy({name: optimizer.state_dict() for name, optimizer in optimizers.items()})
    train_step(method, nets, optimizers, subject.batch(dims, seed=4), phase, step=4)
    again_method, again = subject.build(dims)
    again_optimizers = make_optimizers(again_method, again, Optim())
    for name, net in again.items():
        net.load_state_dict(kept_nets[name])
    for name, optimizer in again_optimizers.items():
        optimizer.load_state_dict(kept_optimizers[name])
    train_step(again_method, again, again_optimizers, subject.batch(dims, seed=4), phase, step=4)
    expected = weights(nets)
    assert all(torch.equal(value, expected[key]) for key, value in weights(again).items())


@every_method
def test_nothing_reads_labels_of_unlabelled_images_or_pixels_outside(subject, dims):
    method, nets = subject.build(dims)
    phase = phases(method)[-1]
    method.begin_phase(nets, phase)
    one = subject.batch(dims)
    assert one.unlabelled.label is None
    assert not one.labelled.valid.all()
    assert not one.unlabelled.valid.all()
    valid = one.unlabelled.valid
    outside = {
        name: torch.where(valid if m.ndim == valid.ndim else valid.unsqueeze(1), m, 1 - m.clamp(max=1))
        for name, m in one.unlabelled.maps.items()
    }
    label = one.labelled.label
    other = replace(
        one,
        labelled=replace(one.labelled, label=torch.where(one.labelled.valid, label, (label + 1) % subject.classes)),
        unlabelled=replace(one.unlabelled, maps=outside),
    )
    for update in method.objectives(phase):
        found = []
        for batch in (one, other):
            torch.manual_seed(0)
            found.append(float(backward(copy.deepcopy(nets), update, batch, tiny.at(phase), EXACT).total))
        assert found[0] == found[1]


@every_method
def test_predictions_are_probabilities_with_regions(subject, dims):
    method, nets = subject.build(dims)
    segmenter = method.segmenter(nets)
    with evaluating(segmenter.net), torch.no_grad():
        prediction = segmenter(subject.batch(dims).labelled.image)
    shape = (2, *tiny.SHAPES[dims])
    assert prediction.probabilities.shape == (2, subject.classes, *tiny.SHAPES[dims])
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(shape))
    assert prediction.regions.certain.shape == shape
    kept = method.remember(prediction)
    assert set(kept) <= set(subject.batch(dims).unlabelled.maps)
    assert all(values.shape == shape and values.dtype == torch.uint8 for values in kept.values())
    alone = method.segmenter(nets, uncertainty=False).net
    for body in alone if subject.one_vs_rest else [alone]:
        assert set(body.heads) == {"main"}
