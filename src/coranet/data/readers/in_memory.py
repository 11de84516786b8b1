"""Scans that are in memory already: images of nibabel, SimpleITK and MONAI, and arrays with a word on where they lie."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coranet.data.readers import nifti
from coranet.data.readers.volume import Volume, checked_geometry
from coranet.errors import InputError

_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
"""From ITK's world, where axes point to the left and to the back."""
_ARRAY = Path("The array")
"""What messages call an array that came from no file."""
_POINTS_TO = {"R": (0, 1), "L": (0, -1), "A": (1, 1), "P": (1, -1), "S": (2, 1), "I": (2, -1)}
"""Axis and sign of the world that each letter stands for."""
_WHERE = (
    "Give affine=, a 4 x 4 matrix from indices to millimetres (RAS+), or spacing= in millimetres and axes=, where its axes "
    'point, such as "RAS"; or give the file or the nibabel image itself'
)


def volumes_of(
    image: Any,
    channels: int,
    *,
    affine: ArrayLike | None = None,
    spacing: Sequence[float] | None = None,
    axes: str | None = None,
) -> list[Volume]:
    """The channels of a scan in memory, each with its place in the world.

    Args:
        image: an image of nibabel or SimpleITK, a MetaTensor of MONAI, an array `(x, y)`, `(x, y, z)` or `(C, x, y, z)`, or
            a list of images of which each is a channel.
        channels: how many there are.
        affine: of an array, `(4, 4)`, from its indices to millimetres to the right, front and up.
        spacing: of an array without an affine, in millimetres.
        axes: of an array without an affine, where its axes point, such as "RAS" for right, front and up.

    Raises:
        InputError: nothing says where the voxels lie, or two things do.
    """
    if isinstance(image, list | tuple):
        return [one for part in image for one in volumes_of(part, 1, affine=affine, spacing=spacing, axes=axes)]
    placed = any(hasattr(image, name) for name in ("dataobj", "GetDirection", "affine"))
    if placed and any(given is not None for given in (affine, spacing, axes)):
        raise InputError("The image says itself where it lies. Leave out affine=, spacing= and axes=.")
    if hasattr(image, "affine") and hasattr(image, "detach"):
        return _from_monai(image)
    if hasattr(image, "dataobj"):
        frames = range(channels) if channels > 1 and len(image.shape) == 4 else (None,)
        if None not in frames and image.shape[3] != channels:
            raise InputError(
                f"The run was trained on {channels} channels; the scan has {image.shape[3]}. Give as many."
            )
        return [nifti.from_nibabel(image, {} if frame is None else {"channel": frame}) for frame in frames]
    if hasattr(image, "GetDirection"):
        return _from_simpleitk(image)
    return _from_array(np.asarray(image), affine, spacing, axes)


def _from_simpleitk(image: Any) -> list[Volume]:
    """Of an image of SimpleITK, whose arrays are `(z, y, x)`, with channels last."""
    library = sys.modules[type(image).__module__.partition(".")[0]]  # whoever has an image has imported it
    array = np.asarray(library.GetArrayViewFromImage(image))
    dims = len(image.GetSize())
    if dims not in (2, 3):
        raise InputError(f"The image has {dims} axes; a scan has 2 or 3. Give one moment of it.")
    affine = np.eye(4)
    directions = np.reshape(image.GetDirection(), (dims, dims))
    affine[:dims, :dims] = directions * np.asarray(image.GetSpacing())
    affine[:dims, 3] = image.GetOrigin()
    parts = np.moveaxis(array, -1, 0) if array.ndim > dims else array[None]
    return [_volume(part.transpose(), _TO_RAS @ affine) for part in parts]


def _from_monai(image: Any) -> list[Volume]:
    """Of a MetaTensor, `(x, y, z)` or `(C, x, y, z)`; its world is RAS where it does not say LPS."""
    affine = np.asarray(image.affine, np.float64)
    lps = getattr(image, "meta", {}).get("space") == "LPS"
    return _from_array(image.detach().cpu().numpy(), _TO_RAS @ affine if lps and affine.shape == (4, 4) else affine)


def _from_array(
    array: NDArray[Any], affine: ArrayLike | None, spacing: Sequence[float] | None = None, axes: str | None = None
) -> list[Volume]:
    if not 2 <= array.ndim <= 4:
        raise InputError(f"An image has 2 axes, 3, or 4 with channels first; this one has {array.ndim}.")
    if affine is not None and (spacing is not None or axes is not None):
        raise InputError("An affine says spacing and axes already. Leave out spacing= and axes=.")
    if affine is None and (spacing is None or axes is None):
        raise InputError(f"The array does not say where its voxels lie. {_WHERE}.")
    dims = min(array.ndim, 3)
    matrix = np.asarray(affine, np.float64) if affine is not None else _affine_of(spacing or (), axes or "", dims)
    if matrix.shape != (4, 4):
        raise InputError(f"affine= is a matrix of 4 x 4 numbers, not of {' x '.join(map(str, matrix.shape))}.")
    return [_volume(part, matrix) for part in (array if array.ndim == 4 else array[None])]


def _affine_of(spacing: Sequence[float], axes: str, dims: int) -> NDArray[np.float64]:
    """The matrix of axes that each point along one of the world's; of a picture the third is the one that is left."""
    letters = axes.upper()
    ways = [_POINTS_TO.get(letter, (-1, 0)) for letter in letters]
    if len({axis for axis, _ in ways} & {0, 1, 2}) != len(ways) or len(ways) not in (dims, 3):
        raise InputError(
            f'axes="{axes}": write a letter for each of the {dims} axes, where it points: R or L, A or P, S or I, such as '
            f"{'RAS'[:dims]}."
        )
    if len(spacing) not in (dims, 3):
        raise InputError(f"spacing= has {len(spacing)} numbers, and the array has {dims} axes. Give as many.")
    ways += [(axis, 1) for axis in range(3) if axis not in {axis for axis, _ in ways}]
    steps = [*map(float, spacing), 1.0][:3]
    affine = np.zeros((4, 4))
    affine[3, 3] = 1
    for column, ((row, sign), step) in enumerate(zip(ways, steps, strict=True)):
        affine[row, column] = sign * step
    return affine


def _volume(array: NDArray[Any], affine: NDArray[np.float64]) -> Volume:
    if array.dtype.kind not in "biuf" or not array.size:
        raise InputError(f"An image holds one number a voxel; this one is {array.dtype} of shape {array.shape}.")
    flat = array.ndim == 2
    array = array[..., None] if flat else array
    array = array.astype(np.uint8 if array.dtype.kind == "b" else array.dtype.newbyteorder("="), copy=False)
    return Volume(array, checked_geometry(_ARRAY, affine, array.shape), flat=flat)
