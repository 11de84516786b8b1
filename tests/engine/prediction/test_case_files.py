"""The files of a case are those of one prediction, and a case that cannot be written stops no other."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest

import coranet
from coranet.data.datasets.folder import scan_cases
from coranet.data.datasets.names import MAPS
from coranet.data.writers.seg_nrrd import SegNrrd
from coranet.engine.prediction.case_files import CaseFiles
from coranet.engine.prediction.scan_list import list_scans
from coranet.errors import InputError
from coranet.geometry import Geometry
from tests import dicoms


def test_nothing_of_an_earlier_prediction_stays_beside_a_new_label(finished, scans, tmp_path):
    """Else a person would be offered the answers of another run."""
    trained, out = coranet.load(finished, "cpu"), tmp_path / "out"
    cases = scan_cases(scans / "imagesTs", 1)
    trained.predict_cases(cases, CaseFiles(out=out, masks=True, writers=[SegNrrd(trained.classes)]), True)
    full = {file.name for file in out.iterdir()}
    assert {f"phantom_007_{name}.nii.gz" for name in MAPS} < full
    assert "phantom_007.seg.nrrd" in full
    trained.predict_cases(cases[:1], CaseFiles(out=out))
    left = {file.name for file in out.iterdir() if file.name.startswith("phantom_007")}
    assert left == {"phantom_007.nii.gz", "phantom_007_uncertain.nii.gz", "phantom_007_score.nii.gz"}
    assert {name for name in full if name.startswith("phantom_008")} < {file.name for file in out.iterdir()}


def test_scans_of_which_one_is_named_like_a_map_of_the_other_are_refused(scans, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    for name in ("p1", "p1_uncertain", "p2_score"):
        shutil.copy(scans / "imagesTs/phantom_007_0000.nii.gz", folder / f"{name}_0000.nii.gz")
    with pytest.raises(
        InputError, match="The scans p1 and p1_uncertain: a map of the first has the name of the second"
    ):
        list_scans(folder, tmp_path / "out", 1)
    (folder / "p1_uncertain_0000.nii.gz").unlink()
    assert [case.name for case in list_scans(folder, tmp_path / "out", 1)] == ["p1", "p2_score"]


class Answered:
    """A prediction that is written without a network."""

    def __init__(self, volumes):
        self.label = np.ones(volumes[0].array.shape, np.uint8)
        self.facts = "known"

    def write(self, out, case, geometry: Geometry, **how):
        (out / f"{case}.nii.gz").write_bytes(b"")
        return [out / f"{case}.nii.gz"]


def test_a_series_that_no_segmentation_can_refer_to_stops_no_other(tmp_path):
    writers = pytest.importorskip("coranet.data.writers.dicom_seg")
    pytest.importorskip("highdicom")
    whole = {"StudyInstanceUID": "1.2.826.1", "FrameOfReferenceUID": "1.2.826.2"}
    grey = np.zeros((9, 7, 5), np.int16)
    odd = {"PatientSex": "U", "StudyDate": "2020-01-02", "StudyTime": "10:11"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydicom says of each odd value that it is one
        for name, changes in (("a", {}), ("b", {"StudyInstanceUID": None}), ("c", odd)):
            dicoms.write_series(tmp_path / "scans" / name, grey, **{**whole, **changes})
    cases, told = scan_cases(tmp_path / "scans", 1), {}
    writer = writers.DicomSeg({0: "background", 1: "LV"})
    files = CaseFiles(
        out=tmp_path / "out", writers=[writer], on_refusal=lambda case, why: told.update({case.name: why})
    )
    assert set(files.write(Answered, cases)) == {"a", "c"}
    assert set(told) == {"b"}
    assert "does not state its StudyInstanceUID" in told["b"]
    assert {file.name for file in (tmp_path / "out").glob("*.seg.dcm")} == {"a.seg.dcm", "c.seg.dcm"}
    with pytest.raises(InputError, match="does not state"):  # where it is so of all, nothing is begun
        files.write(Answered, [case for case in cases if case.name == "b"])
