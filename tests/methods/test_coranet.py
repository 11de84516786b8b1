"""Each method's objective against its own oracle, with the networks' outputs taken as given."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from coranet.errors import InputError
from coranet.methods import METHODS, Segmenter, find_method
from coranet.methods.coranet import ABLATION, CoraNet
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.methods.mean_teacher import MeanTeacher
from coranet.nets import MakeNet, Net, count_parameters
from coranet.types import Prediction
from coranet.uncertainty import CRM, Softmax
from tests import oracles, tiny


def flat(tensor):
    array = tensor.detach().double().numpy()
    return array.reshape(*array.shape[:-2], -1)


def whole(tensor):
    return tensor.numpy().reshape(len(tensor), -1)


class Scripted(torch.nn.Module):
    """A network that says what it is told to, whatever the image."""

    def __init__(self, classes, count=2, seed=0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        pairs = 2 * (classes - 1)
        self.logits = {
            name: torch.randn(count, outputs, 16, 16, generator=generator, dtype=torch.float64) * 2
            for name, outputs in (("main", classes), ("con", pairs), ("rad", pairs))
        }

    def forward(self, image, heads=None):
        return {name: self.logits[name] for name in (heads or self.logits)}

    def heads_flat(self):
        return {name: flat(value) for name, value in self.logits.items()}


@pytest.fixture(params=[2, 4], ids=["one object", "three objects"])
def scene(request):
    classes = request.param
    nets = {"student": Scripted(classes), "teacher": Scripted(classes, seed=1)}
    return nets, tiny.batch(classes=classes)


@pytest.mark.parametrize("alpha", [1.0, 5.0])
def test_crm_loss(scene, alpha):
    nets, batch = scene
    heads, sample = nets["student"].heads_flat(), batch.labelled
    total = CoraNet(regions=CRM(alpha=alpha)).labelled_loss(nets, batch, tiny.at("pretrain")).total
    expected = oracles.crm_loss(**heads, label=whole(sample.label), valid=whole(sample.valid), alpha=alpha)
    assert float(total) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("normalise", ["image", "region"])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.3, 7.0)])
def test_certain_and_consistency_losses(scene, normalise, weights):
    nets, batch = scene
    method, sample, at = CoraNet(normalise=normalise, weights=weights), batch.unlabelled, tiny.at("selftrain")
    certain, label = whole(sample.maps["certain"]).astype(bool), whole(sample.maps["label"])
    student, teacher = (flat(nets[name].logits["main"]) for name in ("student", "teacher"))
    valid = whole(sample.valid)
    expected = oracles.certain_loss(student, label, certain, valid, normalise)
    assert float(method.certain_loss(nets, batch, at).total) == pytest.approx(weights[0] * expected, abs=1e-6)
    expected = oracles.consistency_loss(student, teacher, ~certain, valid, normalise)
    terms = method.consistency_loss(nets, batch, at)
    assert float(terms.total) == pytest.approx(weights[1] * expected, abs=1e-6)
    share = oracles.masked_mean(np.ones(valid.shape), ~certain, valid)
    assert float(terms.measures["uncertain_share"]) == pytest.approx(share, abs=1e-6)


def test_joint_is_the_sum_of_the_three(scene):
    nets, batch = scene
    method, at = CoraNet(updates="joint"), tiny.at("selftrain")
    parts = [
        loss(nets, batch, at).total for loss in (method.labelled_loss, method.certain_loss, method.consistency_loss)
    ]
    assert float(method.loss(nets, batch, at).total) == pytest.approx(float(sum(parts)), abs=1e-9)


def test_the_ablation_s_rows_differ_by_what_they_say(scene):
    nets, batch = scene
    at, sample = tiny.at("selftrain"), batch.unlabelled
    names = {row: [update.name for update in method.objectives("selftrain")] for row, method in ABLATION.items()}
    assert names["seg"] == ["crm"]
    assert names["seg+st"] == names["seg+st (mask)"] == ["c-sn", "crm"]
    assert names["seg+mt"] == names["seg+mt (mask)"] == names["seg+mt (mask, other reading)"] == ["uc-sn", "crm"]
    assert names["ours"] == ["c-sn", "uc-sn", "crm"]
    assert all([u.name for u in method.objectives("pretrain")] == ["crm"] for method in ABLATION.values())
    student, teacher = (flat(nets[name].logits["main"]) for name in ("student", "teacher"))
    valid, label = whole(sample.valid), whole(sample.maps["label"])
    certain = whole(sample.maps["certain"]).astype(bool)
    everywhere = np.ones_like(certain)
    for row, region in (("seg+st", everywhere), ("seg+st (mask)", certain)):
        expected = oracles.certain_loss(student, label, region, valid)
        assert float(ABLATION[row].certain_loss(nets, batch, at).total) == pytest.approx(expected, abs=1e-6)
    regions = {"seg+mt": everywhere, "seg+mt (mask)": ~certain, "seg+mt (mask, other reading)": certain}
    for row, region in regions.items():
        expected = oracles.consistency_loss(student, teacher, region, valid)
        assert float(ABLATION[row].consistency_loss(nets, batch, at).total) == pytest.approx(expected, abs=1e-6)


def test_pseudo_labels_are_the_main_head_s_and_masks_the_estimator_s(scene):
    nets, batch = scene
    heads = nets["student"].heads_flat()
    for method, certain in (
        (CoraNet(), ~oracles.uncertain_mask(heads["con"], heads["rad"])),
        (CoraNet(regions=Softmax(threshold=0.7)), oracles.softmax(heads["main"]).max(axis=1) > 0.7),
    ):
        kept = method.remember(method.segmenter(nets)(batch.unlabelled.image))
        np.testing.assert_array_equal(whole(kept["label"]), heads["main"].argmax(axis=1))
        np.testing.assert_array_equal(whole(kept["certain"]).astype(bool), certain)
        online = replace(method, masks="online").targets(nets, batch.unlabelled)
        np.testing.assert_array_equal(whole(online[1]), certain)


def test_released_objective(scene):
    """Items 3 to 11 of how the released code differs from the text."""
    nets, batch = scene
    method, at = ReleasedCoraNet(), tiny.at("selftrain", step=8)
    sample, alpha = batch.labelled, 5.0
    heads = nets["student"].heads_flat()
    supervised = oracles.released_four(
        **heads, label=whole(sample.label), region=whole(sample.valid), costs=((1, alpha), (alpha, 1)), by_count=False
    )
    assert float(method.labelled_loss(nets, batch, at).total) == pytest.approx(sum(supervised) / 4, abs=1e-6)
    sample = batch.unlabelled
    valid, certain = whole(sample.valid), whole(sample.maps["certain"]).astype(bool)
    kept = oracles.released_four(
        **heads,
        label=whole(sample.maps["label"]).astype(int),
        region=certain & valid,
        costs=((alpha, 1), (1, alpha)),
        by_count=True,
    )
    uncertain = oracles.released_consistency(heads, nets["teacher"].heads_flat(), ~certain & valid)
    ramp = 0.1 * oracles.gaussian_ramp(8 / 4, 40)
    expected = sum(supervised) / 4 + 0.5 * (sum(kept) / 4 + ramp * uncertain)
    assert float(method.loss(nets, batch, at).total) == pytest.approx(expected, abs=1e-6)
    without = replace(method, dice=0.0).loss(nets, batch, at).total
    assert float(without) == pytest.approx(expected - supervised[1] / 4 - 0.5 * kept[1] / 4, abs=1e-6)


def test_mean_teacher_objective(scene):
    nets, batch = scene
    terms = MeanTeacher(weight=3.0, ramp=0.5).loss(nets, batch, tiny.at("train", step=5, steps=20))
    student, teacher = (flat(nets[name].logits["main"]) for name in ("student", "teacher"))
    everywhere, sample = np.ones((2, 256), bool), batch.labelled
    expected = oracles.masked_mean(oracles.cross_entropy(student, whole(sample.label)), everywhere, whole(sample.valid))
    consistency = oracles.consistency_loss(student, teacher, everywhere, whole(batch.unlabelled.valid))
    expected += 3.0 * oracles.gaussian_ramp(5, 10) * consistency
    assert float(terms.total) == pytest.approx(expected, abs=1e-6)


def test_supervised_objective_with_dice(scene):
    nets, batch = scene
    main, sample = flat(nets["student"].logits["main"]), batch.labelled
    label, valid = whole(sample.label), whole(sample.valid)
    expected = oracles.masked_mean(oracles.cross_entropy(main, label), np.ones_like(valid), valid)
    terms = METHODS["supervised"](dice=0.5).loss(nets, batch, tiny.at("train"))
    expected += 0.5 * oracles.soft_dice(oracles.softmax(main), label, valid)
    assert float(terms.total) == pytest.approx(expected, abs=1e-6)


def test_the_paper_s_network():
    """Section IV-A: 64 channels at the last level, three heads; two of them add 0.15 million parameters."""
    make_net = MakeNet(Net(), dims=2, channels=1, classes=2)
    nets = CoraNet().nets(make_net)
    student = nets["student"]
    assert set(student.heads) == {"main", "con", "rad"}
    assert set(nets["teacher"].heads) == {"main"}
    kinds = [type(layer).__name__ for layer in student.heads["con"].modules() if not list(layer.children())]
    assert kinds == ["Conv2d", "BatchNorm2d", "ReLU"] * 2 + ["Conv2d"]
    assert [layer.kernel_size for layer in student.heads["con"].modules() if isinstance(layer, torch.nn.Conv2d)] == [
        (3, 3),
        (3, 3),
        (1, 1),
    ]
    assert student.heads["main"][0][0].in_channels == 64
    alone = CoraNet().segmenter(nets, uncertainty=False).net
    assert count_parameters(student) - count_parameters(alone) == pytest.approx(0.15e6, rel=0.02)
    assert count_parameters(alone) == count_parameters(make_net())


def test_equal_costs_still_start_from_two_initialisations():
    student = CoraNet(regions=CRM(alpha=1.0)).nets(tiny.make_net())["student"]
    assert not torch.equal(student.heads["con"][0][0].weight, student.heads["rad"][0][0].weight)


def test_prediction_without_uncertainty_asks_the_main_head_alone(scene):
    nets, batch = scene
    alone = Segmenter(nets["student"])
    maps = alone.infer(batch.labelled.image)
    assert set(maps) == {"main"}
    assert alone.decide(maps).regions is None


@pytest.mark.parametrize("variant", ["coranet", "coranet:released", "coranet:repaired"])
def test_on_labels_alone_keeps_the_heads(variant):
    whole = METHODS[variant]()
    method = whole.on_labels_alone()
    assert type(method) is type(whole)
    assert [update.name for update in method.objectives("selftrain")] == ["crm"]
    assert method.phases[1].refresh_every is None
    assert set(method.nets(tiny.make_net())["student"].heads) == {"main", "con", "rad"}


def test_names():
    assert find_method("coranet") is CoraNet
    with pytest.raises(InputError, match=r"No method is called 'cora'. Did you mean coranet\?"):
        find_method("cora")
    with pytest.raises(InputError, match="between 0 and 1"):
        Softmax(threshold=1.5)
    with pytest.raises(InputError, match="at least 1"):
        CRM(alpha=0.2)
    with pytest.raises(InputError, match="conservative-radical module alone"):
        ReleasedCoraNet(regions=Softmax())
    with pytest.raises(InputError, match="names the teacher's region"):
        CoraNet(consistency_on="certain", mask=False)


def test_a_method_of_one_s_own(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom coranet.methods.supervised import Supervised\n\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Mine(Supervised):\n    extra: float = 2.0\n"
    )
    assert find_method(f"{file}:Mine")().extra == 2.0
    with pytest.raises(InputError, match="defines no method 'Yours'"):
        find_method(f"{file}:Yours")
    with pytest.raises(InputError, match="no such file"):
        find_method(f"{tmp_path / 'none.py'}:Mine")


def test_regions_cover_every_pixel_once(scene):
    nets, batch = scene
    prediction = CoraNet().segmenter(nets)(batch.labelled.image)
    assert isinstance(prediction, Prediction)
    regions = prediction.regions
    assert (regions.certain ^ regions.uncertain).all()
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(2, 16, 16, dtype=torch.float64))
    conservative, radical = regions.maps["conservative"] > 0, regions.maps["radical"] > 0
    assert (regions.uncertain[conservative != radical]).all()
