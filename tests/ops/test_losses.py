"""Losses, masks and averages against the oracles, in float64 terms to 1e-6."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coranet.ops import losses, regions
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.teacher import copy_weights, follow, frozen_copy
from coranet.uncertainty import CRM, Softmax
from tests import oracles, tiny

draws = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 10_000)


def drawn(seed, classes, outputs=None, shape=(3, 4)):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(2, outputs or classes, *shape)) * 3
    label = rng.integers(0, classes, size=(2, *shape))
    mask = rng.random((2, *shape)) < 0.5
    valid = rng.random((2, *shape)) < 0.8
    return logits, label, mask, valid


def flat(array):
    return array.reshape(*array.shape[: array.ndim - 2], -1)


def tensor(array):
    return torch.from_numpy(array)


@draws
@given(seeds, st.integers(2, 4), st.booleans())
def test_cross_entropy(seed, classes, weighted):
    logits, label, _, _ = drawn(seed, classes)
    costs = tuple(float(c) for c in np.random.default_rng(seed).uniform(0.5, 6, classes)) if weighted else None
    ours = losses.cross_entropy(tensor(logits), tensor(label), costs)
    np.testing.assert_allclose(flat(ours.numpy()), oracles.cross_entropy(flat(logits), flat(label), costs), rtol=1e-6)
    gradient = tensor(logits).float().requires_grad_()
    losses.cross_entropy(gradient, tensor(label), costs).sum().backward()
    reference = tensor(logits).float().requires_grad_()
    weight = None if costs is None else torch.tensor(costs)
    torch.nn.functional.cross_entropy(reference, tensor(label), weight, reduction="sum").backward()
    torch.testing.assert_close(gradient.grad, reference.grad, atol=1e-5, rtol=1e-5)


@draws
@given(seeds, st.sampled_from(["image", "region", "batch"]))
def test_masked_mean(seed, normalise):
    logits, _, mask, valid = drawn(seed, 2)
    ours = losses.masked_mean(tensor(logits[:, 0]), tensor(valid), region=tensor(mask), normalise=normalise)
    expected = oracles.masked_mean(flat(logits[:, 0]), flat(mask), flat(valid), normalise)
    assert float(ours) == pytest.approx(expected, abs=1e-6)
    everywhere = losses.masked_mean(tensor(logits[:, 0]), tensor(valid), normalise=normalise)
    expected = oracles.masked_mean(flat(logits[:, 0]), np.ones_like(flat(mask)), flat(valid), normalise)
    assert float(everywhere) == pytest.approx(expected, abs=1e-6)


@draws
@given(seeds, st.integers(2, 4), st.sampled_from(["image", "region", "batch"]))
def test_losses_of_regions(seed, classes, normalise):
    """Eq. 7 and Eq. 8, within a region and everywhere, and how much of images it covers."""
    logits, label, mask, valid = drawn(seed, classes)
    p, q = torch.softmax(tensor(logits), 1), torch.softmax(tensor(logits[::-1].copy()), 1)
    share = oracles.masked_mean(np.ones_like(flat(mask), float), flat(mask), flat(valid))
    assert float(regions.share(tensor(mask), tensor(valid))) == pytest.approx(share, abs=1e-6)
    for region, known in ((tensor(mask), flat(mask)), (None, np.ones_like(flat(mask)))):
        ours = regions.pseudo_label_loss(tensor(logits), tensor(label), tensor(valid), region, normalise)
        expected = oracles.certain_loss(flat(logits), flat(label), known, flat(valid), normalise)
        assert float(ours) == pytest.approx(expected, abs=1e-6)
        ours = regions.consistency_loss(p, q, tensor(valid), region, normalise)
        apart = oracles.squared_difference(flat(p.numpy()), flat(q.numpy()))
        assert float(ours) == pytest.approx(oracles.masked_mean(apart, known, flat(valid), normalise), abs=1e-6)


def test_masked_mean_of_nothing_is_zero_and_ignores_what_lies_outside():
    values = torch.tensor([[float("nan"), 2.0]])
    outside = torch.tensor([[False, True]])
    assert float(losses.masked_mean(values, outside)) == 2
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    assert float(losses.masked_mean(values, outside, region=nothing, normalise="region")) == 0
    assert float(losses.masked_mean(values, nothing, region=nothing)) == 0
    assert float(losses.masked_mean(values, outside, region=nothing, normalise="batch")) == 0


@draws
@given(seeds, st.integers(2, 4))
def test_squared_difference_and_dice(seed, classes):
    logits, label, mask, _ = drawn(seed, classes)
    p = torch.softmax(tensor(logits), 1)
    q = torch.softmax(tensor(logits[::-1].copy()), 1)
    ours = losses.squared_difference(p, q).numpy()
    np.testing.assert_allclose(ours, oracles.squared_difference(p.numpy(), q.numpy()), atol=1e-6)
    dice = losses.soft_dice(p, tensor(label), tensor(mask))
    assert float(dice) == pytest.approx(oracles.soft_dice(flat(p.numpy()), flat(label), flat(mask)), abs=1e-6)


@draws
@given(seeds, st.integers(2, 4), st.floats(1, 10))
def test_crm_losses_and_regions(seed, classes, alpha):
    crm = CRM(alpha=alpha)
    con, label, _, valid = drawn(seed, classes, 2 * (classes - 1))
    rad, main = drawn(seed + 1, classes, 2 * (classes - 1))[0], drawn(seed + 2, classes)[0]
    logits = {"main": tensor(main), "con": tensor(con), "rad": tensor(rad)}
    own = crm.losses(logits, tensor(label))
    total = losses.masked_mean(losses.cross_entropy(logits["main"], tensor(label)), tensor(valid))
    total += sum(losses.masked_mean(loss, tensor(valid)) for loss in own.values())
    expected = oracles.crm_loss(flat(main), flat(con), flat(rad), flat(label), flat(valid), alpha)
    assert float(total) == pytest.approx(expected, rel=1e-6)

    found = crm.judge(crm.infer(lambda image, heads: logits, torch.empty(0)))
    expected = oracles.uncertain_mask(flat(con), flat(rad))
    np.testing.assert_array_equal(flat(found.uncertain.numpy()), expected)
    np.testing.assert_array_equal(found.certain.numpy(), ~found.uncertain.numpy())
    assert ((found.score >= 0) & (found.score <= 1)).all()


def test_costs_pull_the_heads_to_opposite_sides():
    """The argmin over q of -p log q - α (1 - p) log (1 - q) is p / (p + α (1 - p)), and the reverse for the radical head."""
    p, alpha = 0.6, 5.0
    label = (torch.rand(1, 100, 100, generator=torch.Generator().manual_seed(0)) < p).long()
    p = float(label.float().mean())
    logits = {name: torch.zeros(1, 2, 1, 1, requires_grad=True) for name in ("con", "rad")}
    optimizer = torch.optim.LBFGS(list(logits.values()), max_iter=100)

    def closure():
        optimizer.zero_grad()
        spread = {name: value.expand(1, 2, 100, 100) for name, value in logits.items()}
        loss = sum(x.mean() for x in CRM(alpha=alpha).losses(spread, label).values())
        loss.backward()
        return loss

    optimizer.step(closure)
    con, rad = (float(torch.softmax(logits[name].detach(), 1)[0, 1]) for name in ("con", "rad"))
    assert con == pytest.approx(p / (p + alpha * (1 - p)), abs=1e-3)
    assert rad == pytest.approx(alpha * p / (alpha * p + 1 - p), abs=1e-3)


@draws
@given(seeds, st.integers(2, 4), st.sampled_from([0.5, 0.7, 0.9]))
def test_softmax_regions(seed, classes, threshold):
    p = oracles.softmax(drawn(seed, classes)[0])
    found = Softmax(threshold=threshold).judge({"main": tensor(p)})
    np.testing.assert_array_equal(found.certain.numpy(), p.max(axis=1) > threshold)
    np.testing.assert_allclose(found.score.numpy(), 1 - p.max(axis=1))


def test_agreement_needs_every_object():
    con = torch.tensor([[[True, False, True]], [[True, False, False]]]).transpose(0, 1)
    rad = torch.tensor([[[True, True, True]], [[True, False, True]]]).transpose(0, 1)
    assert regions.agreement(con, rad).tolist() == [[True, False, False]]


@draws
@given(st.floats(0, 60), st.floats(1, 50))
def test_ramp(t, length):
    assert float(gaussian_ramp(torch.tensor(t), length)) == pytest.approx(oracles.gaussian_ramp(t, length), abs=1e-5)


def test_ramp_of_no_length_is_over():
    assert float(gaussian_ramp(torch.tensor(0.0), 0)) == 1


def test_teacher_follows_tensors_that_were_exchanged():
    """Moving a network to another type or device gives it new buffers; the teacher's are never those of before."""
    student = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2))
    teacher = frozen_copy(student)
    follow(teacher, student, 0.5)
    student.double(), teacher.double()
    with torch.no_grad():
        student[1].running_mean.fill_(4.0)
    student[0].weight = torch.nn.Parameter(torch.full((2, 1, 1, 1), 2.0).double())
    before = teacher[0].weight.clone()
    follow(teacher, student, 0.5)
    assert teacher[1].running_mean.tolist() == [2.0, 2.0]
    assert torch.equal(teacher[0].weight, before / 2 + 1)
    other = frozen_copy(student)
    follow(teacher, other, 0.0)
    assert torch.equal(teacher[0].weight, other[0].weight)


def test_teacher_follows_weights_and_statistics():
    torch.manual_seed(0)
    student = tiny.make_net()({"main": 2, "con": 2})
    teacher = frozen_copy(student.keeping(("main",)))
    for tensor_ in [*student.parameters(), *(b for b in student.buffers() if b.is_floating_point())]:
        tensor_.data.add_(torch.rand_like(tensor_))
    for buffer in student.buffers():
        if not buffer.is_floating_point():
            buffer.add_(3)
    before = {name: value.double().numpy().copy() for name, value in teacher.state_dict().items()}
    follow(teacher, student, 0.99)
    theirs = student.state_dict()
    for name, value in teacher.state_dict().items():
        if value.is_floating_point():
            expected = oracles.ema(before[name], theirs[name].double().numpy(), 0.99)
            np.testing.assert_allclose(value.numpy(), expected, atol=1e-6)
        else:
            assert value == theirs[name]
    assert not any(p.requires_grad for p in teacher.parameters())
    copy_weights(teacher, student)
    for name, value in teacher.state_dict().items():
        torch.testing.assert_close(value, theirs[name], atol=0, rtol=0)


def test_teacher_of_parameters_alone_leaves_statistics():
    student = tiny.make_net()()
    teacher = frozen_copy(student)
    for buffer in student.buffers():
        buffer.add_(1)
    kept = {name: value.clone() for name, value in teacher.named_buffers()}
    follow(teacher, student, 0.5, buffers=False)
    for name, value in teacher.named_buffers():
        torch.testing.assert_close(value, kept[name], atol=0, rtol=0)
