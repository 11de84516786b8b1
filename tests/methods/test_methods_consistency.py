"""Consistency and its kin: each unlabelled term against its own oracle, and the mistakes their family is known for.

Networks are planted: their logits are a known function of pixel and place, so that an oracle can say from the images they
were shown, in float64, what the term must be.
"""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from coranet.feed.augmentation import Augment
from coranet.feed.batches import Batches
from coranet.feed.pools import CaseMemory, Pool
from coranet.feed.windows import Patches, Slices
from coranet.methods import ict, pi_model, tcsm, transform_consistency
from coranet.methods.entropy_minimisation import EntropyMinimisation
from coranet.methods.ict import InterpolationConsistency
from coranet.methods.pi_model import PiModel
from coranet.methods.supervised import Supervised
from coranet.methods.tcsm import TransformationConsistentTeacher
from coranet.methods.temporal_ensembling import TemporalEnsembling
from coranet.methods.transform_consistency import TransformConsistency
from coranet.methods.ua_mt import UncertaintyAwareMeanTeacher
from coranet.ops.space.warp import Warp
from coranet.ops.views import Symmetry, draw_symmetry
from tests import oracles, tiny

ROOT = Path(__file__).parents[2]
TAUGHT = [UncertaintyAwareMeanTeacher, InterpolationConsistency, TransformationConsistentTeacher]
ALL = [PiModel, TemporalEnsembling, TransformConsistency, EntropyMinimisation, *TAUGHT]


class Planted(torch.nn.Module):
    """Logits a_k x + g_k(place). It notes what it is shown and what it says."""

    def __init__(self, dims, classes, seed, *, places=True):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        shape = (1, classes, *[1] * dims)
        self.slope = torch.nn.Parameter(2 * torch.randn(shape, generator=generator, dtype=torch.float64))
        anywhere = torch.randn(1, classes, *tiny.SHAPES[dims], generator=generator, dtype=torch.float64)
        self.place = anywhere if places else torch.zeros(shape)
        self.shown, self.said = [], []

    def forward(self, image, heads=None):
        logits = self.slope * image + self.place
        if logits.requires_grad:
            logits.retain_grad()
        self.shown.append(image)
        self.said.append(logits)
        return {"main": logits}

    def answer(self, image):
        """What it says of an image, in numpy."""
        return oracles.softmax(self.slope.detach().numpy() * image + self.place.numpy())


class Scene:
    def __init__(self, dims, classes):
        self.dims, self.classes, self.shape = dims, classes, tiny.SHAPES[dims]
        batch = tiny.batch(dims, classes)
        self.batch = tiny.with_unlabelled(batch, batch.unlabelled.image.double())
        self.nets = {"student": Planted(dims, classes, 0), "teacher": Planted(dims, classes, 1)}
        self.image, self.valid = self.batch.unlabelled.image.numpy(), self.batch.unlabelled.valid.numpy()

    def terms(self, method, step=5, seed=0):
        torch.manual_seed(seed)
        return method.loss(self.nets, self.batch, tiny.at("train", step, 20))

    def shown(self, net, call):
        return self.nets[net].shown[call].numpy()


@pytest.fixture(params=product([2, 3], [2, 4]), ids=lambda way: f"{way[0]}D, {way[1]} classes")
def scene(request):
    return Scene(*request.param)


def number(tensor):
    return float(tensor.detach())


def distance(p, q, valid):
    """Mean over images of the mean over their valid pixels of Σ_k (p_k - q_k)²."""
    return float(np.mean([((a - b) ** 2).sum(axis=0)[v].mean() for a, b, v in zip(p, q, valid, strict=True)]))


SYMMETRIES = [((True, False), 1), ((False, True), 2)], [((True, True), 0), ((False, False), 3)]
"""Of the first and the second image, twice: which axes are mirrored, then how often it is turned."""


def symmetry(number, dims, *, turns=True):
    rows = SYMMETRIES[number]
    mirror = torch.tensor([[*axes, False][:dims] for axes, _ in rows])
    return Symmetry(mirror, torch.tensor([quarters if turns else 0 for _, quarters in rows]))


def seen(x, number, dims, *, turns=True):
    """That view in numpy, of `(B, *S)` or `(B, C, *S)`."""
    views = []
    for values, (axes, quarters) in zip(x, SYMMETRIES[number], strict=True):
        first = values.ndim - dims
        flipped = np.flip(values, [first + axis for axis in range(2) if axes[axis]])
        views.append(np.rot90(flipped, quarters if turns else 0, (first, first + 1)))
    return np.stack(views)


# Each term against its oracle


def test_pi_model(scene, monkeypatch):
    views = iter([symmetry(number, scene.dims, turns=False) for number in (0, 0, 1)])
    monkeypatch.setattr(pi_model, "draw_symmetry", lambda image, mirror: next(views))
    found = scene.terms(PiModel()).values["consistency"]
    both = np.split(scene.shown("student", 1), 2)
    noise = [shown - seen(scene.image, number, scene.dims, turns=False) for number, shown in enumerate(both)]
    assert all(np.abs(n).mean() > 0.05 and np.abs(n).max() <= 0.3 + 1e-9 for n in noise)
    assert not np.allclose(*noise)
    answers = [scene.nets["student"].answer(shown) for shown in both]
    first, second = (seen(p, number, scene.dims, turns=False) for number, p in enumerate(answers))
    assert number(found) == pytest.approx(distance(first, second, scene.valid), abs=1e-6)


def test_temporal_ensembling(scene):
    generator = np.random.default_rng(0)
    past = oracles.softmax(generator.normal(size=(2, scene.classes, *scene.shape)))
    count = generator.uniform(0.1, 0.9, (2, 1, *scene.shape)) * (generator.random((2, 1, *scene.shape)) < 0.8)
    kept = torch.from_numpy(np.concatenate([count * past, count], axis=1))
    scene.batch = replace(scene.batch, unlabelled=replace(scene.batch.unlabelled, maps={"ensemble": kept}))
    terms = scene.terms(TemporalEnsembling())
    p = scene.nets["student"].answer(scene.shown("student", 1))
    squares, known = ((p - past) ** 2).sum(axis=1), count[:, 0] > 0
    means = [(s[k & v]).sum() / v.sum() for s, k, v in zip(squares, known, scene.valid, strict=True)]
    assert number(terms.values["consistency"]) == pytest.approx(np.mean(means), abs=1e-6)
    trace = terms.traces["ensemble"]
    assert trace.decay == 0.6
    assert not trace.values.requires_grad
    np.testing.assert_allclose(trace.values[:, :-1], p, atol=1e-12)
    assert (trace.values[:, -1] == 1).all()


def test_ua_mt(scene):
    method, step = UncertaintyAwareMeanTeacher(), 12
    terms = scene.terms(method, step)
    student, teacher = scene.nets["student"], scene.nets["teacher"]
    np.testing.assert_array_equal(scene.shown("student", 1), scene.image)
    assert len(teacher.shown) == 9
    target, *answers = (teacher.answer(image.numpy()) for image in teacher.shown)
    p, mean = student.answer(scene.image), np.mean(answers, axis=0)
    uncertainty = -(mean * np.log(mean)).sum(axis=1)
    certain = uncertainty < (0.75 + 0.25 * np.exp(-5 * (1 - step / 20) ** 2)) * np.log(scene.classes)
    assert 0.2 < certain.mean() < 0.98
    kept = certain & scene.valid
    expected = ((p - target) ** 2).sum(axis=1)[kept].sum() / (2 * kept.sum())
    assert number(terms.values["consistency"]) == pytest.approx(expected, abs=1e-6)
    assert float(terms.weights["consistency"]) == pytest.approx(0.1 * oracles.gaussian_ramp(step, 20), abs=1e-6)
    shares = [(~c & v).sum() / v.sum() for c, v in zip(certain, scene.valid, strict=True)]
    assert float(terms.measures["uncertain_share"]) == pytest.approx(np.mean(shares), abs=1e-6)


def test_ict(scene, monkeypatch):
    shares = np.array([0.9, 0.6]).reshape(2, *[1] * (scene.dims + 1))
    monkeypatch.setattr(ict, "mixup_shares", lambda count, alpha, device: torch.from_numpy(shares.flatten()))
    terms = scene.terms(InterpolationConsistency())
    mixture = shares * scene.image + (1 - shares) * scene.image[::-1]
    answers = scene.nets["teacher"].answer(scene.image)
    target = shares * answers + (1 - shares) * answers[::-1]
    expected = distance(scene.nets["student"].answer(mixture), target, scene.valid & scene.valid[::-1])
    assert number(terms.values["consistency"]) == pytest.approx(expected, abs=1e-6)


def interpolate(x, matrix, fill):
    """`(C, *S)` at A (o - c) + c by linear interpolation; outside, the border's value or 0."""
    out, sizes = np.zeros_like(x), np.array(x.shape[1:])
    centre = (sizes - 1) / 2
    for place in np.ndindex(*sizes):
        point = matrix @ (np.array(place) - centre) + centre
        point = np.clip(point, 0, sizes - 1) if fill == "border" else point
        low = np.floor(point).astype(int)
        for corner in product([0, 1], repeat=len(sizes)):
            at, share = low + corner, np.prod(np.where(corner, point - low, 1 - (point - low)))
            if (at >= 0).all() and (at < sizes).all():
                out[(slice(None), *place)] += share * x[(slice(None), *at)]
    return out


def test_tcsm(scene, monkeypatch):
    """To 1e-5: the grid of a warp is computed in fp32."""
    angle, scales, dims = 0.3, (0.8, 1.2), scene.dims
    matrices = np.stack([np.eye(dims), np.eye(dims)])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrices[:, :2, :2] = [turn / scale for scale in scales]
    middle = (torch.tensor(scene.shape) - 1.0).expand(2, -1) / 2
    warp = Warp(torch.from_numpy(matrices).float(), middle, middle, scene.shape)
    monkeypatch.setattr(tcsm, "draw_symmetry", lambda image, mirror, quarters: symmetry(0, dims))
    monkeypatch.setattr(tcsm, "draw_warp", lambda image, rotate, scale: warp)
    terms = scene.terms(TransformationConsistentTeacher())

    def view(x, fill="border"):
        return np.stack([interpolate(v, m, fill) for v, m in zip(seen(x, 0, dims), matrices, strict=True)])

    assert np.abs(scene.shown("student", 1) - view(scene.image)).max() <= 0.2 + 1e-4
    answers = scene.nets["teacher"].answer(scene.shown("teacher", 0))
    valid = view(scene.valid[:, None].astype(float), "zeros")[:, 0] > 1 - 1e-4
    expected = distance(scene.nets["student"].answer(scene.shown("student", 1)), view(answers), valid)
    assert number(terms.values["consistency"]) == pytest.approx(expected, abs=1e-5)


def test_transform_consistency(scene, monkeypatch):
    dims = scene.dims
    monkeypatch.setattr(transform_consistency, "draw_symmetry", lambda image, mirror: symmetry(0, dims, turns=False))
    terms = scene.terms(TransformConsistency())
    student, image = scene.nets["student"], scene.image
    p_of_view = student.answer(seen(image, 0, dims, turns=False))
    view_of_p = seen(student.answer(image), 0, dims, turns=False)
    expected = distance(p_of_view, view_of_p, seen(scene.valid, 0, dims, turns=False))
    assert number(terms.values["consistency"]) == pytest.approx(expected, abs=1e-6)
    assert float(terms.weights["consistency"]) == 1.25


def mean_entropy(p, valid):
    """Mean over images of the mean over their valid pixels of -Σ_k p_k log p_k / log K."""
    entropies = -(p * np.log(p)).sum(axis=1) / np.log(p.shape[1])
    return float(np.mean([e[v].mean() for e, v in zip(entropies, valid, strict=True)]))


def test_entropy_minimisation(scene):
    terms = scene.terms(EntropyMinimisation(weight=3.0, ramp=0.5), step=5)
    expected = mean_entropy(scene.nets["student"].answer(scene.image), scene.valid)
    assert number(terms.values["entropy"]) == pytest.approx(expected, abs=1e-6)
    assert float(terms.weights["entropy"]) == pytest.approx(3.0 * oracles.gaussian_ramp(5, 10), abs=1e-6)


# What all of them share


AS_THEY_ARE = {PiModel: {"noise": 0.0, "mirror": 0.0}}
"""What lets a method show labelled images as they are, where it does not."""


@pytest.mark.parametrize("method", ALL)
def test_labels_count_as_in_supervised_training_and_the_weight_grows(method):
    scene = Scene(2, 4)
    plain = Supervised(dice=0.5).loss(scene.nets, scene.batch, tiny.at("train"))
    terms = scene.terms(method(dice=0.5, **AS_THEY_ARE.get(method, {})))
    extra = set(terms.values) - set(plain.values)
    assert len(extra) == 1
    assert all(torch.equal(terms.values[name], plain.values[name]) for name in plain.values)
    (weight,) = (terms.weights[name] for name in extra)
    made = method()
    expected = made.weight * (oracles.gaussian_ramp(5, made.ramp * 20) if made.ramp else 1)
    assert float(weight) == pytest.approx(expected, abs=1e-6)
    scene.batch = replace(scene.batch, unlabelled=None)
    assert set(scene.terms(method()).values) == {"ce"}


def gradient_shares(scene, method):
    """Of the student's unlabelled logits, how much gradient each image's got."""
    scene.terms(method).total.backward()
    return [float(row.abs().sum()) for row in scene.nets["student"].said[1].grad]


@pytest.mark.parametrize("method", TAUGHT)
def test_the_teacher_gives_and_the_student_gets_the_gradient(method):
    scene = Scene(2, 2)
    assert min(gradient_shares(scene, method(weight=1.0, ramp=0.0))) > 0
    assert not any(said.requires_grad for said in scene.nets["teacher"].said)
    assert scene.nets["teacher"].slope.grad is None


def test_the_student_of_tcsm_sees_the_transformed_image_and_its_teacher_the_image():
    scene = Scene(2, 2)
    scene.terms(TransformationConsistentTeacher(noise=0.0))
    np.testing.assert_array_equal(scene.shown("teacher", 0), scene.image)
    assert np.abs(scene.shown("student", 1) - scene.image).max() > 0.1


def test_both_passes_of_the_pi_model_learn():
    assert min(gradient_shares(Scene(2, 2), PiModel(weight=1.0))) > 0


@pytest.mark.parametrize("dims", [2, 3])
def test_the_pi_model_sees_labelled_images_as_it_sees_unlabelled_ones(dims):
    """Mirrored with their labels, so that a network that looks at each pixel alone finds them as easy, and noisy."""
    scene = Scene(dims, 3)
    labelled, student = scene.batch.labelled, Planted(dims, 3, 0, places=False)
    masked = labelled.valid.clone()
    masked[:, 0] = False
    scene.batch = replace(scene.batch, labelled=replace(labelled, image=labelled.image.double(), valid=masked))
    scene.nets = {"student": student}
    plain, mirrored = (scene.terms(PiModel(noise=0.0, mirror=mirror, dice=1.0)).values for mirror in (0.0, 1.0))
    for term in ("ce", "dice"):
        assert number(mirrored[term]) == pytest.approx(number(plain[term]), abs=1e-6)
    assert torch.equal(student.shown[2], student.shown[0].flip(2, 3))
    scene.terms(PiModel(mirror=0.0))
    assert 0.05 < (student.shown[4] - student.shown[0]).abs().mean() < 0.15


def test_the_target_of_transform_consistency_gets_no_gradient():
    plain, of_view = np.split(np.array(gradient_shares(Scene(2, 2), TransformConsistency(mirror=1.0))), 2)
    assert (plain == 0).all()
    assert (of_view > 0).all()


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize(
    "method",
    [
        PiModel(noise=0.0),
        TransformConsistency(),
        TransformationConsistentTeacher(noise=0.0, scale=(1.0, 1.0)),
    ],
    ids=lambda method: type(method).__name__,
)
def test_answers_are_compared_where_they_belong(method, dims):
    """A network that looks at each pixel alone has the same answer in every view: nothing is left to learn."""
    scene = Scene(dims, 3)
    student = Planted(dims, 3, 0, places=False)
    scene.nets = {"student": student, "teacher": student}

    def found():
        return [number(scene.terms(method, seed=seed).values["consistency"]) for seed in range(4)]

    assert found() == pytest.approx([0] * 4, abs=1e-8)
    student.place = Planted(dims, 3, 1).place
    assert max(found()) > 1e-3


# Temporal ensembling's memory


def test_what_was_never_seen_has_no_target():
    scene = Scene(2, 2)
    first = scene.terms(TemporalEnsembling())
    assert number(first.values["consistency"]) == 0
    first.total.backward()
    assert torch.isfinite(scene.nets["student"].slope.grad).all()


@pytest.mark.parametrize("dims", [2, 3])
def test_the_average_follows_an_image_through_its_views(dims):
    """Of a network that looks at each pixel alone, the average of what it said of an image is what it says now."""
    shape = (20, 18, 10)[:dims]
    places = torch.stack(torch.meshgrid(*[torch.arange(float(n)) for n in shape], indexing="ij")).sum(dim=0)
    images = tuple(torch.sin(places / 6 + phase).unsqueeze(0) for phase in range(3))
    pool, size = Pool(images, None, ("a", "b", "c")), (16, 12, 8)[:dims]
    window = Slices(size=size) if dims == 2 else Patches(size=size)
    source = Batches(pool, pool, window=window, augment=Augment(scale=(0.9, 1.1)), sizes=(1, 3), seed=0)
    memory, method = CaseMemory(pool), TemporalEnsembling(noise=0.0)
    student = Planted(dims, 2, 0, places=False)
    found = []
    for step in range(6):
        sample = source.at(step, memory).unlabelled
        terms = method.unlabelled_terms({"student": student}, sample, tiny.at("train"))
        source.trace(step, memory, terms.traces)
        found.append(number(terms.values["consistency"]))
    assert found[0] == 0
    assert max(found) < 2e-3
    with torch.no_grad():
        student.slope.neg_()
    turned = method.unlabelled_terms({"student": student}, sample, tiny.at("train"))
    assert number(turned.values["consistency"]) > 0.1


def test_targets_outside_the_image_are_not_read():
    scene = Scene(2, 2)
    kept, valid = torch.rand(2, 3, 16, 16, dtype=torch.float64), scene.batch.unlabelled.valid.unsqueeze(1)
    found = []
    for maps in (kept, torch.where(valid, kept, 7.0)):
        scene.batch = replace(scene.batch, unlabelled=replace(scene.batch.unlabelled, maps={"ensemble": maps}))
        found.append(number(scene.terms(TemporalEnsembling()).total))
    assert found[0] == found[1]


# The teacher's dropout


def test_the_teacher_of_ua_mt_drops_out_and_keeps_its_statistics():
    method = UncertaintyAwareMeanTeacher(noise=0.0)
    torch.manual_seed(0)
    nets, modes = method.nets(tiny.make_net()), []
    for layer in nets["teacher"].modules():
        if isinstance(layer, torch.nn.Dropout | torch.nn.BatchNorm2d):
            layer.register_forward_hook(lambda layer, *_: modes.append((type(layer), layer.training)))
    answers = []
    nets["teacher"].register_forward_hook(lambda net, shown, said: answers.append(said["main"]))
    before = {name: value.clone() for name, value in nets["teacher"].state_dict().items()}
    method.loss(nets, tiny.batch(), tiny.at("train"))
    assert set(modes) == {(torch.nn.Dropout, True), (torch.nn.BatchNorm2d, False)}
    assert len(answers) == 9
    assert not any(torch.equal(answers[0], other) for other in answers[1:])
    assert all(torch.equal(value, before[name]) for name, value in nets["teacher"].state_dict().items())
    assert not any(layer.training for layer in nets["teacher"].modules())


def test_methods_say_when_they_need_dropout():
    for method in (PiModel, TemporalEnsembling):
        assert method().needs == {"dropout"}
        assert method(dropout=0.0).needs == frozenset()
    assert UncertaintyAwareMeanTeacher().needs == {"dropout"}


def test_views_of_the_pi_model_differ():
    torch.manual_seed(0)
    first, second = (draw_symmetry(torch.zeros(64, 1, 4, 4), mirror=PiModel().mirror) for _ in range(2))
    assert not torch.equal(first.mirror, second.mirror)


# The page that explains how to write one


def test_the_page_shows_the_files_as_they_are():
    page = (ROOT / "docs/write-a-method.md").read_text(encoding="utf-8")
    blocks = page.split("```python\n")[1:]
    method, *tests = (block.split("```")[0] for block in blocks)
    assert method == (ROOT / "src/coranet/methods/entropy_minimisation.py").read_text(encoding="utf-8")
    assert tests
    here = Path(__file__).read_text(encoding="utf-8")
    assert all(test in here for test in tests)
