"""Segmentations of 3D Slicer: read back by our own reader and by SimpleITK, on the same voxels."""

import numpy as np
import pytest

from coranet.data.datasets.folder import Case
from coranet.data.readers import nrrd
from coranet.data.writers.seg_nrrd import SegNrrd
from coranet.geometry import Geometry

AFFINES = [
    np.diag([1.5, 2.0, 3.0, 1.0]),
    np.array([[0, 0, -3.0, 5], [-0.7, 0, 0, 6], [0, 0.9, 0, -7], [0, 0, 0, 1]]),
    np.array([[0.8, -0.6, 0, 5], [0.6, 0.8, 0, 6], [0, 0, -2.5, -7], [0, 0, 0, 1]]),
]
CASE = Case(name="a case", images=(), label=None, part="Ts", patient="a")


def written(folder, affine, classes):
    label = np.random.default_rng(0).integers(0, 3, (4, 5, 6)).astype(np.uint8)
    geometry = Geometry(shape=(4, 5, 6), affine=tuple(map(tuple, affine.tolist())))
    SegNrrd(classes).check(CASE)
    SegNrrd(classes).write(folder, CASE, label, geometry)
    return folder / "a case.seg.nrrd", label, geometry


@pytest.mark.parametrize("affine", AFFINES)
def test_our_reader_finds_the_same_voxels(tmp_path, affine):
    file, label, geometry = written(tmp_path, affine, {0: "background", 1: "LV", 2: "Myo"})
    volume = nrrd.read(file, {})
    np.testing.assert_array_equal(volume.array, label)
    np.testing.assert_allclose(volume.geometry.affine, geometry.affine, atol=1e-12)


@pytest.mark.parametrize("affine", AFFINES)
def test_simpleitk_finds_the_same_voxels_and_names(tmp_path, affine):
    library = pytest.importorskip("SimpleITK")
    file, label, _ = written(tmp_path, affine, {0: "background", 1: "LV", 2: "Myo"})
    image = library.ReadImage(str(file))
    np.testing.assert_array_equal(library.GetArrayFromImage(image).transpose(), label)
    for voxel in ((0, 0, 0), (3, 1, 5)):
        there = np.diag([-1, -1, 1]) @ (affine[:3, :3] @ voxel + affine[:3, 3])
        np.testing.assert_allclose(image.TransformIndexToPhysicalPoint(voxel), there, atol=1e-9)
    said = {key: image.GetMetaData(key) for key in image.GetMetaDataKeys() if key.startswith("Segment1_")}
    places = np.nonzero(label == 2)
    assert said["Segment1_Name"] == "Myo"
    assert said["Segment1_LabelValue"] == "2"
    assert said["Segment1_Extent"] == " ".join(f"{axis.min()} {axis.max()}" for axis in places)


def test_a_name_cannot_add_fields(tmp_path):
    file, label, _ = written(tmp_path, AFFINES[0], {0: "background", 1: "a\ntype: double\n\nb", 2: "", 9: "absent"})
    np.testing.assert_array_equal(nrrd.read(file, {}).array, label)
    header = file.read_bytes().partition(b"\n\n")[0].decode()
    assert "Segment0_Name:=a type: double b" in header
    assert "Segment2_Extent:=0 -1 0 -1 0 -1" in header
