"""PNG, JPEG, TIFF and BMP: a grey picture as a scan of one slice, or the pages of a TIFF as a volume.

A picture is shown with x to the right and y downwards; it states no spacing in millimetres.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.budget import claim
from coranet.data.problem import FileError, Problem, warning
from coranet.data.readers.png_rows import check_png
from coranet.data.readers.volume import COPY_AGAIN, Inside, Volume, check_file, unplaced

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
MARKS = ((0, b"\x89PNG\r\n\x1a\n"), (0, b"\xff\xd8\xff"), (0, b"II*\0"), (0, b"MM\0*"))

_WIDTHS = {"1": 1, "L": 1, "P": 5, "LA": 2, "I;16": 2, "RGB": 3}
"""Bytes of a pixel, by mode; of indexed colours these are looked up too."""

_UNSURE = 0.1
"""How many pixels of a JPEG mask may lie between its two values, for each one of its object: blurred edges leave less."""


def read(path: Path, inside: Inside) -> Volume:
    """The grey levels `(x, y, 1)`, or `(x, y, pages)`; `as` = "mask" in `inside` says that these are classes."""
    from PIL import Image

    size = check_file(path)
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path) as picture:  # of what else a file holds
            pages, total, lossy = [], 0, picture.format == "JPEG"
            for page in range(getattr(picture, "n_frames", 1)):
                picture.seek(page)
                total += math.prod(picture.size) * _WIDTHS.get(picture.mode, 4)
                claim(path, total, size)
                _check_tiles(path, picture)
                pages.append(_grey(path, picture))
            if picture.format == "PNG":
                check_png(path)
    except (FileError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        most = f"{2 * (Image.MAX_IMAGE_PIXELS or 0):,}"
        remedy = "Cut it into tiles, or save it as NIfTI"
        raise FileError(path, f"has more than {most} pixels, the most that a picture may have", remedy) from error
    except Exception as error:  # Pillow raises whatever the parts that it calls do
        reason = " ".join(str(error).split())
        raise FileError(path, f"is no picture, damaged or cut short ({reason})", COPY_AGAIN) from error
    if len({page.shape for page in pages}) > 1:
        raise FileError(path, "has pages of different sizes", "Save them as files of their own")
    array = np.stack(pages, axis=-1) if len(pages) > 1 else pages[0]
    found: tuple[Problem, ...] = ()
    if lossy and inside.get("as") == "mask":
        array, said = _thresholded(path, array)
        found = (said,)
    if inside.get("as") == "mask" and set(np.unique(array)) == {0, 255}:  # how programs that paint say 0 and 1
        array = (array > 0).astype(np.uint8)
    return unplaced(path, array.swapaxes(0, 1), inside, found)


def _check_tiles(path: Path, picture: Image) -> None:
    """Refuse a page of which the file has parts alone: Pillow would make the others black."""
    extents = {tile[1] for tile in getattr(picture, "tile", ())}
    area = sum((right - left) * (lower - upper) for left, upper, right, lower in filter(None, extents))
    if extents and area < math.prod(picture.size):
        raise FileError(path, f"has only {area} of the {math.prod(picture.size)} pixels that it announces", COPY_AGAIN)


def _grey(path: Path, picture: Image) -> NDArray[Any]:
    """One page `(y, x)`. Of indexed colours the numbers count, as in label maps, unless the colours are greys."""
    if picture.mode == "P":
        indices = np.asarray(picture)
        colours = np.asarray(picture.convert("RGB"))
        return colours[..., 0] if _is_grey(colours) else indices
    pixels: NDArray[Any] = np.asarray(picture)
    if pixels.ndim == 2:
        return pixels
    if picture.mode in ("LA", "RGBA") and np.ptp(pixels[..., -1]) == 0:
        pixels = pixels[..., :-1]
    if picture.mode not in ("L", "LA", "RGB", "RGBA") or not _is_grey(pixels):
        remedy = "Convert it to grey; several channels go into files <case>_0000, <case>_0001 ..."
        raise FileError(path, f"is in colour ({picture.mode})", remedy)
    return pixels[..., 0]


def _is_grey(pixels: NDArray[Any]) -> bool:
    return bool((pixels == pixels[..., :1]).all())


def _thresholded(path: Path, array: NDArray[Any]) -> tuple[NDArray[Any], Problem]:
    """A mask of the two values that a JPEG had before it blurred them: 0 and the highest."""
    highest = int(array.max())
    between = (array > highest // 4) & (array < highest - highest // 4)
    if between.mean() > _UNSURE * max((array > highest // 2).mean(), 1e-9):
        raise FileError(path, "is a mask saved as JPEG, which has mixed its classes", "Save masks as PNG")
    mask = np.where(array > highest // 2, min(highest, 1), 0).astype(np.uint8)
    message = f"is a mask saved as JPEG, which blurs edges: it was cut at {highest // 2} into 0 and 1"
    return mask, warning(path, message, "Save masks as PNG")
