"""Scans, splits, files and options that are not as one would wish, and what becomes of them."""

import json

import nibabel as nib
import numpy as np
import pytest
import torch

import coranet
from coranet.data.readers import nifti
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.geometry import Geometry
from coranet.methods import find_method
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.runs.catalogue import describe_method
from coranet.runs.launch import train
from coranet.runs.machine.device import find_device
from coranet.runs.run_plan import make_run

CPU = torch.device("cpu")


def write_scans(root, shape, spacing, extra=None):
    """Two scans, one labelled, and a test scan with its label, of any shape and spacing."""
    rng = np.random.default_rng(0)
    affine = tuple(tuple(float(spacing[row]) if row == column else 0.0 for column in range(4)) for row in range(3))
    geometry = Geometry(shape=shape, affine=(*affine, (0.0, 0.0, 0.0, 1.0)))
    for folder in ("imagesTr", "labelsTr", "imagesTs", "labelsTs"):
        (root / folder).mkdir(parents=True)
    for place, name in (("Tr", "c0"), ("Tr", "c1"), ("Ts", "t0")):
        nifti.write(root / f"images{place}/{name}_0000.nii.gz", rng.random(shape, np.float32), geometry)
    for place, name in (("Tr", "c0"), ("Ts", "t0")):
        nifti.write(root / f"labels{place}/{name}.nii.gz", rng.integers(0, 2, shape).astype(np.uint8), geometry)
    about = {"channel_names": {"0": "MRI"}, "labels": {"background": 0, "organ": 1}, "file_ending": ".nii.gz"}
    (root / "dataset.json").write_text(json.dumps({**about, **(extra or {})}))
    return root


def test_slices_are_those_of_the_scan_whatever_grid_it_is_brought_to(small, tmp_path):
    """Resizing thin CT slices to 256 x 256 widens their pixels; they stay slices all the same."""
    thin = write_scans(tmp_path / "thin", (80, 80, 6), (0.86, 0.86, 1.0))
    size = (("data.window.size", "[64, 64]"),)
    run, store = make_run(thin, small(preset="paper", steps=1, overrides=size), CPU)
    assert store.cases["c0"].shape == (1, 256, 256, 6)
    assert run.data.window.axis == 2
    flat = write_scans(tmp_path / "flat", (32, 32, 1), (1.4, 1.4, 1.0))
    run, _ = make_run(flat, small(steps=1), CPU)
    assert run.data.window.axis == 2


def test_patients_of_test_cases_are_those_of_dataset_json(small, tmp_path):
    scans = write_scans(tmp_path / "scans", (32, 32, 3), (1, 1, 2), {"patients": {"c0": "anna", "t0": "anna"}})
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"labelled": ["c0"], "unlabelled": ["c1"], "test": ["t0"]}))
    with pytest.raises(InputError, match="Patient 'anna' is in both training and test"):
        make_run(scans, small(split=split), CPU)
    split.write_text(json.dumps({"labelled": ["c0"], "test": ["ghost"]}))
    with pytest.raises(InputError, match="'ghost', which is not in the data"):
        make_run(scans, small(split=split), CPU)


def test_labels_of_test_cases_stay_out_of_the_store(small, tmp_path):
    scans = write_scans(tmp_path / "scans", (32, 32, 3), (1, 1, 2))
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"labelled": ["c0"], "unlabelled": ["c1", "t0"]}))
    _, store = make_run(scans, small(split=split), CPU)
    assert not store.cases["t0"].labelled
    run, _ = make_run(store.path, small(), CPU)
    assert run.split.labelled == ("c0",)
    assert run.split.unlabelled == ("c1",)
    with pytest.raises(InputError, match="--labelled 5"):
        make_run(scans, small(split=split, labelled=5), CPU)


def test_a_flat_scan_gets_a_flat_answer(tmp_path, finished):
    pixels = np.random.default_rng(0).random((32, 32), np.float32)
    nib.save(nib.Nifti1Image(pixels, np.eye(4)), tmp_path / "flat.nii.gz")
    trained = coranet.load(finished, "cpu")
    trained.predict_files(tmp_path / "flat.nii.gz", tmp_path / "out")
    assert nib.load(tmp_path / "out/flat.nii.gz").shape == (32, 32)
    assert nib.load(tmp_path / "out/flat_uncertain.nii.gz").shape == (32, 32)
    assert trained.predict(pixels, affine=np.eye(4)).label.shape == (32, 32, 1)
    with pytest.raises(InputError, match="this one has 1"):
        trained.predict(np.zeros(3))


def test_coranet_paper_is_the_text(scans, small, tmp_path):
    out = train(scans, tmp_path / "run", small(method="coranet:paper", steps=2))
    train(scans, out, small(method="coranet:paper", steps=2), resume=True)
    assert type(Run.read(out).method) is CoraNet


def test_a_method_of_one_s_own_in_the_house_s_style(scans, small, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from coranet.methods.supervised import Supervised\n\n\n"
        '@dataclass(frozen=True, kw_only=True)\nclass Mine(Supervised):\n    """Mine."""\n\n'
        '    extra: float = 2.0\n    """Of something."""\n'
    )
    out = train(scans, tmp_path / "run", small(method=f"{file}:Mine", steps=1, overrides=(("method.extra", "3"),)))
    assert Run.read(out, trust=True).method.extra == 3.0
    assert describe_method(f"{file}:Mine")["fields"][-1] == {"name": "extra", "default": "2.0", "help": "Of something."}
    file.write_text("import nothing_like_this\n")
    with pytest.raises(InputError, match=r"mine.py: cannot be imported \(ModuleNotFoundError"):
        find_method(f"{file}:Mine")


def test_a_full_disk_under_the_log_is_said_in_one_message(scans, small, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "log.jsonl").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"log.jsonl: cannot be written \(No space left on device\)"):
        train(scans, out, small())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "Run needs data, split, train"),
        (b'{"method_source": "a.py:B"}', "a.py: the run's own method is not in its folder"),
        (b"\xff\xfe", "run.json: is not text"),
    ],
)
def test_broken_runs_are_refused_in_words(tmp_path, content, message):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        Run.read(tmp_path)


def test_phases_of_no_length_are_refused():
    with pytest.raises(InputError, match="not both 0"):
        CoraNet(pretrain_epochs=0, selftrain_epochs=0)
    with pytest.raises(InputError, match="not negative"):
        ReleasedCoraNet(pretrain_epochs=-1)


def test_a_gpu_of_apple_s_is_taken_where_there_is_one(monkeypatch):
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    assert find_device("mps").type == "mps"


@pytest.mark.parametrize("device", ["mps", "meta", "cuda:99"])
def test_devices_we_do_not_know(device, monkeypatch):
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(InputError, match="--device"):
        find_device(device)


def test_several_channels_from_scans_to_answers(small, tmp_path):
    scans = write_scans(tmp_path / "scans", (32, 32, 3), (1, 1, 2), {"channel_names": {"0": "T1", "1": "T2"}})
    for image in [*scans.glob("images*/*_0000.nii.gz")]:
        volume = nifti.read(image)
        nifti.write(image.with_name(image.name.replace("_0000", "_0001")), volume.array[::-1] * 3, volume.geometry)
    run = train(scans, tmp_path / "run", small(steps=2))
    trained = coranet.load(run, "cpu")
    assert list(trained.predict_files(scans / "imagesTs", tmp_path / "out")) == ["t0"]
    together = nifti.read(tmp_path / "out/t0.nii.gz").array
    np.testing.assert_array_equal(together, trained.predict(scans / "imagesTs/t0_0001.nii.gz").label)
    channels = np.stack([nifti.read(scans / f"imagesTs/t0_000{n}.nii.gz").array for n in (0, 1)])
    np.testing.assert_array_equal(together, trained.predict(channels, spacing=(1, 1, 2), axes="RAS").label)
    images = [nib.load(scans / f"imagesTs/t0_000{n}.nii.gz") for n in (0, 1)]
    both = nib.Nifti1Image(np.stack([image.get_fdata(dtype=np.float32) for image in images], axis=-1), images[0].affine)
    for image in (images, both):
        np.testing.assert_array_equal(together, trained.predict(image).label)
    for image, count in ((images[0], 1), (nib.Nifti1Image(np.zeros((8, 8, 3, 5)), np.eye(4)), 5)):
        with pytest.raises(InputError, match=f"trained on 2 channels; the scan has {count}"):
            trained.predict(image)
    (scans / "imagesTs/t0_0001.nii.gz").unlink()
    with pytest.raises(InputError, match="t0"):
        trained.predict_files(scans / "imagesTs", tmp_path / "more")
