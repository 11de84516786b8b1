"""How an array lies in the world, which travels with it from the reader to the file that is written back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """How an array lies in the world: enough to write it back.

    Attributes:
        shape: the array's size along its own three axes.
        affine: 4 x 4, voxel index to millimetres, rows as tuples.
    """

    shape: tuple[int, int, int]
    affine: tuple[tuple[float, float, float, float], ...]

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Millimetres between voxel centres along each axis."""
        x, y, z = (sum(row[axis] ** 2 for row in self.affine[:3]) ** 0.5 for axis in range(3))
        return x, y, z
