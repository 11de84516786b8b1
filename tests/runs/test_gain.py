"""Training on with corrected labels: `--labels`, what becomes of the split, and what was gained."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from coranet.data.datasets.corrections import read_corrections
from coranet.data.datasets.folder import read_folder
from coranet.data.readers import nifti
from coranet.data.splits.by_patient import Split
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.runs.corrected import trained_on
from coranet.runs.gain import GAIN
from coranet.runs.labelling import labelled_scans
from coranet.runs.launch import train
from coranet.runs.options import Options
from coranet.runs.run_plan import make_run

CPU = torch.device("cpu")


@pytest.fixture
def corrections(scans, tmp_path):
    """One unlabelled case with a label, one test case with another, and a stranger's scan."""
    folder = tmp_path / "corrections/labelsTr"
    folder.mkdir(parents=True)
    cases = {case.name: case for case in read_folder(scans).cases}
    free = next(name for name, case in cases.items() if case.label is None)
    tested = next(name for name, case in cases.items() if case.part == "Ts")
    scan = cases[free].images[0].read()
    image = tmp_path / "stranger.nii.gz"
    nifti.write(image, scan.array, scan.geometry)
    label = np.zeros(scan.array.shape, np.uint8)
    label[8:24, 8:24] = 1
    for name in (free, tested, "stranger"):
        place = scan.geometry if name == "stranger" else cases[name].images[0].read().geometry
        nifti.write(folder / f"{name}.nii.gz", label, place)
        images = [{"path": str(image), "reader": "nifti", "inside": []}] if name == "stranger" else []
        (folder / f"{name}.json").write_text(json.dumps({"status": "corrected", "images": images}))
    return folder.parent, free, tested


def test_corrected_cases_are_trained_on_with_the_settings_of_the_first_run(
    scans, cache, finished, corrections, tmp_path
):
    folder, free, tested = corrections
    said = []
    options = Options(init=finished, labels=folder, cache=cache, device="cpu", steps=2)
    out = train(scans, tmp_path / "on", options, say=said.append)
    old, new = Run.read(finished), Run.read(out)
    assert set(new.split.labelled) == {*old.split.labelled, free, tested, "stranger"}
    assert new.split.val == old.split.val
    assert set(new.split.unlabelled) == set(old.split.unlabelled) - {free}
    assert (new.net, new.optim) == (old.net, old.optim)
    gain = json.loads((out / GAIN).read_text())
    assert gain["corrected"]["cases"] == 3
    assert gain["validation"]["cases"] == 1
    assert all(0 <= gain[what][when] <= 1 for what in ("corrected", "validation") for when in ("before", "after"))
    assert any("3 corrected cases count as labelled" in line for line in said)
    assert any(line.startswith("Dice of the 1 validation cases: ") for line in said)
    assert not any("teach it its own mistakes" in line for line in said)
    assert set(labelled_scans(Trained.load(out, CPU), {})) == set(new.split.labelled)  # the stranger's lies elsewhere
    train(scans, out, Options(init=finished, labels=folder, cache=cache, device="cpu"), resume=True)  # the same command
    with pytest.raises(InputError, match="--labels elsewhere: the run was begun with"):
        train(scans, out, Options(labels=Path("elsewhere"), cache=cache), resume=True)


def test_labels_that_stay_as_predicted_are_pointed_out(scans, cache, finished, tmp_path):
    free = next(case for case in read_folder(scans).cases if case.label is None)
    folder, said = tmp_path / "corrections/labelsTr", []
    folder.mkdir(parents=True)
    scan = free.images[0].read()
    label = Trained.load(finished, torch.device("cpu")).predict_volumes([scan]).label
    nifti.write(folder / f"{free.name}.nii.gz", label, scan.geometry)
    options = Options(init=finished, labels=folder.parent, cache=cache, device="cpu", steps=2)
    train(scans, tmp_path / "on", options, say=said.append)
    assert any("teach it its own mistakes" in line for line in said)


def test_the_label_is_the_corrected_one(scans, cache, corrections):
    folder, free, _ = corrections
    run, store = make_run(scans, Options(labels=folder, cache=cache, dims=2, val=0), torch.device("cpu"))
    assert free in run.split.labelled
    assert np.unique(store.label(free)).tolist() == [0, 1]
    assert np.mean(store.label(free)) == pytest.approx(0.25, abs=0.03)


def in_part(folder, free, ignore):
    """A correction of which one half was left open."""
    names = {"background": 0, "RV": 1, "ignore": ignore}
    content = {"channel_names": {"0": "MR"}, "labels": names, "file_ending": ".nii.gz"}
    (folder / "dataset.json").write_text(json.dumps(content))
    file = folder / "labelsTr" / f"{free}.nii.gz"
    label = nifti.read(file)
    values = label.array.astype(np.uint8)
    values[: len(values) // 2] = ignore
    nifti.write(file, values, label.geometry)


def test_what_a_correction_leaves_open_is_not_taught(scans, cache, corrections, finished, tmp_path):
    folder, free, _ = corrections
    in_part(folder, free, 200)
    options = Options(init=finished, labels=folder, cache=cache, device="cpu", steps=2)
    out = train(scans, tmp_path / "on", options)
    run, store = make_run(scans, Options(labels=folder, cache=cache, dims=2, val=0), torch.device("cpu"))
    assert store.ignore == 200
    assert store.partial == {free}
    assert free in run.split.labelled
    assert 0.3 < np.mean(store.label(free) == 200) < 0.7
    assert json.loads((out / GAIN).read_text())["corrected"]["before"] == pytest.approx(
        by_hand(finished, store, Run.read(out))
    )


def by_hand(finished, store, run):
    """Mean Dice of the finished run over corrected cases and their classes, where somebody drew."""
    trained, scores = Trained.load(finished, torch.device("cpu")), []
    for case in set(run.split.labelled) - set(Run.read(finished).split.labelled):
        drawn = store.label(case) != 200
        guess, label = trained.predict_prepared(np.array(store.image(case))).label[drawn], store.label(case)[drawn]
        for value in set(trained.classes) - {0}:
            both = np.count_nonzero(guess == value) + np.count_nonzero(label == value)
            scores += [2 * np.count_nonzero((guess == value) & (label == value)) / both] if both else []
    return np.mean(scores)


def test_a_value_that_is_ignored_here_and_a_class_there_is_refused(scans, cache, corrections):
    folder, free, _ = corrections
    highest = max(read_folder(scans).classes)
    in_part(folder, free, highest)
    with pytest.raises(InputError, match=f"dataset.json: ignores the value {highest}, where .* has the class"):
        make_run(scans, Options(labels=folder, cache=cache, dims=2, val=0), torch.device("cpu"))


def test_what_was_set_aside_is_no_label(scans, cache, corrections):
    folder, free, _ = corrections
    (folder / "labelsTr" / f"{free}.json").write_text('{"status": "set aside"}')
    assert free not in read_corrections(folder)
    run, _ = make_run(scans, Options(labels=folder, cache=cache, dims=2, val=0), torch.device("cpu"))
    assert free in run.split.unlabelled


def test_a_label_drawn_on_another_scan_of_the_name_is_refused(scans, cache, corrections, tmp_path):
    """Two batches of patients that are numbered alike: nobody gets another one's label. A copy is the same scan."""
    folder, free, _ = corrections
    case = next(case for case in read_folder(scans).cases if case.name == free)
    scan, copy, packed = case.images[0].read(), tmp_path / "copy.nii.gz", tmp_path / "plain.nii"
    copy.write_bytes(case.images[0].path.read_bytes())
    nifti.write(packed, scan.array, scan.geometry)
    note = folder / f"labelsTr/{free}.json"
    for image in (copy, packed, tmp_path / "gone.nii.gz"):
        images = [{"path": str(image), "reader": "nifti", "inside": []}]
        note.write_text(json.dumps({"status": "corrected", "images": images}))
        assert free in make_run(scans, Options(labels=folder, cache=cache, dims=2, val=0), CPU)[0].split.labelled
    nifti.write(copy, scan.array[::-1], scan.geometry)
    images = [{"path": str(copy), "reader": "nifti", "inside": []}]
    note.write_text(json.dumps({"status": "corrected", "images": images}))
    with pytest.raises(
        InputError, match=rf"{free}\.nii\.gz: was drawn on another scan than .*: on one that lay at .*copy"
    ):
        make_run(scans, Options(labels=folder, cache=cache, dims=2, val=0), CPU)


def test_classes_that_are_numbered_otherwise_are_refused(scans, cache, corrections):
    folder, _, _ = corrections
    (folder / "dataset.json").write_text(json.dumps({"labels": {"background": 0, "LV": 1, "MYO": 2, "RV": 3}}))
    with pytest.raises(InputError, match=r"dataset\.json: names 1 LV, where .* names it RV"):
        make_run(scans, Options(labels=folder, cache=cache, dims=2, val=0), CPU)


def test_a_second_round_keeps_the_labels_of_the_first(scans, cache, finished, corrections, tmp_path):
    """Also where it has a folder of its own; and a run stays what it is while others are reviewed."""
    first, free, tested = corrections
    shared = {"init": finished, "cache": cache, "device": "cpu", "steps": 2}
    one = train(scans, tmp_path / "one", Options(labels=first, **shared))
    taught = make_run(scans, Options(labels=first, cache=cache, dims=2, val=0), CPU)[1].label(free)
    second = tmp_path / "second/labelsTr"
    second.mkdir(parents=True)
    case = next(case for case in read_folder(scans).cases if case.name == tested)
    drawn = case.images[0].read()
    nifti.write(second / f"{tested}.nii.gz", np.ones(drawn.array.shape, np.uint8), drawn.geometry)
    said = []
    two = train(scans, tmp_path / "two", Options(labels=second.parent, **{**shared, "init": one}), say=said.append)
    run, store = make_run(scans, Options(labels=second.parent, **{**shared, "init": one}), CPU)
    assert set(run.split.labelled) == set(Run.read(one).split.labelled)
    assert (store.label(free) == taught).all()
    assert store.label(tested).mean() > 0.5
    assert "3 corrected cases count as labelled: 5 labelled cases in all." in said
    # Reviewing goes on, and both runs are what they were.
    nifti.write(first / f"labelsTr/{free}.nii.gz", np.ones(drawn.array.shape, np.uint8), drawn.geometry)
    nifti.write(second / "later.nii.gz", np.ones(drawn.array.shape, np.uint8), drawn.geometry)
    assert set(trained_on(Run.read(two), still=False)) == {free, tested, "stranger"}
    with pytest.raises(InputError, match=rf"{free}\.nii\.gz: was changed since the run was trained on it"):
        train(scans, two, Options(init=one, labels=second.parent, cache=cache, device="cpu"), resume=True)
    (first / f"labelsTr/{free}.json").write_text('{"status": "set aside"}')
    with pytest.raises(InputError, match=rf"{free}\.nii\.gz: is gone, or was set aside"):
        make_run(scans, Options(labels=second.parent, **{**shared, "init": one}), CPU)


def test_a_run_goes_on_while_more_is_reviewed(scans, cache, finished, corrections, tmp_path):
    folder, free, _ = corrections
    options = Options(init=finished, labels=folder, cache=cache, device="cpu", steps=2)
    out = train(scans, tmp_path / "on", options)
    other = next(case for case in read_folder(scans).cases if case.label is None and case.name != free)
    scan = other.images[0].read()
    nifti.write(folder / f"labelsTr/{other.name}.nii.gz", np.ones(scan.array.shape, np.uint8), scan.geometry)
    train(scans, out, Options(init=finished, labels=folder, cache=cache, device="cpu"), resume=True)
    assert other.name in make_run(scans, options, CPU)[0].split.labelled


def test_what_is_not_taken_is_said(scans, cache, finished, tmp_path):
    (watched,) = Run.read(finished).split.val
    folder, said = tmp_path / "corrections/labelsTr", []
    folder.mkdir(parents=True)
    cases = {case.name: case for case in read_folder(scans).cases}
    free = next(name for name, case in cases.items() if case.label is None)
    for name in (watched, free):
        scan = cases[name].images[0].read()
        nifti.write(folder / f"{name}.nii.gz", np.ones(scan.array.shape, np.uint8), scan.geometry)
    make_run(scans, Options(init=finished, labels=folder.parent, cache=cache), CPU, say=said.append)
    assert any(line.startswith("1 corrected cases count as labelled") for line in said)
    assert f"Not trained on, as they are validation cases or of their patients: {watched}." in said


def write_nrrd(path, array, geometry):
    """As 3D Slicer leaves it."""
    affine = np.array(geometry.affine)
    axes = " ".join("(" + ",".join(f"{number:.9g}" for number in affine[:3, axis]) + ")" for axis in range(3))
    origin = ",".join(f"{number:.9g}" for number in affine[:3, 3])
    sizes = " ".join(map(str, array.shape))
    lines = f"sizes: {sizes}\nspace: right-anterior-superior\nspace directions: {axes}\nspace origin: ({origin})"
    header = f"NRRD0004\ntype: uint8\ndimension: 3\n{lines}\nencoding: raw\n\n"
    path.write_bytes(header.encode() + array.astype(np.uint8).tobytes(order="F"))


def test_a_label_of_any_format_counts_and_two_of_one_case_are_refused(scans, corrections, cache):
    folder, free, _ = corrections
    place = folder / f"labelsTr/{free}.nii.gz"
    label = nifti.read(place)
    place.unlink()
    write_nrrd(place.with_name(f"{free}.nrrd"), label.array.astype(np.uint8), label.geometry)
    assert set(read_corrections(folder)) >= {free, "stranger"}
    _, store = make_run(scans, Options(labels=folder, cache=cache, dims=2, val=0), CPU)
    assert np.mean(store.label(free)) == pytest.approx(0.25, abs=0.03)
    nifti.write(place, label.array, label.geometry)
    with pytest.raises(InputError, match=r"is a label of the same case as .* Keep one of the two"):
        read_corrections(folder)


def test_a_label_without_a_note_is_taken_packed_or_not(corrections):
    folder, free, _ = corrections
    (folder / "labelsTr" / f"{free}.json").unlink()
    (folder / "labelsTr" / f"{free}.nii.gz").rename(folder / "labelsTr" / f"{free}.nii")
    assert read_corrections(folder)[free].status == "corrected"


def test_patients_who_are_watched_stay_so_and_those_for_test_leave_it():
    split = Split(labelled=("a",), unlabelled=("b", "c"), val=("v_ED",), test=("t_ED", "t_ES", "u"))
    patients = {"a": "a", "b": "b", "c": "c", "v_ED": "v", "v_ES": "v", "t_ED": "t", "t_ES": "t", "u": "u"}
    found = split.with_labels(["b", "v_ED", "v_ES", "t_ED", "a"], patients)
    assert found == Split(labelled=("a", "b", "t_ED"), unlabelled=("c",), val=("v_ED",), test=("u",))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda labels: (labels / "stranger.json").write_text('{"status": "corrected"}'), "does not have"),
        (lambda labels: (labels / "stranger.json").write_text('{"status": "fine"}'), "has no status"),
        (
            lambda labels: (labels / "stranger.json").write_text('{"status": "corrected", "images": [3]}'),
            "does not name",
        ),
        (lambda labels: [file.unlink() for file in labels.iterdir()], r"holds no label.*<case>\.nii\.gz"),
    ],
)
def test_a_folder_that_cannot_be_used_is_named(scans, cache, corrections, spoil, sentence):
    folder = corrections[0]
    spoil(folder / "labelsTr")
    with pytest.raises(InputError, match=sentence):
        make_run(scans, Options(labels=folder, cache=cache, dims=2, val=0), torch.device("cpu"))


def test_the_labels_of_a_store_are_fixed(scans, cache, corrections):
    _, store = make_run(scans, Options(cache=cache, dims=2, val=0), torch.device("cpu"))
    with pytest.raises(InputError, match="is a prepared store"):
        make_run(store.path, Options(labels=corrections[0], cache=cache), torch.device("cpu"))


def test_a_gain_of_nothing_is_not_written(scans, cache, finished, corrections, tmp_path, monkeypatch):
    """Where no corrected case has an object, and none is found: NaN is no JSON."""
    folder, _, _ = corrections
    monkeypatch.setattr("coranet.runs.gain.count", lambda guess, label: SimpleNamespace(dsc=float("nan")))
    out = train(scans, tmp_path / "on", Options(init=finished, labels=folder, cache=cache, device="cpu", steps=2))
    assert set(json.loads((out / GAIN).read_text(), parse_constant=pytest.fail)) == {"before"}
