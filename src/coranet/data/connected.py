"""Connected components of label maps of whole scans, to the last voxel.

`ops.components` has the like for batches on a device, in a fixed number of rounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage


def keep_largest(label: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Of each class its largest component, touching corners included, the first of equals; the rest becomes background.

    Args:
        label: `(*S)` classes, of any number of axes; 0 is background.
    """
    kept = np.zeros_like(label)
    touching = ndimage.generate_binary_structure(label.ndim, label.ndim)
    for value, box in enumerate(ndimage.find_objects(label), start=1):
        if box is not None:
            numbers, _ = ndimage.label(label[box] == value, touching)
            largest = np.bincount(numbers.ravel())[1:].argmax() + 1
            kept[box][numbers == largest] = value
    return kept
