"""Small promises of the paper that no loss shows: who moves, in which mode, by which optimizer, for how long."""

import json
import math
from copy import copy
from dataclasses import fields, replace

import pytest
import torch

from coranet.data.prepare.extents import Extents, Spread
from coranet.engine.codec import override
from coranet.engine.optimizers import make_optimizers, rate
from coranet.engine.run import Accel, Optim, Run
from coranet.engine.step import backward
from coranet.errors import InputError
from coranet.feed.augmentation import Augment
from coranet.methods import METHODS
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.methods.coranet_repaired import RepairedCoraNet
from coranet.runs.presets import PRESETS, Scans, paper_preparation
from coranet.runs.run_plan import make_run
from tests import tiny


def build(method, dims=2):
    torch.manual_seed(0)
    return method.nets(tiny.make_net(dims, 3))


def extents(*, shape=(64, 64, 9), **spacings):
    sizes = Spread(smallest=shape, median=shape, largest=shape)
    return Extents(shapes=sizes, spacings=Spread(**spacings))


def test_the_teacher_starts_as_the_student_after_pre_training():
    method = CoraNet()
    nets = build(method)
    with torch.no_grad():
        for tensor in nets["student"].state_dict().values():
            tensor.add_(1)
    method.begin_phase(nets, "pretrain")
    theirs = nets["student"].state_dict()
    assert not any(torch.equal(value, theirs[key]) for key, value in nets["teacher"].state_dict().items())
    method.begin_phase(nets, "selftrain")
    assert all(torch.equal(value, theirs[key]) for key, value in nets["teacher"].state_dict().items())


def test_the_teacher_rests_during_pre_training():
    method = CoraNet()
    nets = build(method)
    before = {key: value.clone() for key, value in nets["teacher"].state_dict().items()}
    with torch.no_grad():
        for parameter in nets["student"].parameters():
            parameter.add_(1)
    method.after_step(nets, tiny.at("pretrain"))
    assert all(torch.equal(value, before[key]) for key, value in nets["teacher"].state_dict().items())


@pytest.mark.parametrize("name", ["c-sn", "uc-sn"])
def test_self_training_moves_the_encoder_and_the_main_head_alone(name):
    method = CoraNet()
    nets = build(method)
    (update,) = [update for update in method.objectives("selftrain") if update.name == name]
    with torch.no_grad():
        for parameter in nets["teacher"].parameters():
            parameter.add_(0.1)
    backward(nets, update, tiny.batch(classes=3), tiny.at("selftrain"), Accel())
    moved = {
        key.split(".")[1] for key, p in nets["student"].named_parameters() if p.grad is not None and "heads" in key
    }
    assert moved == {"main"}
    assert nets["student"].encoder[0][0][0].weight.grad is not None


def test_modes():
    for method, training in ((CoraNet(), False), (ReleasedCoraNet(), True)):
        nets = build(method)
        for update in method.objectives("selftrain"):
            backward(nets, update, tiny.batch(classes=3), tiny.at("selftrain"), Accel())
        assert nets["student"].training
        assert nets["teacher"].training is training


def test_the_released_teacher_averages_parameters_alone():
    method = ReleasedCoraNet()
    nets = build(method)
    with torch.no_grad():
        for tensor in nets["student"].state_dict().values():
            tensor.add_(1)
    before = {key: value.clone() for key, value in nets["teacher"].named_buffers()}
    method.after_step(nets, tiny.at("selftrain"))
    assert all(torch.equal(value, before[key]) for key, value in nets["teacher"].named_buffers())


OWN = {
    "coranet": {
        "self_training",
        "mean_teacher",
        "mask",
        "consistency_on",
        "normalise",
        "updates",
        "masks",
        "refresh_every",
    },
    "coranet:released": {"ramp_epochs", "refresh_every"},
    "coranet:repaired": {"view", "refresh_every"},
}


@pytest.mark.parametrize("variant", OWN)
def test_variants_have_no_field_that_they_would_ignore(variant):
    shared = {"dice", "regions", "prior", "weights", "beta", "pretrain_epochs", "selftrain_epochs"}
    assert {field.name for field in fields(METHODS[variant])} == shared | OWN[variant]
    strange = next(iter(set().union(*OWN.values()) - OWN[variant]))
    with pytest.raises(InputError, match=f"has no field '{strange}'"):
        override(METHODS[variant](), strange, "1")


def test_a_view_changes_what_the_student_sees_and_nothing_else():
    method, batch = RepairedCoraNet(), tiny.batch(classes=3)
    seen = {"student": [], "teacher": []}
    nets = build(method)
    for name, net in nets.items():
        net.register_forward_pre_hook(lambda module, inputs, name=name: seen[name].append(inputs[0]))
    torch.manual_seed(0)
    method.consistency_loss(nets, batch, tiny.at("selftrain"))
    method.labelled_loss(nets, batch, tiny.at("selftrain"))
    unlabelled, labelled = seen["student"]
    assert not torch.equal(unlabelled, batch.unlabelled.image)
    assert torch.equal(labelled, batch.labelled.image)
    assert torch.equal(seen["teacher"][0], batch.unlabelled.image)
    CoraNet().consistency_loss(nets, batch, tiny.at("selftrain"))
    assert torch.equal(seen["student"][-1], batch.unlabelled.image)


def test_one_adam_for_all_updates():
    nets = build(CoraNet())
    optimizers = make_optimizers(CoraNet(), nets, Optim())
    assert list(optimizers) == ["main"]
    adam = optimizers["main"]
    assert isinstance(adam, torch.optim.Adam)
    (group,) = adam.param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (1e-3, (0.5, 0.999), 0.0)
    assert {id(p) for p in group["params"]} == {id(p) for p in nets["student"].parameters()}
    sgd = make_optimizers(CoraNet(), nets, Optim(kind="sgd", lr=0.1, momentum=0.8))["main"]
    assert isinstance(sgd, torch.optim.SGD)
    assert sgd.param_groups[0]["momentum"] == 0.8


def test_rates():
    assert [rate(Optim(), step, 10) for step in (0, 9)] == [1e-3, 1e-3]
    falling = [rate(Optim(decay="poly"), step, 10) for step in range(11)]
    assert falling[0] == 1e-3
    assert falling[5] == pytest.approx(1e-3 * 0.5**0.9)
    assert falling[10] == 0


def test_the_paper_s_preset(scans, small):
    """256 x 256 pixels, 4 + 4 images, 64 channels, 130 epochs of the larger set, constant Adam, wide views."""
    run, store = make_run(scans, small(preset="paper", steps=None, val=0), torch.device("cpu"))
    slices = [sum(store.cases[name].shape[3] for name in part) for part in (run.split.labelled, run.split.unlabelled)]
    assert run.train.steps == 130 * -(-max(slices) // 4)
    scans = Scans(data=run.data, split=run.split, store=store, device=torch.device("cpu"), dims=2)
    paper = PRESETS["paper"].run(scans, CoraNet())
    assert paper.train.batch == (4, 4)
    assert paper.net.width == 64
    assert paper.data.window.size == (256, 256)
    assert paper.data.augment.rotate == 30
    assert paper.data.augment.scale == (0.5, 2.0)
    assert paper.data.augment.flip
    assert paper.optim == Optim()
    assert paper.method == CoraNet()
    settings = paper_preparation(extents(smallest=(1, 1, 8), median=(1, 1, 8), largest=(1, 1, 8)), ("MRI",), 2)
    assert (settings.intensity, settings.size, settings.fit) == ("minmax", (256, 256, None), "resize")


def test_the_paper_s_views_of_acdc(scans, small):
    run, _ = make_run(scans, small(preset="acdc", steps=4), torch.device("cpu"))
    assert run.data.augment == Augment(rotate=30, scale=(1, 1), flip=True, area=(0.85, 0.95))
    assert run.split.val == ()


def test_the_paper_s_preset_prints_both_counts(scans, small):
    heard = []
    options = replace(small(preset="paper", steps=1, val=0), overrides=())
    make_run(scans, options, torch.device("cpu"), say=heard.append)
    # Four classes here: the main head has two outputs more than the paper's, the other two four more each.
    assert "training 31.26 M, in test 31.11 M; the paper prints 29.8 M and 29.6 M" in heard[-1]


def test_auto_windows_ct_and_evens_out_spacing():
    wide = extents(smallest=(0.5, 0.5, 5), median=(1, 1, 8), largest=(2, 2, 10))
    prepare = PRESETS["auto"].prepare
    assert prepare(wide, ("CT",), 2).intensity == "window"
    assert prepare(wide, ("CT",), 2).spacing == (1, 1, None)  # slices stay as they were taken
    assert prepare(wide, ("CT",), 3).spacing == (1, 1, 8)
    assert prepare(wide, ("PET", "CT"), 2).intensity == "zscore"
    even = extents(smallest=(1, 1, 7), median=(1, 1, 8), largest=(1.2, 1.2, 10))
    for dims in (2, 3):
        assert prepare(even, ("MRI",), dims).spacing == (None, None, None)
        assert prepare(even, ("MRI",), dims).intensity == "zscore"


def test_quick_coarsens_the_finest_axes_of_large_scans_alone():
    prepare, at = PRESETS["quick"].prepare, {"smallest": (1, 1, 2), "median": (1, 1, 2), "largest": (1, 1, 2)}
    assert prepare(extents(shape=(35, 50, 35), **at), ("MRI",), 3) == PRESETS["auto"].prepare(
        extents(shape=(35, 50, 35), **at), ("MRI",), 3
    )
    x, y, z = prepare(extents(shape=(128, 128, 40), **at), ("MRI",), 3).spacing
    assert x == y == pytest.approx((128 * 128 * 40 / 56**3) ** 0.5, rel=0.03)  # below 2: slices stay where they are
    assert z is None
    even = prepare(extents(shape=(512, 512, 256), **at), ("CT",), 3)
    assert len(set(even.spacing)) == 1  # as coarse along all
    assert 512 * 512 * 512 / even.spacing[0] ** 3 <= 56**3
    assert even.intensity == "window"
    flat = prepare(extents(shape=(512, 256, 40), **at), ("MRI",), 2).spacing
    assert flat[0] == flat[1] == pytest.approx((512 * 256 / 128**2) ** 0.5, rel=0.03)
    assert flat[2] is None


def test_quick_is_taken_and_said_where_there_is_no_gpu(scans, small):
    heard = []
    run, _ = make_run(scans, small(preset=None, steps=None), torch.device("cpu"), say=heard.append)
    assert (run.made_with["preset"], run.made_with["minutes"]) == ("quick", 10)
    assert sum("No GPU: taking --preset quick, for about 10 min (--minutes)" in said for said in heard) == 1
    named, _ = make_run(scans, small(steps=None), torch.device("cpu"), say=heard.append)
    assert named.made_with["preset"] == "auto"
    assert "minutes" not in named.made_with
    counted, _ = make_run(scans, small(preset="quick", steps=5), torch.device("cpu"))
    assert counted.train.steps == 5
    assert "minutes" not in counted.made_with
    assert sum("No GPU" in said for said in heard) == 1


@pytest.mark.parametrize(("dims", "most"), [(2, (128, 128)), (3, (40, 40, 40))])
def test_quick_windows_are_small(scans, small, dims, most):
    run, store = make_run(scans, small(preset="quick"), torch.device("cpu"))
    wide = copy(store)
    vars(wide)["cases"] = {name: replace(case, shape=(1, 200, 300, 200)) for name, case in store.cases.items()}
    large = Scans(data=run.data, split=run.split, store=wide, device=torch.device("cpu"), dims=dims)
    sizes = {name: PRESETS[name].run(large, CoraNet()).data.window.size for name in ("auto", "quick")}
    assert 0.7 * math.prod(most) < math.prod(sizes["quick"]) <= math.prod(most) < math.prod(sizes["auto"])


def test_nine_in_ten_slices_fill_the_window(scans, small):
    run, store = make_run(scans, small(preset="auto"), torch.device("cpu"))
    shapes = [(1, 100, 90, 5), (1, 400, 400, 5), *[(1, 181, 210, 5), (1, 181, 250, 5)] * 9]
    wide, case = copy(store), next(iter(store.cases.values()))
    vars(wide)["cases"] = {f"case-{i}": replace(case, shape=shape) for i, shape in enumerate(shapes)}
    split = replace(run.split, labelled=tuple(wide.cases)[:5], unlabelled=tuple(wide.cases)[5:])
    of_all = Scans(data=run.data, split=split, store=wide, device=torch.device("cpu"), dims=2)
    assert PRESETS["auto"].run(of_all, CoraNet()).data.window.size == (192, 224)
    asked = replace(of_all, patch=(96, 64))
    assert PRESETS["auto"].run(asked, CoraNet()).data.window.size == (96, 64)


@pytest.mark.parametrize("given", [{"steps": 5}, {"steps": None, "overrides": (("train.steps", "5"),)}])
def test_minutes_and_steps_are_not_given_together(scans, small, given):
    with pytest.raises(InputError, match="--minutes 2 chooses the number of steps"):
        make_run(scans, small(minutes=2, **given), torch.device("cpu"))


def test_an_epoch_is_the_larger_set_s(scans, small, tmp_path):
    from coranet.engine.setup import Setup

    run, store = make_run(scans, small(val=0), torch.device("cpu"))
    setup = Setup.of(run, store, torch.device("cpu"))
    assert setup.batches.epoch == (-(-9 // 2), -(-12 // 2))
    assert setup.epoch == 6


def test_every_image_of_a_pool_is_predicted_once_at_its_own_size(scans, small, finished, tmp_path):
    """Padded together or cut by size, an image's prediction is the one it gets alone."""
    from coranet.engine.setup import Setup

    run, store = make_run(scans, small(val=0), torch.device("cpu"))
    setup = Setup.of(run, store, torch.device("cpu"))
    pool = setup.unlabelled
    pool = replace(pool, images=(pool.images[0][:, :20, :28], *pool.images[1:]))
    predictor = setup.predictor()
    for size in ((32, 32), (16, 16)):
        chosen = replace(predictor, window=replace(predictor.window, size=size))
        seen = []
        for index, planes, prediction in chosen.over(pool):
            for row, image in enumerate(index.tolist()):
                height, width = pool.sizes[image].tolist()
                assert len(range(height)[planes]) == height  # small enough to be one part
                alone = chosen(pool.images[image].unsqueeze(0)).probabilities
                together = prediction.probabilities[row : row + 1, :, :height, :width]
                torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)
                seen.append(image)
        assert sorted(seen) == list(range(len(pool)))


def test_run_json_says_what_it_was_made_with(finished):
    content = json.loads((finished / "run.json").read_text())
    assert {"coranet", "torch", "python", "commit"} <= set(content["made_with"])
    assert Run.read(finished).method == METHODS["coranet"](dice=1.0)
