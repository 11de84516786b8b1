"""A folder that grows: whole scans once, broken ones named once, and nothing waits for them."""

import shutil

import nibabel as nib
import numpy as np
import pytest

import coranet
from coranet.engine.prediction.arrivals import Arrivals
from coranet.errors import WriteError
from tests import dicoms


@pytest.fixture
def watching(finished, tmp_path):
    """A watch, the folder it looks at, where predictions go, and what it says."""
    trained, folder, out, said = coranet.load(finished, "cpu"), tmp_path / "incoming", tmp_path / "out", []
    folder.mkdir()
    watch = Arrivals(
        folder,
        1,
        is_done=lambda case: (out / f"{case.name}.nii.gz").exists(),
        predict=lambda case: trained.predict_files(case.images[0].path, out),
        say=said.append,
    )
    return watch, folder, out, said


def test_scans_are_taken_when_they_have_not_changed_between_two_looks(watching, scans):
    watch, folder, out, said = watching
    assert watch.look() == []
    content = (scans / "imagesTs/phantom_007_0000.nii.gz").read_bytes()
    (folder / "a_0000.nii.gz").write_bytes(content[:1000])
    assert watch.look() == []
    (folder / "a_0000.nii.gz").write_bytes(content)
    assert watch.look() == []
    assert watch.look() == ["a"]
    assert watch.look() == []
    assert nib.load(out / "a.nii.gz").shape == (32, 32, 3)
    assert said == []


def test_a_broken_scan_is_named_once_and_tried_again_when_it_changes(watching, scans):
    watch, folder, _, said = watching
    scan = scans / "imagesTs/phantom_007_0000.nii.gz"
    (folder / "a_0000.nii.gz").write_bytes(scan.read_bytes()[:1000])
    shutil.copy(scan, folder / "b_0000.nii.gz")
    watch.look()
    assert watch.look() == ["b"]
    assert len(said) == 1
    assert "a_0000.nii.gz" in said[0]
    assert watch.look() == watch.look() == []
    assert len(said) == 1
    shutil.copy(scan, folder / "a_0000.nii.gz")
    assert [watch.look(), watch.look()] == [[], ["a"]]


def test_a_full_disk_is_no_fault_of_a_scan(watching, scans):
    watch, folder, out, said = watching
    full, predict = [True], watch.predict

    def on_a_disk(case):
        if full:
            raise WriteError(f"{out}: cannot be written (No space left on device).")
        predict(case)

    watch = Arrivals(folder, 1, is_done=watch.is_done, predict=on_a_disk, say=said.append)
    shutil.copy(scans / "imagesTs/phantom_007_0000.nii.gz", folder / "a_0000.nii.gz")
    assert [watch.look(), watch.look(), watch.look()] == [[], [], []]
    assert len(said) == 1
    assert "No space left" in said[0]
    full.clear()
    assert watch.look() == ["a"]


def test_a_scan_that_is_named_like_a_map_of_another_is_not_predicted(watching, scans):
    watch, folder, _, said = watching
    for name in ("p", "p_score"):
        shutil.copy(scans / "imagesTs/phantom_007_0000.nii.gz", folder / f"{name}_0000.nii.gz")
    assert [watch.look(), watch.look(), watch.look()] == [[], ["p"], []]
    assert said == ["p_score: has the name of a map of p, and is not predicted. Rename it."]


def test_another_watch_goes_on_where_one_was_stopped(watching, scans):
    watch, folder, out, _ = watching
    shutil.copy(scans / "imagesTs/phantom_007_0000.nii.gz", folder / "a_0000.nii.gz")
    watch.look()
    watch.look()
    before = (out / "a.nii.gz").stat().st_mtime_ns
    again = Arrivals(folder, 1, is_done=watch.is_done, predict=watch.predict, say=watch.say)
    assert again.look() == again.look() == []
    assert (out / "a.nii.gz").stat().st_mtime_ns == before


def test_the_first_dicom_series_does_not_name_the_others(watching, scans):
    watch, folder, out, said = watching
    grey = np.asarray(nib.load(scans / "imagesTs/phantom_007_0000.nii.gz").dataobj)
    grey = (1000 * grey / grey.max()).astype(np.int16)
    dicoms.write_series(folder / "one", grey)
    watch.look()
    assert watch.look() == ["one"]
    dicoms.write_series(folder / "two", grey)
    watch.look()
    assert watch.look() == ["two"]
    assert sorted(file.name for file in out.glob("???.nii.gz")) == ["one.nii.gz", "two.nii.gz"]
    assert said == []
