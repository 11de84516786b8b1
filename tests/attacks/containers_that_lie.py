"""HDF5 files that lie, and MATLAB files of version 7.3, which are HDF5: sparse, linked, external, nested without end."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.attacks.headers_that_lie import SECRET
from tests.attacks.honest_scans import grey, hdf5_bytes, mat73_bytes
from tests.attacks.scans import Lie, lying_file

Fill = Callable[[Any], None]


def _sparse(file: Any, size: tuple[int, ...], kind: str = "i2") -> None:
    """Nothing is written, and so nothing is stored."""
    chunks = tuple(min(64, length) for length in size)
    file.create_dataset("image", size, kind, chunks=chunks)


def _large_but_empty(file: Any) -> None:
    file.create_dataset("image", (2000, 2000, 2000), "i2")  # room is taken when something is written


def _bomb(file: Any, slices: int) -> None:
    """One packed plane of zeros, as many times as there are slices."""
    dataset = file.create_dataset("image", (slices, 1024, 1024), "i2", chunks=(1, 1024, 1024), compression="gzip")
    plane = zlib.compress(bytes(2 << 20), 9)
    for place in range(slices):
        dataset.id.write_direct_chunk((place, 0, 0), plane)


def _broken_chunks(file: Any) -> None:
    dataset = file.create_dataset("image", (10, 64, 64), "i2", chunks=(1, 64, 64), compression="gzip")
    for place in range(10):
        dataset.id.write_direct_chunk((place, 0, 0), b"no zlib at all")


def _too_long_chunks(file: Any) -> None:
    dataset = file.create_dataset("image", (4, 64, 64), "i2", chunks=(1, 64, 64), compression="gzip")
    for place in range(4):
        dataset.id.write_direct_chunk((place, 0, 0), zlib.compress(bytes(200 << 20), 1))


def _kinds(file: Any) -> None:
    file["image"] = np.zeros((8, 8), [("a", "i2"), ("b", "f4")])


def _texts(file: Any) -> None:
    file.create_dataset("image", (8, 8), h5py.string_dtype())


def _ragged(file: Any) -> None:
    file.create_dataset("image", (8, 8), h5py.vlen_dtype(np.int16))


def _references(file: Any) -> None:
    file["target"] = grey()
    dataset = file.create_dataset("image", (2, 2), h5py.ref_dtype)
    dataset[0, 0] = file["target"].ref


def _opaque(file: Any) -> None:
    file["image"] = np.zeros((8, 8), "V16")


def _array_of(file: Any, kind: str) -> None:
    file["image"] = grey().astype(kind)


def _axes(file: Any, count: int) -> None:
    file["image"] = np.zeros((2, 2) + (1,) * (count - 2), np.int16)


def _nothing(file: Any) -> None:
    file.create_group("group")


def _scalar(file: Any) -> None:
    file["image"] = 5


def _null(file: Any) -> None:
    file["image"] = h5py.Empty("i2")


def _no_voxels(file: Any) -> None:
    file["image"] = grey()[:0]


def _deep(file: Any, levels: int) -> None:
    group = file
    for _ in range(levels):
        group = group.create_group("g")
    group["image"] = grey()


def _many(file: Any) -> None:
    for number in range(20_000):
        file.create_group(f"group{number}")
    file["image"] = grey()


def _circle(file: Any) -> None:
    group = file.create_group("group")
    group["again"] = file["/"]
    group["image"] = h5py.SoftLink("/group/image")


def _names(file: Any) -> None:
    file["\x1b[2Jimage\n"] = grey()
    file["\x1b]0;title\x07"] = grey()


def _bytes_as_name(file: Any) -> None:
    file[b"\xff\xfe\xfd"] = grey()


def _nan(file: Any) -> None:
    file["image"] = np.full((8, 8, 8), np.nan)


def _external(target: str) -> Fill:
    def fill(file: Any) -> None:
        file.create_dataset("image", (16, 16, 8), "u1", external=[(target, 0, h5py.h5f.UNLIMITED)])

    return fill


def _linked(file: Any) -> None:
    file["image"] = h5py.ExternalLink("other.h5", "/secret")


def _virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((16, 16, 8), "u1")
    layout[:] = h5py.VirtualSource("other.h5", "secret", (16, 16, 8))
    file.create_virtual_dataset("image", layout)


FILLS: dict[str, tuple[Fill, bool]] = {
    "32767^3 without a voxel": (partial(_sparse, size=(32767,) * 3), True),
    "1024^3 without a voxel": (partial(_sparse, size=(1024,) * 3), True),
    "1024^3 doubles without a voxel": (partial(_sparse, size=(1024,) * 3, kind="f8"), True),
    "2^40 voxels in a row": (partial(_sparse, size=(2**20, 2**20)), True),
    "2^62 voxels": (partial(_sparse, size=(2**31, 2**31)), True),
    "2000^3 that were never written": (_large_but_empty, True),
    "2 GB of packed zeros": (partial(_bomb, slices=1024), True),
    "6 GB of packed zeros": (partial(_bomb, slices=3072), True),
    "chunks that are not packed": (_broken_chunks, True),
    "chunks that hold more than they say": (_too_long_chunks, False),
    "a table": (_kinds, True),
    "texts": (_texts, True),
    "lists": (_ragged, True),
    "references": (_references, True),
    "opaque bytes": (_opaque, True),
    "complex numbers": (partial(_array_of, kind="c16"), True),
    "half floats": (partial(_array_of, kind="f2"), False),
    "big-endian numbers": (partial(_array_of, kind=">i8"), False),
    "booleans": (partial(_array_of, kind="?"), False),
    "long doubles": (partial(_array_of, kind="f16"), False),
    "4 axes": (partial(_axes, count=4), False),
    "32 axes": (partial(_axes, count=32), True),
    "no array": (_nothing, True),
    "a single number": (_scalar, True),
    "a null": (_null, True),
    "no voxels": (_no_voxels, True),
    "1,000 groups in each other": (partial(_deep, levels=1000), False),
    "5,000 groups in each other": (partial(_deep, levels=5000), False),
    "20,000 groups": (_many, False),
    "links in a circle": (_circle, False),
    "names that move the cursor": (_names, True),
    "a name that is no text": (_bytes_as_name, False),
    "NaN": (_nan, False),
}
"""What is in the file, and whether it must be refused."""

OUTSIDE: dict[str, Fill] = {
    "external storage in a file beside it": _external("secret.raw"),
    "external storage above it": _external("../secret.raw"),
    "an external link": _linked,
    "a virtual dataset of another file": _virtual,
}
"""What leads out of the file."""


def _leading_out(what: str, name: str, content: Callable[[], bytes]) -> Lie:
    def make(room: Path) -> Path:
        inner = room / "inner"
        inner.mkdir()
        for folder in (room, inner):
            (folder / "secret.raw").write_bytes(SECRET)
        with h5py.File(inner / "other.h5", "w") as file:
            file["secret"] = np.frombuffer(SECRET[:2048], np.uint8).reshape(16, 16, 8)
        (inner / name).write_bytes(content())
        return inner / name

    return Lie(what=what, make=make, must_refuse=True, secret=SECRET[:30])


def _lies(name: str, pack: Callable[[Fill], bytes]) -> list[Lie]:
    within = [lying_file(what, name, partial(pack, fill), must_refuse=bad) for what, (fill, bad) in FILLS.items()]
    return [*within, *(_leading_out(what, name, partial(pack, fill)) for what, fill in OUTSIDE.items())]


CONTAINER_LIES = {"hdf5": _lies("scan.h5", hdf5_bytes), "mat73": _lies("scan.mat", mat73_bytes)}
"""By format."""
