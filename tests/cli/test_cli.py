"""The command as a person types it: exit codes, messages, and what is where."""

import csv
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import torch

import coranet
from coranet.cli import OPEN, VERBS, main
from coranet.cli.terminal.parsing import option_fields
from coranet.cli.terminal.preparation_options import settings_fields
from coranet.data.readers import nifti, nrrd
from coranet.engine.run import Run
from coranet.evaluation.quality import read_qualities
from coranet.runs.options import Options
from tests import dicoms


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


def test_help_names_every_verb_and_imports_nothing_heavy():
    code = (
        "import sys\nfrom coranet.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "heavy = {'torch', 'numpy', 'scipy', 'nibabel', 'matplotlib'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(verb in done.stdout for verb in VERBS)


ORDER = (
    *("demo", "doctor", "prepare", "split", "train", "calibrate", "predict", "next", "review", "evaluate", "report"),
    *("export", "compare", "status", "methods", "reproduce"),
)
"""The order in which one needs verbs: those there are, and where others are to go."""


def test_verbs_are_shown_in_the_order_in_which_one_needs_them(capsys):
    assert list(VERBS) == [verb for verb in ORDER if verb in VERBS]
    _, out, _ = run(capsys, "--help")
    shown = re.findall(r"^    coranet (\w+)", out, re.MULTILINE)
    assert shown == list(VERBS)
    assert len(out.splitlines()) < 24  # one screen


def test_predict_computes_in_as_many_threads_as_asked(capsys, finished, scans, tmp_path):
    before = torch.get_num_threads()
    try:
        asked = ("predict", finished, scans / "imagesTs", "--out", tmp_path / "p", "--threads")
        code, _, said = run(capsys, *asked, 0)
        assert code == 1
        assert "--threads 0: at least one." in said
        run(capsys, *asked, before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_an_exported_network_predicts_as_its_run(capsys, finished, scans, tmp_path):
    pytest.importorskip("onnxruntime")
    code, out, err = run(capsys, "export", finished, "--onnx", tmp_path / "there/net.onnx")
    assert (code, out) == (0, "")
    assert re.search(r"Exported 0\.\d MB: .*net.onnx, and .*recipe.json", err)
    assert "differ by" in err
    for network, folder in ((finished, "run"), (tmp_path / "there/net.onnx", "file")):
        words = ("predict", network, scans / "imagesTs", "--out", tmp_path / folder, "--device", "cpu", "--masks")
        assert run(capsys, *words)[0] == 0
    files = sorted(file.name for file in (tmp_path / "run").glob("*.nii.gz"))
    assert sorted(file.name for file in (tmp_path / "file").glob("*.nii.gz")) == files
    for name in files:
        ours, theirs = (nifti.read(tmp_path / folder / name) for folder in ("run", "file"))
        near = 0.01 if name.endswith("_score.nii.gz") else 0
        np.testing.assert_allclose(theirs.array, ours.array, rtol=0, atol=near)
    words = ("predict", tmp_path / "there/net.onnx", scans, "--out", tmp_path / "x", "--only", "val")
    code, _, err = run(capsys, *words)
    assert code == 1
    assert "an exported network knows no split" in err


def test_a_fit_travels_with_the_weights_that_it_was_made_of(capsys, finished, tmp_path):
    pytest.importorskip("onnxruntime")
    for folder, options in (("last", ()), ("best", ("--best",))):
        assert run(capsys, "export", finished, "--onnx", tmp_path / folder / "net.onnx", *options)[0] == 0
    last, best = (json.loads((tmp_path / folder / "recipe.json").read_text()) for folder in ("last", "best"))
    assert last["fit"] is not None
    assert best["fit"] is None


def test_label_maps_in_formats_of_other_programs(capsys, finished, scans, tmp_path):
    pytest.importorskip("highdicom")
    volume = nifti.read(scans / "imagesTs/phantom_007_0000.nii.gz")
    grey = (1000 * volume.array / volume.array.max()).astype("int16")
    dicoms.write_series(tmp_path / "scan", grey, StudyInstanceUID="1.2.8", FrameOfReferenceUID="1.2.9")
    words = [
        "predict",
        finished,
        tmp_path / "scan",
        "--out",
        tmp_path / "p",
        "--nrrd",
        "--dicom-seg",
        "--device",
        "cpu",
    ]
    code, _, err = run(capsys, *words)
    assert code == 0, err
    label = nifti.read(tmp_path / "p/scan.nii.gz")
    assert (nrrd.read(tmp_path / "p/scan.seg.nrrd", {}).array == label.array).all()
    assert (tmp_path / "p/scan.seg.dcm").exists()
    shutil.copytree(tmp_path / "p", tmp_path / "labels")
    assert run(capsys, "evaluate", tmp_path / "p", tmp_path / "labels")[0] == 0
    words[2] = scans / "imagesTs"
    code, _, err = run(capsys, *words)
    assert code == 1
    assert "is no DICOM series" in err
    code, _, err = run(capsys, *words[:6], "--codes", tmp_path / "codes.json")
    assert code == 1
    assert "--codes" in err


def test_a_folder_is_watched_until_someone_stops_it(capsys, finished, scans, tmp_path, monkeypatch):
    looks = []

    def stop_at_the_third(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("coranet.cli.predict.sleep", stop_at_the_third)
    words = ["predict", finished, scans / "imagesTs", "--out", tmp_path / "p", "--device", "cpu", "--watch"]
    code, _, err = run(capsys, *words, "--settle", 2, "--page")
    assert code == 130, err
    assert "Predicted phantom_007" in err
    assert "Stopped by SIGINT. What is predicted is kept: the same command goes on from there." in err
    assert looks == [2.0, 2.0, 2.0]
    assert {"phantom_007.nii.gz", "phantom_008.nii.gz"} <= {file.name for file in (tmp_path / "p").iterdir()}
    assert not (tmp_path / "p/.lock").exists()
    with (tmp_path / "p/cases.csv").open() as file:
        assert {line["case"] for line in csv.DictReader(file)} == {"phantom_007", "phantom_008"}
    assert "<h3>phantom_008</h3>" in (tmp_path / "p/cases.html").read_text()
    # One that was predicted before is listed beside the next to come, also when its scan has been taken away since.
    (tmp_path / "p/cases.csv").unlink()
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    shutil.copy(scans / "imagesTr/phantom_003_0000.nii.gz", inbox)
    (inbox / "torn_0000.nii.gz").write_bytes(b"no scan")
    looks.clear()
    code, _, err = run(capsys, "predict", finished, inbox, *words[3:], "--settle", 2, "--page")
    with (tmp_path / "p/cases.csv").open() as file:
        lines = {line["case"]: line["flags"] for line in csv.DictReader(file)}
    assert set(lines) == {"phantom_003", "phantom_007", "phantom_008", "torn"}
    assert "not predicted" in lines["torn"]
    code, _, err = run(capsys, *words, "--only", "val")
    assert code == 1
    assert "is for a folder of scans. Leave out --dataset" in err


def test_the_training_path_needs_torch_and_numpy_alone():
    code = (
        "import sys\nimport coranet.engine.trainer\n"
        "heavy = {'scipy', 'nibabel', 'matplotlib', 'rich', 'tyro'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(capsys, verb):
    code, out, _ = run(capsys, verb, "--help")
    assert code == 0
    assert "usage: coranet" in out


@pytest.mark.parametrize(
    "arguments", [[], ["cook"], ["train"], ["train", "x"], ["train", "x", "--out", "y", "--steps", "many"], ["doctor"]]
)
def test_wrong_usage_is_2(capsys, arguments):
    assert run(capsys, *arguments)[0] == 2


def test_version(capsys):
    assert run(capsys, "--version")[:2] == (0, f"coranet {coranet.__version__}\n")


def test_from_scans_to_scores(capsys, scans, cache, tmp_path):
    small = ["--set", "net.width=4", "--set", "net.levels=2", "--cache", cache, "--device", "cpu"]
    code, out, err = run(capsys, "train", scans, "--out", tmp_path / "run", "--steps", 8, *small)
    assert (code, out) == (0, "")
    assert "8 steps (labels 1, joint 7)" in err
    assert "about" in err
    code, _, err = run(
        capsys, "predict", tmp_path / "run", scans / "imagesTs", "--out", tmp_path / "p", "--device", "cpu"
    )
    assert code == 0
    assert "Predicted 2 scans" in err
    code, out, _ = run(
        capsys, "evaluate", tmp_path / "p", scans / "labelsTs", "--out", tmp_path / "new/scores.csv", "--json"
    )
    assert code == 0
    scores = json.loads(out)
    assert {"mean", "per_class", "per_case"} <= set(scores)
    assert set(scores["per_case"]) == {"phantom_007", "phantom_008"}
    assert set(scores["per_class"]) == {"RV", "Myo", "LV"}
    assert len((tmp_path / "new/scores.csv").read_text().splitlines()) == 1 + 2 * 3
    code, out, _ = run(capsys, "evaluate", tmp_path / "p", scans / "labelsTs")
    assert code == 0
    assert "Dice %" in out
    code, _, err = run(
        capsys,
        "predict",
        tmp_path / "run",
        scans / "imagesTs",
        "--out",
        tmp_path / "q",
        "--no-uncertainty",
        "--device",
        "cpu",
    )
    assert code == 0
    assert "encoder and main head alone" in err
    assert sorted(path.name for path in (tmp_path / "q").glob("[!.]*")) == [
        "cases.csv",
        "dataset.json",
        "phantom_007.nii.gz",
        "phantom_008.nii.gz",
    ]


def test_labelled_and_split_decide_who_trains(capsys, scans, cache, tmp_path):
    small = ["--set", "net.width=4", "--set", "net.levels=2", "--cache", cache, "--steps", 1, "--device", "cpu"]
    assert run(capsys, "train", scans, "--out", tmp_path / "a", "--labelled", 1, *small)[0] == 0
    split = json.loads((tmp_path / "a/split.json").read_text())
    assert split["labelled"] == ["phantom_000"]
    assert split["unlabelled"] == [f"phantom_{n:03d}" for n in range(1, 7)]
    lists = {
        "labelled": ["phantom_001"],
        "unlabelled": ["phantom_007"],
        "val": ["phantom_008"],
        "test": ["phantom_000"],
    }
    (tmp_path / "split.json").write_text(json.dumps(lists))
    assert run(capsys, "train", scans, "--out", tmp_path / "b", "--split", tmp_path / "split.json", *small)[0] == 0
    assert json.loads((tmp_path / "b/split.json").read_text()) == lists
    lists["val"] = ["phantom_001"]
    (tmp_path / "split.json").write_text(json.dumps(lists))
    code, _, err = run(capsys, "train", scans, "--out", tmp_path / "c", "--split", tmp_path / "split.json", *small)
    assert code == 1
    assert "twice" in err
    assert not (tmp_path / "c").exists()


def test_methods(capsys):
    code, out, _ = run(capsys, "methods", "--json")
    names = [method["name"] for method in json.loads(out)]
    assert code == 0
    assert {"coranet", "coranet:released", "coranet:repaired", "mean_teacher", "supervised"} <= set(names)
    code, out, _ = run(capsys, "methods", "coranet")
    assert code == 0
    assert "L_crm" in out
    assert "method.beta = 0.99" in out
    assert "How slowly the teacher follows." in out
    assert run(capsys, "methods", "cora")[0] == 1
    assert len(run(capsys, "methods")[1].splitlines()) == len(names)


def break_scan(path):
    path.write_bytes(path.read_bytes()[:200])


def empty(path):
    path.write_bytes(b"")


def no_gzip(path):
    path.write_bytes(b"hello, I am no gzip file")


def other_shape(path):
    volume = nifti.read(path)
    smaller = replace(volume.geometry, shape=volume.array[:-1].shape)
    nifti.write(path, volume.array[:-1], smaller)


def strange_value(path):
    volume = nifti.read(path)
    nifti.write(path, volume.array + 7, volume.geometry)


def half_values(path):
    volume = nifti.read(path)
    nifti.write(path, volume.array * 0.5, volume.geometry)


def not_a_number(path):
    volume = nifti.read(path)
    array = volume.array.copy()
    array[0, 0, 0] = float("nan")
    nifti.write(path, array, volume.geometry)


@pytest.mark.parametrize(
    ("file", "harm", "message"),
    [
        ("imagesTr/phantom_001_0000.nii.gz", break_scan, "phantom_001_0000.nii.gz"),
        ("imagesTr/phantom_001_0000.nii.gz", empty, "is empty"),
        ("imagesTr/phantom_001_0000.nii.gz", no_gzip, "gzip"),
        ("imagesTr/phantom_001_0000.nii.gz", not_a_number, "not finite"),
        ("labelsTr/phantom_001.nii.gz", other_shape, "sizes differ"),
        ("labelsTr/phantom_001.nii.gz", strange_value, "has label values"),
        ("labelsTr/phantom_001.nii.gz", half_values, "not whole numbers"),
        ("imagesTr/phantom_001_0000.nii.gz", Path.unlink, "without an image"),
        ("dataset.json", empty, "not valid JSON"),
        ("dataset.json", Path.unlink, "does not exist"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_doctor_and_train_refuse_alike(capsys, scans, cache, tmp_path, file, harm, message):
    broken = tmp_path / "scans"
    shutil.copytree(scans, broken)
    harm(broken / file)
    before = sorted(broken.rglob("*"))
    code, out, _ = run(capsys, "doctor", broken)
    assert code == 1
    assert "FATAL" in out
    assert message in out
    code, _, err = run(capsys, "train", broken, "--out", tmp_path / "run", "--cache", cache, "--steps", 1)
    assert code == 1
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()
    assert sorted(broken.rglob("*")) == before


def test_doctor_of_a_good_folder(capsys, scans, cache, finished):
    code, out, _ = run(capsys, "doctor", scans)
    assert code == 0
    assert "3 labelled, 4 unlabelled, 2 for test" in out
    assert "Ready to train" in out
    store = next(path for path in cache.iterdir() if path.is_dir())
    code, out, _ = run(capsys, "doctor", store)
    assert code == 0
    assert "prepared store" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "nowhere", "--out", "{tmp}/run"], "nowhere: does not exist"),
        (["train", "--patch", "96", "96", "nowhere", "--out", "{tmp}/run"], "nowhere: does not exist"),
        (["train", "--patch=96", "96", "nowhere", "--out", "{tmp}/run"], "nowhere: does not exist"),
        (["predict", "--stride", "8", "8", "4", "nowhere", "{scans}/imagesTs", "--out", "{tmp}/p"], "nowhere: no such"),
        (["prepare", "--intensity", "minmax", "none", "nowhere", "--out", "{tmp}/run"], "nowhere: does not exist"),
        (["train", "{scans}", "--out", "{tmp}/run", "--patch", "96", "--steps", "3"], "--patch 96: give two or three"),
        (["predict", "nowhere", "--stride", "8", "8", "{scans}/imagesTs", "--out", "{tmp}/p"], "nowhere: no such"),
        (
            ["compare", "--patch", "8", "8", "nowhere", "--methods", "dtc", "--out", "{tmp}/c"],
            "nowhere: does not exist",
        ),
        (["evaluate", "{scans}/labelsTs", "{scans}/labelsTs", "--out", "{scans}/dataset.json/s.csv"], "cannot be made"),
        (["doctor", "nowhere"], "nowhere: does not exist"),
        (["predict", "nowhere", "{scans}/imagesTs", "--out", "{tmp}/p"], "nowhere: no such folder"),
        (["predict", "{scans}", "{scans}/imagesTs", "--out", "{tmp}/p"], "holds no run"),
        (["evaluate", "nowhere", "{scans}/labelsTs"], "nowhere: does not exist"),
        (["train", "{scans}", "--out", "{tmp}/run", "--method", "cora"], "No method is called 'cora'"),
        (["train", "{scans}", "--out", "{tmp}/run", "--labelled", "9", "--cache", "{tmp}/c"], "between 1 and 3"),
        (["train", "{scans}", "--out", "{tmp}/run", "--set", "steps"], "write it as KEY=VALUE"),
        (["train", "{scans}", "--out", "{tmp}/run", "--device", "toaster"], "not a device"),
        (["demo", "--seeds", "0", "--out", "{tmp}/demo"], "at least one"),
        (["train", "{scans}", "--out", "{tmp}/run", "--split", "nowhere.json"], "nowhere.json: does not exist"),
        (["train", "{scans}", "--out", "{tmp}/run", "--cache", "/proc/cache"], "choose another folder with --cache"),
    ],
)
def test_a_problem_with_the_input_is_1_and_one_message(capsys, scans, tmp_path, arguments, message):
    filled = [argument.format(scans=scans, tmp=tmp_path) for argument in arguments]
    code, out, err = run(capsys, *filled)
    assert code == 1
    assert message in out + err
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--patch", "96", "96", "128", "--out", "r"],
        ["train", "--out", "r", "--patch", "96", "96"],
        ["prepare", "--intensity", "zscore", "minmax", "--out", "r"],
    ],
)
def test_a_value_is_not_taken_for_a_folder_that_was_forgotten(capsys, arguments):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "Missing from coranet" in err


def test_every_option_that_takes_as_many_values_as_there_are_lets_a_folder_follow():
    hints = [item for verb in VERBS.values() for item in get_type_hints(verb, include_extras=True).items()]
    hints += [(option.name, option.type) for option in (*option_fields(Options), *settings_fields())]
    many = {
        f"--{name}"
        for name, hint in hints
        if "..." in str(hint) and not re.search("UseAppendAction|Positional", str(hint))
    }
    assert many == set(OPEN)


def test_a_prepared_store_is_data_too(capsys, scans, cache, finished, tmp_path):
    store = next(
        path
        for path in cache.iterdir()
        if path.is_dir() and len(json.loads((path / "index.json").read_text())["cases"]) == 7
    )
    small = ["--set", "net.width=4", "--set", "net.levels=2", "--steps", 1, "--device", "cpu"]
    assert run(capsys, "train", store, "--out", tmp_path / "run", *small)[0] == 0


def test_the_library_offers_the_same(scans, cache, tmp_path):
    overrides = (("net.width", "4"), ("net.levels", "2"))
    out = coranet.train(scans, tmp_path / "run", steps=2, cache=cache, device="cpu", overrides=overrides)
    coranet.load(out, "cpu").predict_files(scans / "imagesTs", tmp_path / "p")
    assert set(coranet.evaluate(tmp_path / "p", scans / "labelsTs").to_json()["per_class"]) == {"RV", "Myo", "LV"}


def test_scans_in_which_an_object_is_missing_are_named(capsys, finished, scans, monkeypatch, tmp_path):
    from coranet.engine.prediction import trained
    from coranet.metrics.case_facts import ClassFacts

    def measured(facts, label, geometry):
        usual = {name: statistics.median(sizes) for name, sizes in Run.read(finished).data.volumes.items()}
        sizes = usual | {"RV": next(found)}
        return replace(facts, classes={name: ClassFacts(millilitres=size) for name, size in sizes.items()})

    monkeypatch.setattr(trained, "measured", measured)
    found = iter([statistics.median(Run.read(finished).data.volumes["RV"]), 0.0])
    for name in ("a", "b"):
        shutil.copy(scans / "imagesTs/phantom_007_0000.nii.gz", tmp_path / f"{name}_0000.nii.gz")
    code, _, err = run(capsys, "predict", finished, tmp_path, "--out", tmp_path / "p", "--device", "cpu")
    assert code == 0
    assert "Look at these first (all of them, worst first: cases.csv):" in err
    assert "  b: missing: RV" in err
    assert (tmp_path / "p/cases.csv").read_text().splitlines()[1].startswith("b,all,")


def test_label_maps_from_before_are_named(capsys, finished, scans, tmp_path):
    words = ("predict", finished, "--out", tmp_path / "p", "--device", "cpu")
    code, _, err = run(capsys, *words[:2], scans / "imagesTs/phantom_007_0000.nii.gz", *words[2:])
    assert (code, "from before" in err) == (0, False)
    code, _, err = run(capsys, *words[:2], scans / "imagesTs/phantom_008_0000.nii.gz", *words[2:])
    assert code == 0
    assert "holds label maps from before, which are not in cases.csv: phantom_007. " in err


def test_demo(capsys, monkeypatch, tmp_path, coarse_pictures):
    from coranet.data.datasets.phantom import Phantom
    from coranet.runs import demonstration

    monkeypatch.setattr(demonstration, "PHANTOM", Phantom(shape=(32, 32, 3)))
    monkeypatch.setattr(demonstration, "PATIENTS", {"labelled": 2, "unlabelled": 2, "test": 2})
    arguments = ["demo", "--out", tmp_path / "demo", "--steps", 6, "--device", "cpu"]
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    assert all(name in out for name in ("supervised", "coranet", "coranet:plus"))
    made = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"report.html", "comparison.png", "film.png", "curves.png"} <= made
    first = tmp_path / "demo/coranet-plus/predictions/cases.csv"
    assert f"Which cases of coranet:plus to look at first: {first}" in err
    assert len({row.case for row in read_qualities(first.parent)}) == 2
    code, again, err = run(capsys, *arguments)
    assert (code, again) == (0, out)
    assert "trained before" in err
