"""Volumes end to end: the same commands, chosen by the data; patches, windows, one network or one for each class."""

import json
import shutil
from dataclasses import replace

import nibabel as nib
import numpy as np
import pytest
import torch

import coranet
from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.data.readers import nifti
from coranet.engine import checkpoint
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run
from coranet.engine.timing.estimate import estimate_prices
from coranet.engine.trainer import Trainer
from coranet.errors import InputError
from coranet.feed.windows import Patches, Slices
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.methods.one_vs_rest import OneVsRest
from coranet.nets import Net
from coranet.runs.launch import train
from coranet.runs.options import Options
from coranet.runs.presets import choose_dims
from coranet.runs.run_plan import make_run

CPU = torch.device("cpu")
SELDOM = (("train.checks", "2"), ("train.relabellings", "2"))  # to predict whole volumes takes far longer than a step
SMALL = (("net.width", "2"), ("net.levels", "2"), ("train.batch", "[2, 2]"), ("train.watch", "false"), *SELDOM)


@pytest.fixture(scope="module")
def volumes(tmp_path_factory):
    """A raw folder: 3 labelled, 4 unlabelled and 2 test patients of 32 x 28 x 24 voxels, nearly cubes."""
    phantom = Phantom(shape=(32, 28, 24), slice_gap=(1.4, 1.6))
    root = tmp_path_factory.mktemp("volumes") / "scans"
    return write_folder(root, phantom, seed=5, labelled=3, unlabelled=4, test=2)


@pytest.fixture
def options(cache):
    def make(**changes):
        settings = {"steps": 6, "cache": cache, "device": "cpu", "val": 0, "patch": (16, 20, 12), "overrides": SMALL}
        settings |= {"method": "coranet", "preset": "auto"}
        return Options(**{**settings, **changes})

    return make


@pytest.fixture(scope="module")
def runs(volumes, cache, tmp_path_factory):
    """A native run and a binary one."""
    folder = tmp_path_factory.mktemp("runs")
    base = Options(
        preset="auto", steps=12, cache=cache, device="cpu", val=1, patch=(16, 20, 12), overrides=SMALL, method="coranet"
    )
    return {kind: train(volumes, folder / kind, replace(base, classes=kind)) for kind in ("native", "binary")}


# What is chosen


@pytest.mark.parametrize(
    ("shape", "spacing", "dims"),
    [
        ((256, 216, 10), (1.5, 1.5, 8), 2),  # short-axis cine MR
        ((512, 512, 200), (0.8, 0.8, 1), 3),
        ((35, 50, 35), (1, 1, 1), 3),
        ((320, 320, 24), (0.6, 0.6, 3.6), 2),
        ((100, 100, 23), (1, 1, 1), 2),
        ((576, 576, 88), (0.625, 0.625, 0.625), 3),
        ((512, 512, 1), (1, 1, 1), 2),
    ],
)
def test_dimensions_follow_the_data(shape, spacing, dims):
    assert choose_dims(shape, spacing) == dims


def test_volumes_are_trained_on_as_volumes_unless_told(volumes, scans, options):
    run, _ = make_run(volumes, options(patch=None, overrides=()), CPU)
    assert isinstance(run.data.window, Patches)
    assert run.net.body == "vnet"
    assert all(size % run.net.multiple == 0 for size in run.data.window.size)
    assert np.prod(run.data.window.size) <= 48**3
    flat, _ = make_run(volumes, options(dims=2, patch=None, overrides=()), CPU)
    assert isinstance(flat.data.window, Slices)
    assert flat.net.body == "unet"
    thin, _ = make_run(scans, options(patch=None, overrides=()), CPU)
    assert thin.data.window.dims == 2
    asked, _ = make_run(volumes, options(net="resnet18", patch=(32, 32, 32), overrides=(("net.levels", "2"),)), CPU)
    assert (asked.net.body, asked.data.window.size) == ("resnet18", (32, 32, 32))


def test_the_paper_s_preset_for_volumes(volumes, options):
    heard = []
    run, store = make_run(volumes, options(preset="paper", steps=None, patch=None, overrides=()), CPU, say=heard.append)
    assert run.net == Net(body="vnet", width=16, levels=4, norm="batch", head_convolutions=2)
    assert run.data.window == Patches(size=(96, 96, 96), stride=(16, 16, 4), blend="constant")
    augment = run.data.augment
    assert (augment.rotate, augment.scale, augment.flip, augment.turns, augment.crop) == (0, (1, 1), False, False, True)
    assert isinstance(run.method, CoraNet)
    assert (run.method.pretrain_epochs, run.method.selftrain_epochs) == (30, 200)
    assert run.train.steps == 230 * 1  # 4 + 4 windows a step: 3 labelled and 4 unlabelled volumes are seen in one
    assert "V" not in heard[-1].split(";")[0].replace("voxels", "")
    asked, _ = make_run(volumes, options(preset="paper", patch=(112, 112, 80), overrides=()), CPU)
    assert asked.data.window.size == (112, 112, 80)
    del store


def test_the_paper_s_preset_takes_12_labels_of_many(tmp_path, options):
    """And keeps none of them for validation, unless told."""
    root = write_folder(
        tmp_path / "many", Phantom(shape=(24, 24, 24), slice_gap=(1.4, 1.6)), seed=1, labelled=15, unlabelled=0, test=0
    )
    heard = []
    run, _ = make_run(root, options(preset="paper", patch=(32, 16, 16), val=None), CPU, say=heard.append)
    assert (len(run.split.labelled), len(run.split.unlabelled), len(run.split.val)) == (12, 3, 0)
    assert any("uses 12 labels" in line for line in heard)


def test_the_field_s_preset_for_the_left_atrium(volumes, options):
    run, _ = make_run(volumes, options(preset="la", patch=None, steps=None, overrides=()), CPU)
    assert run.data.window == Patches(size=(112, 112, 80), stride=(18, 18, 4), blend="constant")
    assert (run.optim.kind, run.optim.lr, run.optim.weight_decay, run.optim.decay) == ("sgd", 0.01, 1e-4, "poly")
    assert (run.train.steps, run.train.batch, run.net.width) == (6000, (2, 2), 16)
    assert run.data.augment.turns
    assert run.method.dice == 1
    with pytest.raises(InputError, match="is for 3D only"):
        make_run(volumes, options(preset="la", dims=2, patch=None), CPU)


def test_the_released_code_s_preset(volumes, options, tmp_path):
    """One centre crop, listed order, 8 + 8 windows, 59 + 201 epochs, instance norm, heads of one convolution."""
    run, store = make_run(volumes, options(preset="released", method=None, patch=None, steps=None, overrides=()), CPU)
    assert isinstance(run.method, ReleasedCoraNet)
    assert (run.method.pretrain_epochs, run.method.selftrain_epochs, run.method.refresh_every) == (59, 201, 5)
    assert run.net == Net(body="vnet", width=16, levels=4, norm="instance", head_convolutions=1)
    assert (run.train.batch, run.train.epoch, run.train.steps) == ((8, 8), 1, 260)
    assert (run.optim.kind, run.optim.lr, run.optim.betas, run.optim.decay) == ("adam", 1e-3, (0.5, 0.999), "none")
    small = replace(
        run,
        net=replace(run.net, width=2, levels=2),
        data=replace(run.data, window=replace(run.data.window, size=(16, 20, 12), stride=None)),
    )
    trainer = Trainer(small, store, tmp_path, CPU)
    assert {tuple(image.shape) for image in trainer.setup.unlabelled.images} == {(1, 16, 20, 12)}
    assert {tuple(image.shape) for image in trainer.setup.labelled.images} == {(1, 32, 28, 24)}
    centre = store.image(trainer.setup.unlabelled.cases[0])[:, 8:24, 4:24, 6:18]
    assert np.array_equal(trainer.setup.unlabelled.images[0].numpy(), centre)
    first, second = (trainer.setup.batches.at(step).unlabelled.image for step in (0, 1))
    crops = {tuple(image.flatten().tolist()) for image in (*first, *second)}
    assert len(crops) == 4  # of four volumes, whatever the step
    assert trainer.setup.epoch == 1
    trainer.refresh(0)
    assert [tuple(m.shape) for m in trainer.state.memory["label"]] == [(16, 20, 12)] * 4


# Training


def test_a_run_on_volumes_leaves_what_it_promises(runs):
    lines = [json.loads(line) for line in (runs["native"] / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 12
    assert set(lines[-1]["terms"]) == {"ce", "dice", "con", "rad", "certain", "consistency"}
    assert set(lines[-1]["val"]) == {"mean", "RV", "Myo", "LV"}
    film = np.load(sorted((runs["native"] / "film").iterdir())[-1])
    assert {film[name].shape for name in ("image", "prediction", "uncertain", "conservative")} == {(16, 20)}


def test_one_binary_network_for_each_class_in_one_run(runs):
    run = Run.read(runs["binary"])
    assert isinstance(run.method, OneVsRest)
    assert run.method.objects == 3
    assert run.method.inner.dice == 1
    nets = checkpoint.load(runs["binary"] / "last.pt", CPU)["nets"]
    assert set(nets) == {f"{k}.{name}" for k in (1, 2, 3) for name in ("student", "teacher")}
    last = json.loads((runs["binary"] / "log.jsonl").read_text().splitlines()[-1])
    assert {"1.ce", "2.certain", "3.consistency"} <= set(last["terms"])
    assert 0 <= last["measures"]["uncertain_share"] <= 1
    assert set(last["val"]) == {"mean", "RV", "Myo", "LV"}


def test_binary_with_two_classes_is_native(tmp_path, volumes, options):
    root = shutil.copytree(volumes, tmp_path / "two")
    about = json.loads((root / "dataset.json").read_text())
    (root / "dataset.json").write_text(json.dumps({**about, "labels": {"background": 0, "heart": 1}}))
    for file in root.glob("labelsT?/*.nii.gz"):
        volume = nifti.read(file)
        nifti.write(file, (volume.array > 0).astype(np.uint8), volume.geometry)
    run, _ = make_run(root, options(classes="binary"), CPU)
    assert isinstance(run.method, CoraNet)


@pytest.mark.parametrize("kind", ["native", "binary"])
def test_resuming_on_volumes_gives_the_same_weights_to_the_bit(volumes, options, tmp_path, kind):
    whole = train(volumes, tmp_path / "whole", options(classes=kind))
    part = tmp_path / "part"
    run, store = make_run(volumes, options(classes=kind), CPU)
    trainer = Trainer(run, store, part, CPU)
    part.mkdir()
    while trainer.state.done < 4:
        trainer.step(
            trainer.state.done, next(s for s in trainer.setup.timeline if s.start <= trainer.state.done < s.stop)
        )
        trainer.state.done += 1
    trainer.save()
    run.write(part)
    train(volumes, part, options(classes=kind), resume=True)
    first, second = (checkpoint.load(folder / "last.pt", CPU)["nets"] for folder in (whole, part))
    assert all(torch.equal(first[net][key], second[net][key]) for net in first for key in first[net])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dims": 2, "patch": None}, "--dims 2: the run was begun with 3"),
        ({"net": "unet"}, "--net unet: the run was begun with vnet"),
        ({"patch": (16, 16, 16)}, r"--patch .16, 16, 16.: the run was begun with"),
        ({"classes": "binary"}, "--classes binary: the run was begun with native"),
        ({"preset": "paper"}, "--preset paper: the run was begun with auto"),
        ({"labelled": 1}, "--labelled 1: the run was begun with 2"),
        ({"val": 0}, "--val 0: the run was begun with 1"),
        ({"overrides": (("net.width", "8"),)}, "--set net.width=8: the run was begun with another value"),
    ],
)
def test_a_run_is_continued_as_it_was_begun(runs, volumes, options, changes, said):
    with pytest.raises(InputError, match=said):
        train(volumes, runs["native"], options(**{"steps": 12, "val": None, **changes}), resume=True)


def test_a_binary_run_is_not_continued_as_a_native_one(runs, volumes, options):
    with pytest.raises(InputError, match="--classes native: the run was begun with binary"):
        train(volumes, runs["binary"], options(steps=12, val=1, classes="native"), resume=True)


def test_the_same_command_continues_a_run(runs, volumes, options):
    before = checkpoint.load(runs["binary"] / "last.pt", CPU)["step"]
    train(volumes, runs["binary"], options(steps=12, val=1, classes="binary", preset="auto"), resume=True)
    assert checkpoint.load(runs["binary"] / "last.pt", CPU)["step"] == before == 12


def test_heads_may_get_their_first_gradient_late_with_sgd(volumes, options, tmp_path):
    late = (*SMALL, ("method.pretrain_epochs", "0"))
    train(volumes, tmp_path / "run", options(preset="la", patch=(16, 16, 12), steps=3, overrides=late))
    assert (tmp_path / "run/last.pt").exists()


def test_the_estimate_counts_windows(volumes, options, tmp_path):
    """Of volumes larger than a window, nothing whole is predicted beforehand, and nothing that is not done is counted."""
    run, store = make_run(volumes, options(patch=(8, 8, 12), method="supervised"), CPU)
    trainer = Trainer(run, store, tmp_path, CPU)
    predictor = trainer.setup.predictor()
    assert predictor.windows(trainer.setup.unlabelled) == 4 * 7 * 6 * 3
    seen = []
    trainer.setup.nets["student"].register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    prices = estimate_prices(trainer.setup)
    assert sum(seen) < 40  # a few windows and two steps
    assert prices.relabel == pytest.approx(4 * 7 * 6 * 3 * prices.look)


def test_relabelling_predicts_whole_volumes_at_half_a_window(volumes, options, tmp_path):
    run, store = make_run(volumes, options(preset="paper", patch=(16, 16, 12)), CPU)
    trainer = Trainer(run, store, tmp_path, CPU)
    assert run.data.window.stride == (16, 16, 4)
    assert trainer.setup.predictor().stride is None  # half a window
    trainer.refresh(0)
    shapes = {tuple(kept.shape) for name in ("label", "certain") for kept in trainer.state.memory[name]}
    assert shapes == {(32, 28, 24)}
    whole = trainer.setup.predictor()(trainer.setup.unlabelled.images[0].unsqueeze(0))
    assert torch.equal(trainer.state.memory["label"][0].long(), whole.probabilities.argmax(dim=1)[0])
    assert torch.equal(trainer.state.memory["certain"][0].bool(), whole.regions.certain[0])


# Predicting


@pytest.mark.parametrize("kind", ["native", "binary"])
def test_predictions_of_volumes(runs, volumes, tmp_path, kind):
    trained = coranet.load(runs[kind], "cpu")
    trained.predict_files(volumes / "imagesTs", tmp_path, probabilities=True, masks=True)
    scan = nib.load(volumes / "imagesTs/phantom_007_0000.nii.gz")
    found = {
        path.name.removeprefix("phantom_007").removesuffix(".nii.gz"): nib.load(path)
        for path in tmp_path.glob("phantom_007*")
    }
    assert set(found) == {"", "_uncertain", "_score", "_probabilities", "_conservative", "_radical"}
    for image in found.values():
        assert image.shape[:3] == scan.shape
        np.testing.assert_array_equal(image.affine, scan.affine)
    soft = np.asarray(found["_probabilities"].dataobj)
    np.testing.assert_allclose(soft.sum(-1), 1, atol=soft.shape[-1] / 65535)
    first, second = np.sort(soft, axis=-1)[..., :-3:-1].transpose(3, 0, 1, 2)
    clear = first - second > 2 / 65535  # in which steps they are stored
    np.testing.assert_array_equal(soft.argmax(-1)[clear], np.asarray(found[""].dataobj)[clear])
    assert clear.mean() > 0.99


ORIENTATIONS = [("R", "A", "S"), ("L", "P", "S"), ("A", "S", "R"), ("P", "R", "I"), ("I", "L", "A")]


@pytest.mark.parametrize("kind", ["native", "binary"])
@pytest.mark.parametrize("axes", ORIENTATIONS)
def test_a_turned_volume_gets_the_same_answer(runs, volumes, tmp_path, axes, kind):
    """The same scan stored along other axes: the very same voxels are labelled, and so in each file's own order."""
    scan = nib.load(volumes / "imagesTs/phantom_007_0000.nii.gz")
    tilt = nib.affines.from_matvec(nib.eulerangles.euler2mat(0.2, -0.15, 0.1))  # an oblique scan
    scan = nib.Nifti1Image(np.asarray(scan.dataobj), tilt @ scan.affine)
    turn = nib.orientations.ornt_transform(
        nib.orientations.io_orientation(scan.affine), nib.orientations.axcodes2ornt(axes)
    )
    nib.save(scan, tmp_path / "straight.nii.gz")
    turned = scan.as_reoriented(turn)
    nib.save(turned, tmp_path / "turned.nii.gz")
    trained = coranet.load(runs[kind], "cpu")
    trained.predict_files(tmp_path, tmp_path / "out", masks=True)
    for name in ("", "_uncertain", "_conservative", "_radical"):
        straight = nib.load(tmp_path / f"out/straight{name}.nii.gz")
        other = nib.load(tmp_path / f"out/turned{name}.nii.gz")
        np.testing.assert_allclose(other.affine, turned.affine, atol=1e-5)
        np.testing.assert_array_equal(np.asarray(straight.as_reoriented(turn).dataobj), np.asarray(other.dataobj))
        assert name == "_conservative" or np.asarray(straight.dataobj).any()


def test_volumes_larger_than_memory_are_predicted_in_parts_with_the_same_result(runs, volumes, monkeypatch):
    trained = coranet.load(runs["native"], "cpu")
    file = volumes / "imagesTs/phantom_007_0000.nii.gz"
    whole = trained.predict(file)
    seen = []
    parts = type(trained.predictor).parts

    def watched(self, *arguments):
        for place, prediction in parts(self, *arguments):
            seen.append(place)
            yield place, prediction

    monkeypatch.setattr("coranet.engine.prediction.predictor.PART_BYTES", 16 * 28 * 24 * 16)
    monkeypatch.setattr(type(trained.predictor), "parts", watched)
    again = trained.predict(file)
    assert len(seen) > 1
    np.testing.assert_array_equal(again.label, whole.label)
    np.testing.assert_array_equal(again.uncertain, whole.uncertain)
    np.testing.assert_array_equal(again.probabilities, whole.probabilities)


def test_the_stride_of_a_prediction(runs, volumes, monkeypatch):
    file = volumes / "imagesTs/phantom_007_0000.nii.gz"
    half, dense = Trained.load(runs["native"], CPU), Trained.load(runs["native"], CPU, stride=(4, 4, 4))
    assert half.predictor.stride is None
    assert not np.array_equal(half.predict(file).probabilities, dense.predict(file).probabilities)
    same = Trained.load(runs["native"], CPU, stride=(8, 10, 6))
    np.testing.assert_array_equal(half.predict(file).probabilities, same.predict(file).probabilities)


# Odd input


@pytest.mark.parametrize(
    ("stride", "said"),
    [
        ((16, 16), r"--stride 16 16: the run was trained in 3D, on volumes, and takes 3 numbers"),
        ((16, 16, 16), "voxels between windows would be left out"),
        ((0, 4, 4), "at least 1"),
    ],
)
def test_strides_that_do_not_fit_are_refused(runs, stride, said):
    with pytest.raises(InputError, match=said):
        Trained.load(runs["native"], CPU, stride=stride)


def test_a_run_on_slices_refuses_a_stride_for_volumes(finished):
    with pytest.raises(InputError, match=r"the run was trained in 2D, on slices, and takes 2 numbers.*--dims 3"):
        Trained.load(finished, CPU, stride=(16, 16, 4))


def test_a_run_on_volumes_refuses_a_flat_image(runs, tmp_path):
    nib.save(
        nib.Nifti1Image(np.random.default_rng(0).normal(size=(32, 28)).astype(np.float32), np.eye(4)),
        tmp_path / "flat.nii.gz",
    )
    with pytest.raises(InputError, match=r"flat\.nii\.gz: is one voxel thin.*--dims 2"):
        coranet.load(runs["native"], "cpu").predict_files(tmp_path / "flat.nii.gz", tmp_path / "out")


def test_a_scan_smaller_than_the_window_is_predicted(runs):
    image = np.random.default_rng(0).normal(size=(30, 7, 5)).astype(np.float32)
    answer = coranet.load(runs["native"], "cpu").predict(image, spacing=(1, 3, 0.5), axes="RAS")
    assert answer.label.shape == answer.uncertain.shape == (30, 7, 5)


def test_scans_with_fewer_slices_than_the_window_are_trained_on(tmp_path, options):
    phantom = Phantom(shape=(24, 24, 5))
    root = write_folder(tmp_path / "few", phantom, seed=5, labelled=2, unlabelled=2, test=0)
    train(root, tmp_path / "run", options(dims=3, patch=(16, 16, 12), steps=3))
    assert (tmp_path / "run/last.pt").exists()


def test_volumes_of_one_slice_are_refused(tmp_path, options):
    root = write_folder(tmp_path / "thin", Phantom(shape=(24, 24, 1)), seed=5, labelled=2, unlabelled=2, test=0)
    with pytest.raises(InputError, match=r"phantom_000 .and 3 more.: is one voxel thin.*--dims 2"):
        make_run(root, options(dims=3), CPU)


def test_a_class_that_no_labelled_case_shows_is_named(tmp_path, volumes, options):
    root = shutil.copytree(volumes, tmp_path / "absent")
    for file in sorted((root / "labelsTr").iterdir())[:2]:
        volume = nifti.read(file)
        nifti.write(file, np.where(volume.array == 2, 0, volume.array), volume.geometry)
    with pytest.raises(InputError, match=r"None of the 2 labelled cases shows Myo \(2\).*--labelled"):
        make_run(root, options(labelled=2), CPU)
    run, _ = make_run(root, options(labelled=3), CPU)  # one case shows it
    assert len(run.split.labelled) == 3


def test_windows_that_do_not_fit_the_network_are_refused(volumes, options):
    with pytest.raises(InputError, match=r"multiples of 4, not 16 x 18 x 12.*--patch.*--set net\.levels"):
        make_run(volumes, options(patch=(16, 18, 12)), CPU)
    with pytest.raises(InputError, match=r"Windows of 4 x 4 x 4 shrink to one voxel.*--patch.*--set net\.levels=\d"):
        make_run(volumes, options(patch=(4, 4, 4)), CPU)
    with pytest.raises(InputError, match="voxels between windows would be left out"):
        make_run(volumes, options(overrides=(*SMALL, ("data.window.stride", "[64, 64, 64]"))), CPU)
    with pytest.raises(InputError, match="--patch 16 16: has 2 numbers, and --dims 3 needs as many"):
        make_run(volumes, options(dims=3, patch=(16, 16)), CPU)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_too_little_memory_says_what_to_lower(volumes, options, tmp_path, monkeypatch, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr("coranet.engine.step.backward", fail)
    with pytest.raises(
        InputError, match=r"Not enough memory for steps of 4 windows of 16 x 20 x 12.*--patch, train\.batch"
    ):
        train(volumes, tmp_path / "run", options())
    assert checkpoint.load(tmp_path / "run/last.pt", CPU)["step"] == 0


def test_scans_that_do_not_fit_on_the_device_say_so(volumes, options, tmp_path, monkeypatch):
    def fail(*arguments, **named):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("coranet.feed.pools.Pool.load", fail)
    with pytest.raises(InputError, match=r"Not enough memory for the scans on cpu.*host_bytes"):
        train(volumes, tmp_path / "run", options())
    assert not (tmp_path / "run").exists()


def test_too_little_memory_for_a_scan_says_so(runs, monkeypatch):
    trained = coranet.load(runs["native"], "cpu")
    monkeypatch.setattr(
        trained.predictor.segmenter.net, "forward", lambda *a, **k: (_ for _ in ()).throw(MemoryError())
    )
    with pytest.raises(InputError, match="Not enough memory for this scan"):
        trained.predict(np.random.default_rng(0).normal(size=(20, 20, 20)), affine=np.eye(4))
