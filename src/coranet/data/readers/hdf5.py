"""HDF5: one array of a file, in the layouts that people pass around, none of which states a spacing.

SSL4MIS keeps slices `(y, x)` and volumes `(z, y, x)`, UA-MT and its kin volumes `(x, y, z)`, all as `image` and `label`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coranet.data.budget import claim
from coranet.data.problem import FileError
from coranet.data.readers.volume import COPY_AGAIN, Inside, Volume, check_file, in_order, unplaced
from coranet.errors import InputError
from coranet.file_names import is_text

Kind = Literal["image", "label"]
ENDINGS = (".h5", ".hdf5", ".hdf")
MARKS = ((0, b"\x89HDF\r\n\x1a\n"),)

KEYS: dict[Kind, tuple[str, ...]] = {
    "image": ("image", "images", "img", "data", "volume", "raw", "scan", "ct", "mri", "x"),
    "label": ("label", "labels", "mask", "masks", "seg", "segmentation", "gt", "target", "y"),
}
"""What images and labels are called, in the order in which they are looked for."""
DEEPEST = 32
"""Groups that may lie in each other."""


def read(path: Path, inside: Inside) -> Volume:
    """The array named `key` in `inside`, else the image, or the label with `as` = "mask"; its axes as in `in_order`."""
    kind: Kind = "label" if inside.get("as") == "mask" else "image"
    key = inside.get("key") or find_key(path, kind)
    found = datasets(path)
    if key not in found:
        remedy = f"Call the image {KEYS['image'][0]!r} and the label {KEYS['label'][0]!r}"
        raise FileError(path, f"has no array {key or kind}: it holds {', '.join(found) or 'nothing'}", remedy)
    with opened_hdf5(path) as file:
        array = array_of(path, file[key])
    return unplaced(path, in_order(path, array, inside), inside)


def datasets(path: Path) -> Mapping[str, tuple[int, ...]]:
    """The arrays of a file and their shapes, without reading them; one in a group is called `group/name`."""
    with opened_hdf5(path) as file:
        return {name: tuple(item.shape) for name, item in _arrays(path, file) if item.ndim}


def find_key(path: Path, kind: Kind) -> str | None:
    """The name under which a file keeps its image or its label, if it does."""
    names = {name.rsplit("/", 1)[-1].lower(): name for name in datasets(path)}
    return next((names[key] for key in KEYS[kind] if key in names), None)


def array_of(path: Path, item: Any) -> NDArray[Any]:
    """An array of a file, read once it is known that its voxels are in the file and that there is room for them.

    Raises:
        FileError: it is in another file, or larger than what the file holds.
    """
    if item.external or item.is_virtual:
        others = [name for name, *_ in item.external or ()] or [source.file_name for source in item.virtual_sources()]
        message = f"keeps the voxels of {item.name} in another file ({others[0]})"
        raise FileError(path, message, "Save them in this one: others are not opened")
    pieces = math.prod(item.chunks or ()) * item.dtype.itemsize
    claim(path, max(math.prod(item.shape) * item.dtype.itemsize, pieces), item.id.get_storage_size())
    array: NDArray[Any] = np.asarray(item[()])
    return array


@contextmanager
def opened_hdf5(path: Path) -> Iterator[Any]:
    """The file, open for reading; never locked, which fails on read-only and shared disks.

    Raises:
        InputError: it cannot be read, or a link in it leads to another file.
    """
    import h5py

    check_file(path)
    try:
        with h5py.File(path, "r", locking=False) as file:
            deque(_arrays(path, file), maxlen=0)
            yield file
    except (InputError, MemoryError):
        raise
    except Exception as error:  # h5py raises whatever the library below it says
        reason = " ".join(str(error).split())
        raise FileError(path, f"is not HDF5, damaged or cut short ({reason})", COPY_AGAIN) from error


def _arrays(path: Path, file: Any) -> Iterator[tuple[str, Any]]:
    """Every array of a file with the names that lead to it; each group once, by whatever way.

    Raises:
        FileError: a link leads to another file, or groups lie in each other without end.
    """
    import h5py

    waiting, seen = [("", file)], set[int]()
    while waiting:
        lead, group = waiting.pop()
        if (address := h5py.h5o.get_info(group.id).addr) in seen:
            continue
        seen.add(address)
        if lead.count("/") > DEEPEST:
            raise FileError(path, f"has groups in each other, more than {DEEPEST} deep", "Save the image at the top")
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                message = f"has a link {name!r} to another file ({link.filename})"
                raise FileError(path, message, "Copy what is meant into this one: others are not opened")
            if not isinstance(link, h5py.HardLink) or not isinstance(name, str) or not is_text(name):
                continue
            item = group[name]
            if isinstance(item, h5py.Group):
                waiting.append((f"{lead}{name}/", item))
            elif isinstance(item, h5py.Dataset):
                yield f"{lead}{name}", item
