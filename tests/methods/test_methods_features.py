"""Methods of several decoders, features and embeddings, each against its own oracle: equations alone, in numpy.

What the networks say is recorded while a real loss is computed, in double precision; the oracles start from there.
"""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from coranet.engine.run import Accel
from coranet.errors import InputError
from coranet.methods import global_local_mi, mutual_information
from coranet.methods.cct import CrossConsistency
from coranet.methods.embedding_entropy import EmbeddingEntropy
from coranet.methods.global_local_mi import GlobalLocalInformation
from coranet.methods.mc_net import MutualConsistency
from coranet.methods.mi_kl import MutualInformationKL
from coranet.methods.mi_mse import MutualInformationMSE
from coranet.methods.multitask_attention import MultitaskAttention
from coranet.methods.mutual_information import MutualInformation
from coranet.methods.perturbation_mining import PerturbationMining
from coranet.methods.umct import MultiViewCoTraining, answer
from coranet.methods.urpc import PyramidConsistency
from coranet.nets import MakeNet, Net
from coranet.ops.space.orientation import ORIENTATIONS
from coranet.ops.views import Symmetry
from tests import oracles, tiny

GROUP = [
    CrossConsistency,
    EmbeddingEntropy,
    GlobalLocalInformation,
    MultiViewCoTraining,
    MultitaskAttention,
    MutualConsistency,
    MutualInformation,
    MutualInformationKL,
    MutualInformationMSE,
    PerturbationMining,
    PyramidConsistency,
]
settings = pytest.mark.parametrize(("dims", "classes"), [(2, 2), (2, 4), (3, 2), (3, 4)])
every_method = pytest.mark.parametrize("method", GROUP, ids=lambda method: method.__name__)
AT = tiny.at("train", step=20)


def in_double(sample):
    return replace(sample, image=sample.image.double())


def scene(method, dims=2, classes=2):
    """Networks and a batch in double precision."""
    torch.manual_seed(0)
    nets = {name: net.double() for name, net in method.nets(tiny.make_net(dims, classes)).items()}
    batch = tiny.batch(dims, classes, maps=())
    return nets, replace(batch, labelled=in_double(batch.labelled), unlabelled=in_double(batch.unlabelled))


@contextmanager
def recorded(**modules):
    """What each module returns, in order of its calls."""
    heard = {name: [] for name in modules}
    hooks = [
        module.register_forward_hook(lambda _, __, out, name=name: heard[name].append(out))
        for name, module in modules.items()
    ]
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


def number(value):
    return float(torch.as_tensor(value).detach())


def flat(tensor):
    array = tensor.detach().numpy()
    return array.reshape(*array.shape[:2], -1)


def soft(tensor):
    return oracles.softmax(flat(tensor))


def inside(sample):
    return sample.valid.numpy().reshape(len(sample.valid), -1)


def mean_over(values, valid):
    return oracles.masked_mean(values, valid, valid)


def squares(p, q, valid):
    return mean_over(oracles.squared_difference(p, q), valid)


def gradients(value, net):
    """Names of the parameters that a value has a gradient for."""
    named = dict(net.named_parameters())
    found = torch.autograd.grad(value, list(named.values()), allow_unused=True, retain_graph=True)
    return {name for name, grad in zip(named, found, strict=True) if grad is not None and grad.any()}


def information(p, q, valid, padding):
    """-Σ over displacements of I(P_t) / T; `(B, K, *S)` and `(B, *S)`."""
    p, q = p * valid[:, None], q * valid[:, None]
    classes, shape, found = p.shape[1], p.shape[2:], []
    for shift in np.ndindex(*[2 * padding + 1] * len(shape)):
        here, there = [slice(None)], [slice(None)]
        for move, n in zip((s - padding for s in shift), shape, strict=True):
            here.append(slice(max(-move, 0), n - max(move, 0)))
            there.append(slice(max(move, 0), n - max(-move, 0)))
        joint = np.zeros((classes, classes))
        for i, j in np.ndindex(classes, classes):
            joint[i, j] = (p[:, i][tuple(here)] * q[:, j][tuple(there)]).sum()
        found.append(plain_information(joint))
    return number(np.mean(found))


def plain_information(joint):
    joint = (joint + joint.T) / 2
    joint = joint / joint.sum()
    return (joint * np.log(joint / joint.sum(0)[:, None] / joint.sum(1)[None])).sum()


# Oracles


@settings
def test_cct(dims, classes):
    kinds = ("noise", "activation", "dropout", "cutout", "objects", "context")
    method = CrossConsistency(perturbations=kinds)
    nets, batch = scene(method, dims, classes)
    with recorded(**nets["student"].heads) as heard:
        terms = method.loss(nets, batch, AT)
    target, valid = soft(heard["main"][1]), inside(batch.unlabelled)
    expected = np.mean([squares(soft(heard[kind][0]), target, valid) for kind in kinds])
    assert number(terms.values["consistency"]) == pytest.approx(expected, abs=1e-9)
    assert number(terms.weights["consistency"]) == pytest.approx(1.4)
    assert all(len(heard[kind]) == 1 for kind in kinds)


def twice(array):
    """`(B, K, *s)` at twice the size: linear between centres, the edge beyond them."""
    for axis in range(2, array.ndim):
        n = array.shape[axis]
        at = (np.arange(2 * n) + 0.5) / 2 - 0.5
        array = np.apply_along_axis(lambda line, at=at, n=n: np.interp(at, np.arange(n), line), axis, array)
    return array


@settings
def test_urpc(dims, classes):
    method = PyramidConsistency()
    nets, batch = scene(method, dims, classes)
    heads = {f"scale{number}": head for number, head in enumerate(nets["pyramid"].heads)}
    with recorded(main=nets["student"].heads["main"], **heads) as heard:
        terms = method.loss(nets, batch, AT)
    scales = []
    assert len(heads) == {2: 2, 3: 1}[dims]
    for name in heads:
        logits = heard[name][1].detach().numpy()
        while logits.shape[2:] != tiny.SHAPES[dims]:
            logits = twice(logits)
        scales.append(oracles.softmax(logits.reshape(*logits.shape[:2], -1)))
    scales.append(soft(heard["main"][1]))
    mean, valid, expected = np.mean(scales, axis=0), inside(batch.unlabelled), []
    for p in scales:
        far = (mean * np.log(mean / p)).sum(1)
        trust = np.exp(-far) * valid
        expected.append((trust * ((p - mean) ** 2).sum(1)).sum() / trust.sum() + mean_over(far, valid))
    assert number(terms.values["consistency"]) == pytest.approx(np.mean(expected), abs=1e-9)


@settings
@pytest.mark.parametrize("live", [False, True])
def test_mc_net(dims, classes, live):
    method = MutualConsistency(live=live)
    nets, batch = scene(method, dims, classes)
    with recorded(**nets["student"].heads) as heard:
        terms = method.loss(nets, batch, AT)
    first, second = (soft(heard[name][0]) for name in ("main", "second"))
    sharp = [p**10 / (p**10 + (1 - p) ** 10) for p in (first, second)]
    valid = np.concatenate([inside(batch.labelled), inside(batch.unlabelled)])
    expected = squares(first, sharp[1], valid) + squares(second, sharp[0], valid)
    assert number(terms.values["consistency"]) == pytest.approx(expected / classes, abs=1e-9)
    label, known = batch.labelled.label.numpy().reshape(2, -1), inside(batch.labelled)
    each = [mean_over(oracles.cross_entropy(flat(heard[name][0][:2]), label), known) for name in ("main", "second")]
    assert number(terms.values["ce"]) == pytest.approx(np.mean(each), abs=1e-9)


def mirrored(monkeypatch, dims):
    """The first image mirrored along its first axis, the second along its second."""
    view = Symmetry(torch.eye(2, dims) > 0, torch.zeros(2).long())
    for module in (mutual_information, global_local_mi):
        monkeypatch.setattr(module, "draw_symmetry", lambda image, mirror: view)


def back(array):
    """From that view, `(2, K, *S)`."""
    return np.stack([np.flip(array[0], 1), np.flip(array[1], 2)])


@settings
@pytest.mark.parametrize("cls", [MutualInformation, MutualInformationMSE, MutualInformationKL])
def test_mutual_information(cls, dims, classes, monkeypatch):
    mirrored(monkeypatch, dims)
    method = cls(padding=1)
    nets, batch = scene(method, dims, classes)
    with recorded(**nets["student"].heads) as heard:
        terms = method.loss(nets, batch, AT)
    both = oracles.softmax(heard["main"][1].detach().numpy())
    plain, seen, valid = both[:2], back(both[2:]), batch.unlabelled.valid.numpy()
    assert number(terms.values["information"]) == pytest.approx(-information(plain, seen, valid, 1), abs=1e-9)
    assert number(terms.weights["information"]) == pytest.approx(0.1)
    p, q = (x.reshape(*x.shape[:2], -1) for x in (plain, seen))
    apart = {
        MutualInformationMSE: squares(p, q, inside(batch.unlabelled)),
        MutualInformationKL: mean_over((p * np.log(p / q)).sum(1), inside(batch.unlabelled)),
    }
    if cls in apart:
        assert number(terms.values["consistency"]) == pytest.approx(apart[cls], abs=1e-9)
        assert terms.weights["consistency"] == method.consistency


@settings
def test_global_local_mi(dims, classes, monkeypatch):
    mirrored(monkeypatch, dims)
    method = GlobalLocalInformation(clusters=3, sub_heads=2)
    nets, batch = scene(method, dims, classes)
    heads = {f"feature{number}": head for number, head in enumerate(nets["clusters"].heads)}
    with recorded(main=nets["student"].heads["main"], decoder=nets["student"].decoders["main"], **heads) as heard:
        terms = method.loss(nets, batch, AT)
    logits = [heard[name][0].detach().numpy() for name in heads]
    of_images, of_places, valid = [], [], batch.unlabelled.valid.numpy()
    for head in (slice(0, 3), slice(3, 6)):
        p = oracles.softmax(logits[0][:, head].reshape(4, 3))
        of_images.append(plain_information(sum(np.outer(a, b) for a, b in zip(p[:2], p[2:], strict=True))))
        for places in logits[1:]:
            step = valid.shape[1] // places.shape[2]
            region = valid[(slice(None), *[slice(None, None, step)] * dims)]
            p = oracles.softmax(places[:, head])
            of_places.append(information(p[:2], p[2:], region, {1: 3, 2: 1}[step]))
    expected = -(np.mean(of_images) + np.mean(of_places)) / 2
    assert len(logits) == {2: 3, 3: 2}[dims]
    assert number(terms.values["information"]) == pytest.approx(expected, abs=1e-9)
    # The heads look at features that were brought back from the view.
    last = heard["decoder"][1][-1].detach()
    aligned = torch.cat([last[:2], torch.from_numpy(back(last[2:].numpy()).copy())])
    torch.testing.assert_close(nets["clusters"].heads[-1](aligned), heard[[*heads][-1]][0])
    both = oracles.softmax(heard["main"][1].detach().numpy())
    p, q = (x.reshape(*x.shape[:2], -1) for x in (both[:2], back(both[2:])))
    assert number(terms.values["consistency"]) == pytest.approx(squares(p, q, inside(batch.unlabelled)), abs=1e-9)


@settings
def test_embedding_entropy(dims, classes):
    method = EmbeddingEntropy(momentum=0.75)
    nets, batch = scene(method, dims, classes)
    before = torch.randn_like(nets["centres"].centres)
    nets["centres"].centres.copy_(before)
    with recorded(decoder=nets["student"].decoders["main"]) as heard:
        terms = method.loss(nets, batch, AT)
    known, unknown = (flat(features[-1]) for features in heard["decoder"])
    label, valid = batch.labelled.label.numpy().reshape(2, -1), inside(batch.labelled)
    centres = before.numpy().copy()
    for k in range(classes):
        members = [known[b, :, z] for b, z in np.argwhere((label == k) & valid)]
        centres[k] = 0.75 * centres[k] + 0.25 * np.mean(members, axis=0)
    np.testing.assert_allclose(nets["centres"].centres.numpy(), centres, atol=1e-9)
    unit = centres / np.linalg.norm(centres, axis=1, keepdims=True)
    s = oracles.softmax(np.stack([unit @ e for e in unknown]))
    expected = mean_over(-(s * np.log(s)).sum(1), inside(batch.unlabelled))
    assert number(terms.values["entropy"]) == pytest.approx(expected, abs=1e-9)


@settings
def test_perturbation_mining(dims, classes):
    method = PerturbationMining(passes=3, noise=0.5, distil=0.7)
    nets, batch = scene(method, dims, classes)
    parts = {f"{who}_{what}": module for who in nets for what, module in parts_of(nets[who])}
    with recorded(**parts) as heard:
        terms = method.loss(nets, batch, AT)
    assert len(heard["student_main"]) == 2
    assert len(heard["teacher_main"]) == 4
    target, *looks = (soft(logits) for logits in heard["teacher_main"])
    valid, answer = inside(batch.unlabelled), soft(heard["student_main"][1])
    sensitivity = np.mean([((look - target) ** 2).sum(1) for look in looks], axis=0) * valid
    expected = (sensitivity * ((answer - target) ** 2).sum(1)).sum() / sensitivity.sum()
    assert sensitivity.sum() > 0
    assert number(terms.values["consistency"]) == pytest.approx(expected, abs=1e-9)
    mine, wanted = flat(heard["student_decoder"][1][-1]), flat(heard["teacher_decoder"][0][-1])
    objects = (1 - target[:, 0]) * valid
    expected = 0.7 * (objects * ((mine - wanted) ** 2).mean(1)).sum() / objects.sum()
    assert number(terms.values["features"]) == pytest.approx(expected, abs=1e-9)


def parts_of(net):
    return [("main", net.heads["main"]), ("decoder", net.decoders["main"])]


@settings
def test_multitask_attention(dims, classes):
    method = MultitaskAttention()
    nets, batch = scene(method, dims, classes)
    with recorded(**nets["student"].heads) as heard:
        terms = method.reconstruction_loss(nets, batch, AT)
    p, image, valid = soft(heard["main"][0]), flat(batch.unlabelled.image), inside(batch.unlabelled)
    apart = sum((flat(heard["reconstruction"][0])[:, k] - p[:, k] * image[:, 0]) ** 2 for k in range(classes))
    assert number(terms.total) == pytest.approx(mean_over(apart, valid), abs=1e-9)
    assert set(method.loss(nets, batch, AT).values) == {"ce"}


BACK = {
    2: (lambda x: x, lambda x: np.rot90(x, -1, (2, 3)), lambda x: np.rot90(x, 2, (2, 3))),
    3: (lambda x: x, lambda x: np.moveaxis(x, -1, 2), lambda x: np.moveaxis(x, 2, -1)),
}


@settings
def test_umct(dims, classes):
    method = MultiViewCoTraining(views=3, passes=4)
    nets, batch = scene(method, dims, classes)
    with recorded(**{name: net.heads["main"] for name, net in nets.items()}) as heard:
        terms = method.loss(nets, batch, AT)
    answers, means, variances, valid = [], [], [], inside(batch.unlabelled)
    for name, undo in zip(("student", "view2", "view3"), BACK[dims], strict=True):
        said = [oracles.softmax(undo(logits.detach().numpy())).reshape(2, classes, -1) for logits in heard[name]]
        assert len(said) == 6
        means.append(np.mean(said[1:5], axis=0))
        variances.append(np.var(said[1:5], axis=0).sum(1, keepdims=True))
        answers.append(said[5])
    expected = 0
    for i, p in enumerate(answers):
        weights = [0 if j == i else 1 / (variances[j] + 1e-6) for j in range(3)]
        target = sum(w * m for w, m in zip(weights, means, strict=True)) / sum(weights)
        scores = []
        for k in range(classes):
            a, b = p[:, k] * valid, target[:, k] * valid
            scores.append((2 * (a * b).sum() + 1e-5) / ((a**2).sum() + (b**2).sum() + 1e-5))
        expected += 1 - np.mean(scores)
    assert number(terms.values["co-training"]) == pytest.approx(expected, abs=1e-9)
    label, known = batch.labelled.label.numpy().reshape(2, -1), inside(batch.labelled)
    each = [
        oracles.cross_entropy(undo(heard[name][0].detach().numpy()).reshape(2, classes, -1), label)
        for name, undo in zip(heard, BACK[dims], strict=True)
    ]
    assert number(terms.values["ce"]) == pytest.approx(sum(mean_over(e, known) for e in each), abs=1e-9)


# What each family is known to get wrong


@every_method
def test_without_unlabelled_images_labels_alone_teach(method):
    nets, batch = scene(method())
    terms = method().loss(nets, replace(batch, unlabelled=None), AT)
    assert set(terms.values) == {"ce"}


@every_method
@pytest.mark.parametrize("body", ["vnet", "resnet18"])
def test_other_bodies_serve_them_too(method, body):
    torch.manual_seed(0)
    method = method()
    nets = method.nets(MakeNet(Net(body=body, width=4, levels=2), 2, 2, 3))
    batch = tiny.batch(2, 3, maps=())
    batch = replace(batch, **{k: replace(s, image=s.image.repeat(1, 2, 1, 1)) for k, s in vars(batch).items()})
    for update in method.objectives("train"):
        terms = tiny.backward(nets, update, batch, AT, Accel())
        assert torch.isfinite(terms.total)
    trained = {name for update in method.objectives("train") for name in update.trains}
    assert all(p.grad is not None for name in trained for p in nets[name].parameters())


def test_cct_teaches_the_main_decoder_by_labels_alone():
    method = CrossConsistency()
    nets, batch = scene(method)
    moved = gradients(method.loss(nets, batch, AT).values["consistency"], nets["student"])
    assert not any(name.startswith(("decoders.main", "heads.main")) for name in moved)
    for part in ("encoder", *(f"{kind}.{name}" for kind in ("decoders", "heads") for name in method.perturbations)):
        assert any(name.startswith(part) for name in moved)
    with pytest.raises(InputError, match="none twice"):
        CrossConsistency(perturbations=("noise", "noise"))


def test_urpc_is_zero_where_all_scales_agree():
    method = PyramidConsistency()
    nets, batch = scene(method)
    with torch.no_grad():
        for head in (*nets["pyramid"].heads, nets["student"].heads["main"][-1]):
            head.weight.zero_()
            head.bias.copy_(torch.tensor([1.0, -1.0]))
    assert number(method.loss(nets, batch, AT).values["consistency"]) == pytest.approx(0, abs=1e-12)


def test_mc_net_s_pseudo_labels_carry_no_gradient_unless_they_are_live():
    nets, batch = scene(MutualConsistency())
    found = {}
    for live in (False, True):
        with recorded(**nets["student"].heads) as heard:
            value = MutualConsistency(live=live).loss(nets, batch, AT).values["consistency"]
        (found[live],) = torch.autograd.grad(value, heard["main"][0])
    first, second = (torch.softmax(heard[name][0].detach(), 1) for name in ("main", "second"))
    first.requires_grad_()
    sharp = second**10 / (second**10 + (1 - second) ** 10)
    valid = torch.cat([batch.labelled.valid, batch.unlabelled.valid])
    apart = (first - sharp).square().mean(1) * valid
    (grad,) = torch.autograd.grad((apart.flatten(1).sum(1) / valid.flatten(1).sum(1)).mean(), first)
    expected = first * (grad - (grad * first).sum(1, keepdim=True))
    torch.testing.assert_close(found[False], expected.detach())
    assert not torch.allclose(found[True], found[False])


def test_mc_net_labels_no_pixel_that_a_decoder_is_unsure_of():
    p = torch.tensor([[0.4, 0.3, 0.2, 0.1], [0.7, 0.1, 0.1, 0.1]])
    labels = MutualConsistency().target(p)
    torch.testing.assert_close(labels, torch.tensor([[0.0, 0, 0, 0], [1, 0, 0, 0]]), atol=0.02, rtol=0)


def test_mc_net_can_predict_by_both_decoders():
    method = MutualConsistency(predicts="mean")
    nets, batch = scene(method)
    segmenter = method.segmenter(nets, uncertainty=False)
    segmenter.net.eval()
    mean = segmenter.infer(batch.unlabelled.image)["main"]
    both = segmenter.net(batch.unlabelled.image)
    torch.testing.assert_close(mean, (both["main"].softmax(1) + both["second"].softmax(1)) / 2)


def symmetric(net, permuted=False):
    """Kernels that look the same from every side: the network then treats a view as it treats the image."""
    with torch.no_grad():
        for p in net.parameters():
            for axis in range(2, p.ndim):
                p.copy_((p + p.flip(axis)) / 2)
            if permuted and p.ndim > 3:
                sides = ORIENTATIONS[p.ndim - 2] if p.ndim == 5 else ORIENTATIONS[2][:2]
                p.copy_(torch.stack([side.apply(p) for side in sides]).mean(0))
    return net


@pytest.mark.parametrize("method", [MutualInformationMSE(), MutualInformationKL(), GlobalLocalInformation()])
@pytest.mark.parametrize("dims", [2, 3])
def test_answers_are_compared_place_by_place(method, dims):
    nets, batch = scene(method, dims)
    assert number(method.loss(nets, batch, AT).values["consistency"]) > 1e-6
    symmetric(nets["student"])
    assert number(method.loss(nets, batch, AT).values["consistency"]) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("method", [MutualInformationMSE(), MutualInformationKL()])
def test_the_plain_answer_is_a_target(method):
    plain, seen = (torch.randn(2, 3, 4, 4).softmax(1).requires_grad_() for _ in range(2))
    value = method.agreement(plain, seen, torch.ones(2, 4, 4).bool())["consistency"]
    of_plain, of_seen = torch.autograd.grad(value, (plain, seen), allow_unused=True)
    assert of_plain is None
    assert of_seen.any()


def test_both_answers_learn_from_their_information(monkeypatch):
    mirrored(monkeypatch, 2)
    nets, batch = scene(MutualInformation())
    with recorded(**nets["student"].heads) as heard:
        value = MutualInformation().loss(nets, batch, AT).values["information"]
    (grad,) = torch.autograd.grad(value, heard["main"][1])
    assert grad[:2].any()
    assert grad[2:].any()
    assert not (grad[:2] * ~batch.unlabelled.valid[:, None]).any()


def test_centres_move_by_labelled_pixels_inside_alone():
    method = EmbeddingEntropy()
    nets, batch = scene(method, classes=4)
    label = torch.where(batch.labelled.valid, batch.labelled.label % 3, 3)
    batch = replace(batch, labelled=replace(batch.labelled, label=label))
    kept = nets["centres"].centres.fill_(1.0).clone()
    terms = method.loss(nets, batch, AT)
    assert torch.equal(nets["centres"].centres[3], kept[3])
    assert not (nets["centres"].centres[:3] == kept[:3]).all(dim=1).any()
    assert not nets["centres"].centres.requires_grad
    assert gradients(terms.values["entropy"], nets["student"])


def test_mining_leaves_teacher_weights_and_statistics_alone():
    method = PerturbationMining()
    nets, batch = scene(method)
    before = {key: value.clone() for key, value in nets["teacher"].state_dict().items()}
    nets["teacher"].requires_grad_()
    terms = method.loss(nets, batch, AT)
    for value in (terms.values["consistency"], terms.values["features"]):
        assert not gradients(value, nets["teacher"])
        assert any(name.startswith("encoder") for name in gradients(value, nets["student"]))
    assert all(torch.equal(value, before[key]) for key, value in nets["teacher"].state_dict().items())


@pytest.mark.parametrize("live", [False, True])
def test_attention_is_a_target_unless_it_is_live(live):
    method = MultitaskAttention(live=live)
    nets, batch = scene(method)
    moved = gradients(method.reconstruction_loss(nets, batch, AT).total, nets["student"])
    assert any(name.startswith(("decoders.main", "heads.main")) for name in moved) == live
    assert any(name.startswith("encoder") for name in moved)
    assert any(name.startswith("decoders.reconstruction") for name in moved)


def test_reconstruction_takes_turns_with_segmentation_at_a_rate_of_its_own():
    segmentation, reconstruction = MultitaskAttention().objectives("train")
    assert (segmentation.optimizer, segmentation.rate) == ("main", 1.0)
    assert (reconstruction.optimizer, reconstruction.rate) == ("reconstruction", 0.1)


@pytest.mark.parametrize("body", ["unet", "vnet", "resnet18"])
def test_nothing_is_reconstructed_through_skips(body):
    method, image = MultitaskAttention(), tiny.batch(maps=()).unlabelled.image
    net = method.nets(replace(tiny.make_net(2, 2), net=Net(body=body, width=4, levels=2)))["student"]
    given = []
    net.decoders["reconstruction"].register_forward_pre_hook(lambda module, inputs: given.extend(inputs[0]))
    method.reconstruction_loss({"student": net}, tiny.batch(maps=()), AT)
    *finer, coarsest = given
    assert not any(level.any() for level in finer)
    assert coarsest.any()
    assert [level.shape for level in given] == [level.shape for level in net.encode(image)]


@pytest.mark.parametrize("dims", [2, 3])
def test_views_are_compared_place_by_place(dims):
    method = MultiViewCoTraining(dropout=0.0)
    nets, batch = scene(method, dims)
    net = symmetric(nets["student"], permuted=True)
    answers = [answer(net, side, batch.unlabelled.image) for side in ORIENTATIONS[dims]]
    for other in answers[1:]:
        torch.testing.assert_close(other, answers[0])


def test_umct_s_passes_draw_dropout_but_leave_statistics_modes_and_gradients_alone():
    method = MultiViewCoTraining()
    nets, batch = scene(method)
    net = nets["view2"]
    before = {key: value.clone() for key, value in net.state_dict().items()}
    mean, variance = method.look(net, ORIENTATIONS[2][1], batch.unlabelled.image)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(layer.training for layer in net.modules())
    assert not mean.requires_grad
    assert (variance > 0).any()
    with pytest.raises(InputError, match="2 to 6 views"):
        MultiViewCoTraining(views=1)


def test_umct_can_predict_by_all_views():
    method = MultiViewCoTraining(views=6, ensemble=True)
    nets, batch = scene(method)
    segmenter = method.segmenter(nets)
    segmenter.net.eval()
    each = [
        answer(nets[name], side, batch.unlabelled.image).softmax(1)
        for name, side in zip(method.names, ORIENTATIONS[2], strict=True)
    ]
    torch.testing.assert_close(segmenter.infer(batch.unlabelled.image)["main"], torch.stack(each).mean(0))
    alone = method.segmenter(nets, uncertainty=False).net.eval()
    torch.testing.assert_close(alone(batch.unlabelled.image)["main"], segmenter.net(batch.unlabelled.image)["main"])
    assert replace(method, ensemble=False).segmenter(nets).net is nets["student"]
