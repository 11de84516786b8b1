"""DICOM SEG refers to the very slices it was drawn on, whatever their order and direction, as other readers see it."""

import json

import numpy as np
import pydicom
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coranet.data.datasets.folder import scan_cases
from coranet.data.writers.class_codes import ABNORMAL, CATEGORY, PRIVATE, SCT, ClassCode, code_of, read_codes
from coranet.data.writers.dicom_seg import DicomSeg
from coranet.errors import InputError
from tests import dicoms

pytest.importorskip("highdicom")
CLASSES = {0: "background", 1: "LV", 2: "thing of ours", 3: "liver"}
WHOLE = {"StudyInstanceUID": "1.2.826.1", "FrameOfReferenceUID": "1.2.826.2"}
ORIENTATIONS = [
    dicoms.AXIAL,
    (-1.0, 0.0, 0.0, 0.0, 1.0, 0.0),
    (0.0, 1.0, 0.0, 0.0, 0.0, -1.0),
    (1.0, 0.0, 0.0, 0.0, 0.0, -1.0),
    (0.0, 0.0, 1.0, -1.0, 0.0, 0.0),
    (0.8, 0.6, 0.0, -0.6, 0.8, 0.0),
]


def label_map(seed, shape=(9, 7, 5)):
    return np.random.default_rng(seed).choice(4, shape, p=[0.6, 0.2, 0.1, 0.1]).astype(np.uint8)


def series(folder, shape=(9, 7, 5), **changes):
    grey = np.random.default_rng(0).integers(0, 1000, shape).astype(np.int16)
    affine = dicoms.write_series(folder, grey, **{**WHOLE, **changes})
    (case,) = scan_cases(folder, 1)
    return case, case.images[0].read(), affine


def places(voxels, affine):
    """Millimetres, in LPS, of voxels `(n, 3)`, rounded so that they can be compared."""
    lps = np.diag([-1.0, -1.0, 1.0, 1.0]) @ np.array(affine)
    return {tuple(np.round(lps[:3, :3] @ voxel + lps[:3, 3], 2) + 0.0) for voxel in voxels}


def places_by_hand(file, number):
    """The same from the file alone, by the standard's equation for each frame."""
    seg = pydicom.dcmread(file)
    shared = seg.SharedFunctionalGroupsSequence[0]
    across, down = np.reshape([*map(float, shared.PlaneOrientationSequence[0].ImageOrientationPatient)], (2, 3))
    between_rows, between_columns = map(float, shared.PixelMeasuresSequence[0].PixelSpacing)
    found = set()
    frames = np.atleast_3d(seg.pixel_array).reshape(-1, seg.Rows, seg.Columns)
    for frame, groups in zip(frames, seg.PerFrameFunctionalGroupsSequence, strict=True):
        if groups.SegmentIdentificationSequence[0].ReferencedSegmentNumber == number:
            corner = np.array([*map(float, groups.PlanePositionSequence[0].ImagePositionPatient)])
            for row, column in zip(*np.nonzero(frame), strict=True):
                there = corner + across * between_columns * column + down * between_rows * row
                found.add(tuple(np.round(there, 2) + 0.0))
    return found


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(orientation=st.sampled_from(ORIENTATIONS), seed=st.integers(0, 99), backwards=st.booleans())
def test_segments_lie_on_the_right_voxels(tmp_path_factory, orientation, seed, backwards):
    """Slices are named and numbered at random; their places alone say their order."""
    folder = tmp_path_factory.mktemp("seg")
    step = np.cross(orientation[:3], orientation[3:]) * 2.5
    case, volume, _ = series(
        folder / "scan", orientation=orientation, seed=seed, shear=tuple(-2 * step) if backwards else (0.0, 0.0, 0.0)
    )
    label = label_map(seed, volume.array.shape)
    writer = DicomSeg(CLASSES)
    writer.check(case)
    writer.write(folder, case, label, volume.geometry)
    for value in (1, 2, 3):
        expected = places(np.argwhere(label == value), volume.geometry.affine)
        assert expected
        assert places_by_hand(folder / "scan.seg.dcm", value) == expected


def test_segments_name_their_slices_and_say_what_they_are(tmp_path):
    case, volume, _ = series(tmp_path / "scan")
    label = label_map(1)
    DicomSeg(CLASSES, {"liver": ClassCode(value="1", scheme="99ME", meaning="my liver")}).write(
        tmp_path, case, label, volume.geometry
    )
    seg = pydicom.dcmread(tmp_path / "scan.seg.dcm")
    assert (seg.Modality, seg.StudyInstanceUID, seg.FrameOfReferenceUID) == ("SEG", "1.2.826.1", "1.2.826.2")
    assert seg.SeriesInstanceUID != "1.2.3"
    named = {one.ReferencedSOPInstanceUID for one in seg.ReferencedSeriesSequence[0].ReferencedInstanceSequence}
    assert named == {pydicom.dcmread(file).SOPInstanceUID for file in (tmp_path / "scan").iterdir()}
    said = [
        (
            one.SegmentLabel,
            *(one.SegmentedPropertyTypeCodeSequence[0][tag].value for tag in ("CodeValue", "CodeMeaning")),
        )
        for one in seg.SegmentSequence
    ]
    assert said == [
        ("LV", "87878005", "Left ventricle"),
        ("thing of ours", "class-2", "thing of ours"),
        ("liver", "1", "my liver"),
    ]


def test_simpleitk_opens_it_too(tmp_path):
    library = pytest.importorskip("SimpleITK")
    shape = (8, 7, 5)  # whole bytes: of a last one that is not full GDCM leaves pixels as it finds them in memory
    case, volume, _ = series(tmp_path / "scan", shape)
    label = np.zeros(shape, np.uint8)
    label[2:5, 1:4] = 1
    DicomSeg({0: "background", 1: "LV"}).write(tmp_path, case, label, volume.geometry)
    image = library.ReadImage(str(tmp_path / "scan.seg.dcm"))
    assert image.GetSize() == shape
    array = library.GetArrayFromImage(image).transpose(2, 1, 0) > 0
    np.testing.assert_array_equal(array, label > 0)


def test_nothing_found_is_written_too(tmp_path):
    case, volume, _ = series(tmp_path / "scan")
    DicomSeg(CLASSES).write(tmp_path, case, np.zeros((9, 7, 5), np.uint8), volume.geometry)
    seg = pydicom.dcmread(tmp_path / "scan.seg.dcm")
    assert not seg.pixel_array.any()
    assert len(seg.SegmentSequence) == 3


def test_frames_of_one_file(tmp_path):
    grey = np.random.default_rng(0).integers(0, 1000, (6, 5, 4)).astype(np.int16)
    scan = dicoms.enhanced(grey, (0.7, 0.8, 2.5))
    for name, value in WHOLE.items():
        setattr(scan, name, value)
    dicoms.save(tmp_path / "scan.dcm", scan)
    (case,) = scan_cases(tmp_path / "scan.dcm", 1)
    volume, label = case.images[0].read(), label_map(3, (6, 5, 4))
    DicomSeg(CLASSES).write(tmp_path, case, label, volume.geometry)
    for value in (1, 2, 3):
        expected = places(np.argwhere(label == value), volume.geometry.affine)
        assert places_by_hand(tmp_path / "scan.seg.dcm", value) == expected


def test_what_cannot_be_referred_to_is_refused_before_any_work(tmp_path, monkeypatch):
    case, _, _ = series(tmp_path / "scan", StudyInstanceUID=None)
    with pytest.raises(InputError, match="does not state its StudyInstanceUID"):
        DicomSeg(CLASSES).check(case)
    np.save(tmp_path / "a.npy", np.zeros((4, 4, 4), np.float32))
    (case,) = scan_cases(tmp_path / "a.npy", 1)
    with pytest.raises(InputError, match=r"a\.npy: is no DICOM series"):
        DicomSeg(CLASSES).check(case)
    monkeypatch.setitem(__import__("sys").modules, "highdicom", None)
    with pytest.raises(InputError, match=r"needs highdicom\. Install it: pip install 'coranet\[dicom\]'"):
        DicomSeg(CLASSES).check(case)


@pytest.mark.parametrize(
    ("name", "value", "meaning"),
    [
        ("LV", "87878005", "Left ventricle"),
        ("Left_Ventricle", "87878005", "Left ventricle"),
        ("Myo", "74281007", "Myocardium"),
        ("kidney_left", "18639004", "Left kidney"),
        ("Hippocampus", "5366008", "Hippocampus"),
        ("spleen", "78961009", "Spleen"),
    ],
)
def test_common_names_have_codes_of_snomed(name, value, meaning):
    code = code_of(1, name, {})
    assert (code.value, code.scheme, code.meaning) == (value, "SCT", meaning)


def test_codes_are_those_that_pydicom_knows_by_these_names():
    from pydicom.sr.codedict import codes

    known = {name: getattr(codes.SCT, name.title().replace(" ", ""), None) for name in SCT}
    assert {name: SCT[name] for name, code in known.items() if code} == {
        name: code.value for name, code in known.items() if code
    }
    assert [name for name, code in known.items() if not code] == [
        *("left kidney", "left lung", "myocardium", "right kidney", "right lung")
    ]
    assert CATEGORY[0] == codes.cid7150.AnatomicalStructure.value
    assert ABNORMAL[0] == codes.cid7150.MorphologicallyAbnormalStructure.value


def test_other_names_have_private_codes():
    assert code_of(1, "tumour", {}).category == ABNORMAL
    for name in ("Anterior", "a" * 200, "", "λ", "dir", "__class__", ".*", "left"):
        code = code_of(7, name, {})
        assert code.scheme == PRIVATE
        assert 0 < len(code.meaning) <= 64


@pytest.mark.parametrize(
    "content",
    [[], {"LV": "1"}, {"LV": {"value": "1"}}, {"LV": {"value": 1, "scheme": "SCT", "meaning": "x"}}]
    + [{"LV": {"value": value, "scheme": "SCT", "meaning": "x"}} for value in ("", "x" * 17, "a\\b", "a\nb")],
)
def test_codes_of_strangers_are_refused_in_one_sentence(tmp_path, content):
    (tmp_path / "codes.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"codes\.json") as caught:
        read_codes(tmp_path / "codes.json")
    assert "\n" not in str(caught.value)
