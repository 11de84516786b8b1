"""Three axes of an array resampled one after the other, some planes at a time.

What memory that takes beside the array itself does not grow with the scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coranet.data.grid import is_inside
from coranet.data.prepare.interpolation import Weights

Floats = NDArray[np.float32]

_NOTHING = 1e-8
"""Weights below this are lost in single precision, and left out: a spline's reach everywhere, but not with any force."""

_AT_A_TIME = 4_000_000
"""Voxels that are resampled at a time."""

_ROWS = 64
"""Of a matrix that are multiplied at a time, with the voxels they reach."""


class Step(NamedTuple):
    """What one axis becomes: `size` voxels, the i-th read at `scale * i + offset`."""

    size: int
    scale: float
    offset: float

    @property
    def copies(self) -> bool:
        """Whether each voxel is one of the source's, or padding."""
        return self.scale == 1 and self.offset == round(self.offset)


Steps = tuple[Step, Step, Step]


class Line(NamedTuple):
    """A step, worked out for an axis: of its `size` voxels those `inside` are read, the rest is padding."""

    size: int
    inside: slice
    start: int
    """The voxel that the first inside is a copy of, where there is no matrix."""
    matrix: Floats | None
    """`(inside, n)`."""

    def reach(self, rows: slice) -> slice:
        """The voxels of the source that some of those inside are read from."""
        if self.matrix is None:
            return slice(self.start + rows.start, self.start + rows.stop)
        used = np.flatnonzero(self.matrix[rows].any(axis=0))
        return slice(int(used[0]), int(used[-1]) + 1)


Convert = Callable[[NDArray[Any]], NDArray[Any]]

Lines = tuple[Line, Line, Line]


def lines_of(shape: tuple[int, ...], steps: Steps, weights: Weights) -> Lines:
    """Steps, worked out for an array of this shape."""
    x, y, z = (_line(size, step, weights) for size, step in zip(shape, steps, strict=True))
    return x, y, z


def _line(size: int, step: Step, weights: Weights) -> Line:
    positions = step.scale * np.arange(step.size) + step.offset
    where = np.flatnonzero(is_inside(positions, size))
    inside = slice(int(where[0]), int(where[-1]) + 1) if where.size else slice(0, 0)
    if step.copies or not where.size:
        return Line(step.size, inside, round(float(positions[inside.start])), None)
    matrix = weights(positions[inside], size, step.scale).astype(np.float32)
    matrix[np.abs(matrix) < _NOTHING] = 0
    return Line(step.size, inside, 0, matrix)


def parts_of(lines: Lines, shape: tuple[int, ...]) -> Iterator[slice]:
    """Ranges of the first axis that are not too much at a time."""
    _, y, z = lines
    planes = max(1, _AT_A_TIME // max(y.size * z.size, shape[1] * shape[2]))
    for first in range(0, lines[0].size, planes):
        yield slice(first, min(first + planes, lines[0].size))


def resample_part(
    source: NDArray[Any],
    lines: Lines,
    rows: slice,
    convert: Convert,
    fill: float,
) -> NDArray[Any]:
    """The planes `rows` of what `source` `(x, y, z)` becomes; what is read of it is converted first."""
    x, y, z = lines
    first, last = max(rows.start, x.inside.start), min(rows.stop, x.inside.stop)
    read = slice(first - x.inside.start, last - x.inside.start)
    kept = [line.reach(slice(0, line.inside.stop - line.inside.start)) for line in (y, z) if line.inside.stop]
    if first >= last or len(kept) < 2:
        empty = convert(source[:0, :0, :0])
        return np.full((rows.stop - rows.start, y.size, z.size), fill, empty.dtype)
    band = x.reach(read)
    values = convert(source[band, kept[0], kept[1]])
    if x.matrix is not None:
        values = _multiply(x.matrix[read, band], values, 0)
    for axis, line in ((1, y), (2, z)):
        if line.matrix is not None:
            values = _multiply(line.matrix[:, kept[axis - 1]], values, axis)
    result = np.full((rows.stop - rows.start, y.size, z.size), fill, values.dtype)
    result[first - rows.start : last - rows.start, y.inside, z.inside] = values
    return result


def _multiply(matrix: Floats, values: Floats, axis: int) -> Floats:
    """`values` `(x, y, z)` with one axis replaced by the rows of a matrix, whose weights are near its diagonal."""
    shape = list(values.shape)
    shape[axis] = len(matrix)
    result = np.empty(shape, np.float32)
    for first in range(0, len(matrix), _ROWS):
        rows = matrix[first : first + _ROWS]
        used = np.flatnonzero(rows.any(axis=0))
        band = slice(int(used[0]), int(used[-1]) + 1)
        rows = np.ascontiguousarray(rows[:, band])
        out = slice(first, first + _ROWS)
        match axis:
            case 0:
                result[out] = np.tensordot(rows, values[band], axes=1)
            case 1:
                np.matmul(rows, values[:, band], out=result[:, out])
            case _:
                result[..., out] = values[..., band] @ rows.T
    return result
