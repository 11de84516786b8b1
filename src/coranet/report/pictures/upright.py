"""Arrays as they are looked at: X to the right of the patient, Y to the front, Z up, however a file stores them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.grid import orientation
from coranet.geometry import Geometry

Array = NDArray[Any]

SIDES = "The patient's right is on the left, front or up is upwards; seen from the side, front is on the left."
"""How every picture holds a slice: as radiologists do, and as a picture file is shown."""


def upright(array: Array, geometry: Geometry) -> Array:
    """A view of `(x, y, z)` in a file's own order as right, front, up."""
    axes, flips = orientation(geometry)
    return np.flip(array.transpose(axes), tuple(axis for axis in range(3) if flips[axis]))


def upright_spacing(geometry: Geometry) -> tuple[float, float, float]:
    """Millimetres to the right, to the front and up."""
    x, y, z = (geometry.spacing[axis] for axis in orientation(geometry)[0])
    return x, y, z
