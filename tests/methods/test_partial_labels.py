"""Where nobody drew, no method learns from a label: for all of them, in all their phases, in two and three dimensions."""

import copy
from dataclasses import replace

import pytest
import torch

from coranet.engine.captured import kind_of
from coranet.engine.run import Accel
from coranet.engine.step import backward
from coranet.methods import METHODS
from tests import tiny
from tests.methods.subjects import CASES, every_method


def partly_drawn(subject, dims):
    """A batch whose first labelled image is drawn in one plane, and the second by a scribble."""
    one = subject.batch(dims)
    drawn = torch.zeros_like(one.labelled.valid)
    drawn[0, 4], drawn[1, :, 2] = True, True
    sample = one.labelled
    return replace(one, labelled=replace(sample, valid=sample.valid & drawn, extent=sample.valid))


def with_other_labels(one, classes):
    sample = one.labelled
    other = torch.where(sample.valid, sample.label, (sample.label + 1) % classes)
    assert not torch.equal(other, sample.label)
    return replace(one, labelled=replace(sample, label=other))


def learnt(method, nets, phase, batch):
    """Losses and gradients of every update of a phase, and what moved without gradients."""
    nets, found = copy.deepcopy(nets), []
    for update in method.objectives(phase):
        torch.manual_seed(0)
        terms = backward(nets, update, batch, tiny.at(phase, 20), Accel())
        found += [(name, value) for name, value in terms.values.items()]
        found += [(f"{n}.{key}", p.grad) for n in nets for key, p in nets[n].named_parameters() if p.grad is not None]
    return found + [(f"{n}.{key}", value) for n in nets for key, value in nets[n].named_buffers()]


@every_method
def test_what_lies_under_the_ignore_value_changes_no_loss_and_no_gradient(subject, dims):
    method, nets = subject.build(dims)
    one = partly_drawn(subject, dims)
    other = with_other_labels(one, subject.classes)
    for phase in method.phases:
        method.begin_phase(nets, phase.name)
        before, after = (learnt(method, nets, phase.name, batch) for batch in (one, other))
        assert [name for name, _ in before] == [name for name, _ in after]
        assert all(torch.equal(a, b) for (_, a), (_, b) in zip(before, after, strict=True))
        assert all(torch.isfinite(value).all() for _, value in before)


def test_all_methods_are_met_in_two_and_in_three_dimensions():
    assert {(subject.name, dims) for subject, dims in CASES} >= {(name, dims) for name in METHODS for dims in (2, 3)}


@pytest.mark.parametrize("name", ["dan", "advent", "sassnet", "dmnet"])
def test_a_critic_cannot_tell_a_labelled_image_by_what_is_not_drawn(name):
    subject = next(s for s, dims in CASES if s.name == name and dims == 2)
    method, nets = subject.build(2)
    one = partly_drawn(subject, 2)
    for maps, _ in method.examples(nets, one):
        assert maps[1].abs().sum(dim=0).all()  # the second image lies inside everywhere, and is drawn in one column


@pytest.mark.parametrize("name", ["dtc", "mc_net", "dct_seg"])
def test_agreement_on_labelled_images_is_asked_where_nobody_drew_too(name):
    subject = next(s for s, dims in CASES if s.name == name and dims == 2)
    method, nets = subject.build(2)
    one = partly_drawn(subject, 2)
    narrow = replace(one, labelled=replace(one.labelled, extent=None))
    (phase,) = method.phases
    wide, close = (dict(learnt(method, nets, phase.name, batch)) for batch in (one, narrow))
    term = {"dtc": "agreement", "mc_net": "consistency", "dct_seg": "adversarial"}[name]
    assert wide[term] != close[term]
    assert wide["ce"] == close["ce"]


def test_a_captured_step_is_of_another_kind_where_labels_are_partial():
    subject = CASES[0][0]
    one = partly_drawn(subject, 2)
    assert kind_of(one, "train") != kind_of(replace(one, labelled=replace(one.labelled, extent=None)), "train")
