"""Of each class the largest component is kept, in any number of dimensions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from coranet.data.connected import keep_largest
from coranet.ops.components import largest_components


def test_each_class_keeps_its_own():
    label = np.array([[1, 1, 0, 2, 2], [0, 0, 0, 2, 0], [1, 0, 2, 0, 0], [0, 0, 0, 0, 2]], np.uint8)
    kept = np.array([[1, 1, 0, 2, 2], [0, 0, 0, 2, 0], [0, 0, 2, 0, 0], [0, 0, 0, 0, 0]], np.uint8)
    np.testing.assert_array_equal(keep_largest(label), kept)  # corners touch, and a class may be missing


def test_nothing_and_one_line():
    assert not keep_largest(np.zeros((3, 4, 5), np.uint8)).any()
    np.testing.assert_array_equal(keep_largest(np.array([3, 0, 3, 3], np.uint8)), [0, 0, 3, 3])


@given(arrays(np.uint8, st.tuples(*[st.integers(1, 5)] * 3), elements=st.integers(0, 2)))
def test_like_the_one_on_devices(label):
    """As many voxels of each class; which of two equals is kept may differ."""
    device = largest_components(torch.from_numpy(label).long()[None], 3)[0].numpy()
    kept = keep_largest(label)
    np.testing.assert_array_equal(np.bincount(kept.ravel(), minlength=3), np.bincount(device.ravel(), minlength=3))
    assert ((kept == label) | (kept == 0)).all()


@pytest.mark.parametrize("shape", [(40, 40), (20, 20, 20)])
def test_a_long_thread_is_one_component(shape):
    """A spiral that a bounded number of rounds would cut."""
    label = np.zeros(shape, np.uint8)
    label[::4] = 1
    for row in range(0, shape[0] - 4, 4):
        label[row : row + 4, -1 if row % 8 == 0 else 0] = 1
    np.testing.assert_array_equal(keep_largest(label), label)
