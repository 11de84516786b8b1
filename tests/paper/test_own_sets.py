"""Pancreas-CT and York, in the layouts they are downloaded in, are read, split and trained on as the paper's text has it."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from scipy.io import savemat

from coranet.data.datasets.folder import read_folder
from coranet.data.readers import nifti
from coranet.data.splits.by_patient import Split
from coranet.errors import InputError
from coranet.paper import organ_box
from coranet.paper.laid_scans import lay_out
from coranet.paper.organ_box import keep_about_organ
from coranet.paper.reproduction import Reproduction, prepare
from coranet.paper.sets import COARSE, SETS, split_of
from coranet.paper.settings import Setting
from coranet.runs.options import Options
from coranet.runs.run_plan import make_run
from tests.data.datasets.test_datasets import ARCHIVE, organ, pancreas
from tests.data.readers.test_contours import both, circle, york

PATIENTS = [number for number in range(1, 83) if number not in (25, 70)]
"""Of Pancreas-CT as the archive has it today."""
SLICES = slice(7, 13)
"""Those with the organ in them: 80 scans are read, and few slices will do."""


@pytest.fixture(scope="module")
def pancreas_ct(tmp_path_factory):
    """The archive's tree with its 80 patients: DICOM series and, in a folder of their own, mirrored labels as NIfTI."""
    root = tmp_path_factory.mktemp("sets") / "Pancreas-CT"
    pancreas(root, (1, 2), slices=SLICES)
    for number in PATIENTS[2:]:
        name, like = f"PANCREAS_{number:04d}", 1 + (number + 1) % 2
        place, source = root / ARCHIVE.format(name), root / ARCHIVE.format(f"PANCREAS_{like:04d}")
        shutil.copytree(source, place, copy_function=os.link)
        labels = root / "TCIA_pancreas_labels-02-05-2017"
        (labels / f"label{number:04d}.nii.gz").hardlink_to(labels / f"label{like:04d}.nii.gz")
    return root


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


def run_of(made):
    """What the first row would train, and on which store."""
    return make_run(made.data, made.options_of(made.jobs[0]), torch.device("cpu"))


def reproduction(home, **changes):
    return Reproduction(out=home / "out", cache=home / "cache", seeds=1, device="cpu", **changes)


def test_the_pancreas_in_2d_has_the_text_s_window_crop_shares_and_length(pancreas_ct, home):
    request = reproduction(home, data=pancreas_ct.parent)
    assert {"pancreas", "pancreas-3d", "pancreas-3d-organ"} <= set(request.sets())
    source = request.sets()["pancreas"]
    made = prepare(Setting(scans="pancreas", share="1:4"), ("coranet",), source, request)
    for share, sizes in {"1:1": (32, 32, 16), "1:2": (21, 43, 16), "1:4": (13, 51, 16)}.items():
        split, _ = split_of(SETS["pancreas"], read_folder(made.data).cases, share)
        assert (len(split.labelled), len(split.unlabelled), len(split.test)) == sizes  # 80 : 20, then by the ratio
    assert Split.read(made.out / "split.json") == split
    assert made.exam.cases == split.test
    run, store = run_of(made)
    assert store.preparation["window"] == [-100.0, 240.0]
    assert {store.cases[name].shape for name in store.cases} == {(1, 240, 192, 6)}
    image, label = (array[..., SLICES] for array in organ(1))
    kept = store.image("PANCREAS_0001")[0]
    assert (float(kept.min()), float(kept[kept > -1].max())) == (
        pytest.approx(-1),
        pytest.approx(2 * (image.max() + 100) / 340 - 1, abs=0.01),
    )
    assert store.label("PANCREAS_0001").sum() == label.sum()
    assert (run.net.body, run.net.width, run.net.levels, run.train.batch) == ("unet", 64, 4, (4, 4))
    assert run.data.window.size == (240, 192)
    assert run.train.steps == 130 * -(-51 * 6 // 4)  # epochs of the larger set
    assert (run.data.augment.rotate, run.data.augment.scale, run.data.augment.flip) == (30, (0.5, 2), True)


@pytest.mark.parametrize("name", ["pancreas-3d", pytest.param("pancreas-3d-organ", marks=pytest.mark.slow)])
def test_the_pancreas_in_3d_is_read_whole_and_about_the_organ_a_coarse_network_finds(name, pancreas_ct, home):
    request = reproduction(home, data=pancreas_ct.parent, steps=1)
    made = prepare(Setting(scans=name, share="12"), ("coranet",), request.sets()[name], request)
    run, store = run_of(made)
    split = Split.read(made.out / "split.json")
    assert (len(split.labelled), len(split.unlabelled), len(split.test)) == (12, 50, 18)
    assert store.preparation["window"] == [-100.0, 240.0]
    assert store.preparation["spacing"] == [1.0, 1.0, 1.0]
    assert store.preparation["crop"] == "foreground"  # the body, or what was left bright of it
    assert (run.net.body, run.data.window.size, run.data.window.stride) == ("vnet", (96, 96, 96), (16, 16, 4))
    if name == "pancreas-3d":
        assert made.data.name == "pancreas"  # the files of the slices
        return
    assert made.data.name == "pancreas-3d-organ-12"
    coarse = json.loads((made.data.with_name("pancreas-3d-organ-12-coarse") / "run.json").read_text())
    assert coarse["split"]["labelled"] == list(split.labelled)
    assert coarse["method"]["kind"] == "supervised"


def test_a_box_about_the_organ_is_found_without_its_truth(tmp_path, monkeypatch):
    """The network is in the place of one that finds a known corner: what is kept follows it, and labels stay whole."""
    pancreas(tmp_path / "raw", (1, 2))
    whole = lay_out(SETS["pancreas-3d"], tmp_path / "raw", tmp_path / "scans")

    class Finds:
        def predict_files(self, images, found, only, on_progress):
            found.mkdir(parents=True)
            for name in only:
                image = nifti.read(images / f"{name}_0000.nii.gz")
                label = np.zeros(image.array.shape, np.uint8)
                if name == "PANCREAS_0001":
                    label[30:33, 10:14, 2:5] = 1
                    label[5, 5, 5] = 1  # a speck, which is not the organ
                nifti.write(found / f"{name}.nii.gz", label, image.geometry)

    monkeypatch.setattr(organ_box, "train", lambda *_, **__: None)
    monkeypatch.setattr(organ_box.Trained, "load", lambda *_, **__: Finds())
    monkeypatch.setattr(organ_box, "MARGIN", 2.5)
    monkeypatch.setattr(organ_box, "LEAST", 5.0)
    said = []
    about = keep_about_organ(whole, tmp_path / "about", COARSE, said.append, lambda *_: None)
    before, after = read_folder(whole).cases, read_folder(about).cases
    image, kept = before[0].images[0].read().array, after[0].images[0].read().array
    box = (slice(26, 37), slice(6, 18), slice(1, 6))  # 2.5 mm at 0.7, 0.8 and 2.5 mm
    assert np.array_equal(kept[box], image[box])
    outside = np.ones(image.shape, bool)
    outside[box] = False
    assert set(np.unique(kept[outside])) == {image.min()}
    assert np.array_equal(after[1].images[0].read().array, before[1].images[0].read().array)
    assert "PANCREAS_0002: the coarse network finds nothing, so all of the scan is kept." in said
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one.label.read().array, other.label.read().array)
        assert one.images[0].read().geometry == other.images[0].read().geometry


def test_pictures_without_hounsfield_units_are_not_windowed(scans, tmp_path):
    with pytest.raises(InputError, match="--preset pancreas: is for scans of one channel CT"):
        make_run(scans, Options(preset="pancreas", cache=tmp_path), torch.device("cpu"))


def test_the_york_set_has_the_text_s_size_shares_and_length(tmp_path):
    """33 subjects of 256 x 256 pixels; two slices at two moments, one of them outlined."""
    place = tmp_path / "york"
    place.mkdir()
    random = np.random.default_rng(0)
    for number in range(1, 34):
        scan = random.integers(0, 900, (8, 8, 2, 2)).repeat(32, 0).repeat(32, 1).astype(np.int16)
        savemat(place / f"sol_yxzt_pat{number}.mat", {"sol_yxzt": scan})
        cells = {(0, moment): both(circle(120, 100, 20), circle(120, 100, 30)) for moment in (0, 1)}
        york(place / f"manual_seg_32points_pat{number}.mat", cells, slices=2, frames=2)
    request = reproduction(tmp_path, data=tmp_path)
    made = prepare(Setting(scans="endocardium", share="1:4"), ("coranet",), request.sets()["endocardium"], request)
    split = Split.read(made.out / "split.json")
    patients = [len({name[:5] for name in part}) for part in (split.labelled, split.unlabelled, split.test)]
    assert (patients[0], patients[2]) == (5, 7)  # 33 subjects 80 : 20, then 1 : 4
    run, store = run_of(made)
    assert {case.shape[1:3] for case in store.cases.values()} == {(256, 256)}
    assert (float(store.image("pat01_frame01").min()), float(store.image("pat01_frame01").max())) == (0, 1)
    assert (run.net.width, run.train.batch, run.data.window.size) == (64, (4, 4), (256, 256))
    slices = [sum(store.cases[name].shape[3] for name in part) for part in (split.labelled, split.unlabelled)]
    assert run.train.steps == 130 * -(-max(slices) // 4)
