"""A window knows its own kind: what its images are, which of them are trained on and what it can predict."""

import re
from pathlib import Path

import numpy as np
import pytest

import coranet
from coranet.feed.windows import WINDOWS, Patches, Slices

IMAGE = np.arange(2 * 6 * 8 * 4, dtype=np.float32).reshape(2, 6, 8, 4)
LABEL = np.zeros((6, 8, 4), np.uint8)
LABEL[2, 3, 1] = 1


def test_slices_that_show_an_object():
    every, shown = Slices(size=(8, 8)), Slices(size=(8, 8), keep="object")
    images, labels = every.split_labelled(IMAGE, LABEL)
    assert images.shape == (4, 2, 6, 8)
    assert labels.shape == (4, 6, 8)
    images, labels = shown.split_labelled(IMAGE, LABEL)
    np.testing.assert_array_equal(images, IMAGE[None, ..., 1])
    np.testing.assert_array_equal(labels, LABEL[None, ..., 1])
    assert len(shown.split_unlabelled(IMAGE)) == 4
    assert shown.whole() == every


def test_unlabelled_volumes_whole_or_one_crop_in_the_middle():
    anywhere, centre = (Patches(size=(4, 4, 6), unlabelled=where) for where in ("anywhere", "centre"))
    np.testing.assert_array_equal(anywhere.split_unlabelled(IMAGE), IMAGE[None])
    np.testing.assert_array_equal(centre.split_unlabelled(IMAGE), IMAGE[None, :, 1:5, 2:6, :])
    images, labels = centre.split_labelled(IMAGE, LABEL)
    assert (images.shape, labels.shape) == ((1, 2, 6, 8, 4), (1, 6, 8, 4))
    assert centre.whole() == centre


def test_what_each_kind_says_of_itself():
    flat, deep = Slices(), Patches(stride=(16, 16, 4), around=0.5)
    assert (flat.images, flat.points, flat.stride, flat.around) == ("slices", "pixels", None, 0)
    assert (deep.images, deep.points, deep.stride, deep.around) == ("volumes", "voxels", (16, 16, 4), 0.5)
    assert flat.takes((5, 5, 1))
    assert not deep.takes((5, 5, 1))
    assert deep.takes((5, 5, 2))


@pytest.mark.parametrize("name", [kind.__name__ for kind in WINDOWS.values()])
def test_nobody_asks_a_window_for_its_type(name):
    files = Path(coranet.__file__).parent.rglob("*.py")
    assert not [file.name for file in files if re.search(rf"isinstance\([^)]*\b{name}\b", file.read_text())]
