"""Several looks as one: soft maps are averaged in the image's own space, and decided last."""

import json
import shutil
from dataclasses import replace
from itertools import combinations

import nibabel as nib
import numpy as np
import pytest
import torch

import coranet
from coranet.cli import main
from coranet.engine.prediction.answer import Answer
from coranet.engine.prediction.average import Average, symmetries
from coranet.engine.prediction.trained import Trained
from coranet.errors import InputError
from coranet.feed.augmentation import Augment
from coranet.methods import Segmenter
from coranet.methods.vote import Vote
from coranet.ops.space.orientation import Orientation
from coranet.runs.launch import train
from coranet.uncertainty import CRM, Softmax
from tests.tiny import SHAPES, make_net

CPU = torch.device("cpu")


def segmenter(estimator, dims=2, classes=3):
    net = make_net(dims, classes)(heads={"main": classes, **estimator.heads(classes)})
    return Segmenter(net.eval(), estimator)


def looks_of(one, dims, **augment):
    return [(one, view) for view in symmetries(Augment(**augment), SHAPES[dims])]


@pytest.mark.parametrize("window", [(8, 8), (8, 8, 4), (8, 12), (8, 12, 8)])
@pytest.mark.parametrize(("flip", "turns"), [(False, False), (True, False), (False, True), (True, True)])
def test_symmetries_are_those_that_training_draws(window, flip, turns):
    """Every upright warp that training can draw is among them, and no other."""
    augment = Augment(rotate=0, scale=(1, 1), flip=flip, turns=turns, crop=False)
    sizes = torch.tensor([window] * 200)
    drawn = augment.draw(sizes, window, torch.Generator().manual_seed(0)).matrix
    square = window[0] == window[1]
    shown = {tuple(one.flatten().int().tolist()) for one in drawn if square or one[0, 0] != 0}
    ours = set()
    for view in symmetries(augment, window):
        matrix = torch.zeros(len(window), len(window))
        for axis, source in enumerate(view.order):
            matrix[source, axis] = -1.0 if source in view.mirror else 1.0
        ours.add(tuple(matrix.flatten().int().tolist()))
    assert ours == shown
    assert symmetries(augment, window)[0] == Orientation(tuple(range(len(window))))


def test_views_that_are_always_upright_have_no_symmetry():
    assert len(symmetries(Augment(flip=True, turns=True, upright=1), (8, 8))) == 1


@pytest.mark.parametrize("dims", [2, 3])
def test_every_soft_map_is_averaged_and_regions_are_read_from_the_means(dims):
    one = segmenter(CRM(), dims)
    mean = Average.of(looks_of(one, dims, flip=True))
    image = torch.randn(2, 1, *SHAPES[dims])
    with torch.no_grad():
        maps = mean.infer(image)
        each = {}
        for count in range(3):
            for axes in combinations((2, 3), count):
                for name, values in one.infer(image.flip(axes)).items():
                    each.setdefault(name, []).append(values.flip(axes).double().numpy())
        alone = one(image)
    assert set(maps) == {"main", "con", "rad"}
    for name, values in maps.items():
        np.testing.assert_allclose(values, np.mean(each[name], axis=0), atol=1e-6)
    said = mean.decide(maps)
    certain = ((maps["con"] > 0.5) == (maps["rad"] > 0.5)).all(dim=1)
    assert torch.equal(said.regions.certain, certain)
    assert not torch.equal(said.probabilities, alone.probabilities)


@pytest.mark.parametrize("vote", [False, True])
def test_a_turned_image_gets_the_turned_answer(vote):
    estimator = CRM()
    one = Vote.of([segmenter(estimator, classes=2) for _ in range(2)]) if vote else segmenter(estimator)
    mean = Average.of(looks_of(one, 2, flip=True, turns=True))
    assert len(mean.looks) == 8
    image = torch.randn(1, 1, *SHAPES[2])
    with torch.no_grad():
        straight, turned = mean(image), mean(image.rot90(1, (2, 3)))
        assert not torch.allclose(one(image).probabilities.rot90(1, (2, 3)), one(image.rot90(1, (2, 3))).probabilities)
    torch.testing.assert_close(turned.probabilities, straight.probabilities.rot90(1, (2, 3)))
    torch.testing.assert_close(turned.regions.score, straight.regions.score.rot90(1, (1, 2)))


def test_runs_that_read_regions_differently_share_the_softmax_of_their_mean():
    upright = Orientation((0, 1))
    crm, soft = segmenter(CRM()), segmenter(Softmax(threshold=0.5))
    mean = Average.of([(crm, upright), (soft, upright)])
    image = torch.randn(2, 1, *SHAPES[2])
    with torch.no_grad():
        said = mean(image)
        expected = (crm(image).probabilities + soft(image).probabilities) / 2
    torch.testing.assert_close(said.probabilities, expected)
    assert torch.equal(said.regions.certain, expected.amax(dim=1) > 0.9)
    assert Average.of([(crm, upright), (Segmenter(soft.net), upright)]).estimator is None


def test_a_single_look_stays_what_it_is():
    one = segmenter(CRM())
    assert Average.of([(one, Orientation((0, 1)))]) is one


@pytest.fixture(scope="module")
def mirrored(scans, small, tmp_path_factory):
    """Two seeds that were trained on mirrored images, and on windows smaller than the scans."""
    overrides = (("data.augment.flip", "true"), ("data.window.size", "[16, 16]"))
    root = tmp_path_factory.mktemp("mirrored")
    return [train(scans, root / f"{s}", small(val=0, steps=2, seed=s, overrides=overrides)) for s in (0, 1)]


@pytest.fixture(scope="module")
def scan(scans):
    return scans / "imagesTs/phantom_007_0000.nii.gz"


def test_runs_together_say_the_mean_of_what_they_say_alone(mirrored, scan):
    both = coranet.load(mirrored, "cpu")
    alone = [coranet.load(folder, "cpu") for folder in mirrored]
    answer, others = both.predict(scan), [one.predict(scan) for one in alone]
    np.testing.assert_allclose(answer.probabilities, (others[0].probabilities + others[1].probabilities) / 2, atol=1e-5)
    assert both.parameters == alone[0].parameters + alone[1].parameters
    assert set(answer.masks) == {"conservative", "radical"}
    assert both.listed("labelled") == alone[0].run.split.labelled


def test_copies_are_averaged_in_parts_as_in_one(mirrored, scan, monkeypatch):
    copies, plain = coranet.load(mirrored, "cpu", tta=True), coranet.load(mirrored, "cpu")
    assert len(copies.predictor.segmenter.looks) == 2 * 4
    whole = copies.predict(scan)
    assert not np.array_equal(whole.probabilities, plain.predict(scan).probabilities)
    monkeypatch.setattr("coranet.engine.prediction.predictor.PART_BYTES", 16 * 32 * 16)
    np.testing.assert_array_equal(copies.predict(scan).probabilities, whole.probabilities)


def test_the_command_takes_several_runs_and_the_scans_last(mirrored, scans, scan, tmp_path, capsys):
    words = [*mirrored, "--tta", scans / "imagesTs", "--out", tmp_path / "p", "--device", "cpu", "--largest-component"]
    with pytest.raises(SystemExit) as stop:
        main(["predict", *map(str, words)])
    assert stop.value.code == 0
    assert "2 networks, averaged, of" in capsys.readouterr().err
    expected = coranet.load(mirrored, "cpu", tta=True, largest_component=True).predict(scan)
    for name, values in (("", expected.label), ("_uncertain", expected.uncertain)):
        np.testing.assert_array_equal(nib.load(tmp_path / f"p/phantom_007{name}.nii.gz").get_fdata(), values)


def changed(folder, out, **data):
    """A copy of a run with other words in its run.json."""
    shutil.copytree(folder, out)
    content = json.loads((out / "run.json").read_text())
    content["data"] |= data
    (out / "run.json").write_text(json.dumps(content))
    return out


def test_runs_that_do_not_fit_are_refused_in_a_sentence(mirrored, finished, tmp_path):
    first = mirrored[0]
    names = {"0": "background", "1": "a", "2": "b", "3": "c"}
    for field, other in (
        ("classes", changed(first, tmp_path / "classes", classes=names)),
        ("preparation", changed(first, tmp_path / "grid", preparation={"spacing": [1.0, 1.0, None]})),
        ("windows", finished),
    ):
        with pytest.raises(InputError, match=f"^{other}: has other {field} than {first} .* cannot be averaged"):
            Trained.load([first, other], CPU)
    with pytest.raises(InputError, match="is named twice"):
        Trained.load([first, first.parent / "." / first.name], CPU)
    with pytest.raises(InputError, match=f"^{finished}: was trained on upright images alone"):
        Trained.load(finished, CPU, tta=True)


def test_only_needs_one_split(mirrored, tmp_path):
    other = changed(mirrored[1], tmp_path / "other")
    content = json.loads((other / "run.json").read_text())
    content["split"]["test"] = ["phantom_007"]
    (other / "run.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="--only test: the runs were trained with different splits"):
        Trained.load([mirrored[0], other], CPU).listed("test")


def test_what_is_removed_becomes_uncertain():
    label, uncertain = np.array([1, 1, 0, 1, 2], np.uint8), np.array([1, 0, 0, 0, 0], np.uint8)
    answer = Answer(label=label, uncertain=uncertain, score=None, probabilities=None, masks={}).largest()
    np.testing.assert_array_equal(answer.label, [1, 1, 0, 0, 2])
    np.testing.assert_array_equal(answer.uncertain, [1, 0, 0, 1, 0])
    assert replace(answer, uncertain=None).largest().uncertain is None


def test_scans_and_prepared_ones_keep_the_largest_alike(mirrored, monkeypatch):
    monkeypatch.setattr("coranet.engine.prediction.answer.keep_largest", lambda label: np.full_like(label, 3))
    trained, image = coranet.load(mirrored[0], "cpu", largest_component=True), np.zeros((1, 16, 16, 3), np.float32)
    for answer in (trained.predict(image[0], affine=np.eye(4)), trained.predict_prepared(image)):
        assert (answer.label == 3).all()
        assert answer.uncertain.all()
