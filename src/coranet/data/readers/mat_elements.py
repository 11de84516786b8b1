"""The elements of a MATLAB file of version 5 to 7, walked through before SciPy makes arrays of them.

SciPy believes every size that it reads. So what is packed is unpacked here piece by piece and counted, and a cell array
must have the bytes of its cells.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

from coranet.data.problem import FileError
from coranet.data.readers.unpacking import inflate
from coranet.data.readers.volume import COPY_AGAIN

_PACKED, _MATRIX = 15, 14
_CELL, _NUMBERS = 1, range(6, 16)
"""Classes of arrays."""
_CLASS = 16
"""Where an array states its class."""
_HEADER = 128
_DEEPEST = 8


class _Element(NamedTuple):
    kind: int
    content: memoryview
    end: int
    """Where the next one begins."""


class Elements:
    """Bytes of elements, in the byte order of their file."""

    def __init__(self, path: Path, content: memoryview, order: str) -> None:
        self.path, self.content, self.order = path, content, order

    def check_matrix(self, at: int = 0, level: int = 0) -> int:
        """Walk through an array as SciPy does; returns where it ends.

        Raises:
            FileError: a size is below 0, a cell array has more cells than bytes, or cells of something else than numbers.
        """
        kind, size = self._tag(at)
        at += 8
        if kind != _MATRIX or level > _DEEPEST:
            raise FileError(self.path, f"has cells of elements of type {kind}, {level} deep", COPY_AGAIN)
        if size == 0:
            return at
        flags, axes = self._element(at), self._element(self._element(at).end)
        (word,) = struct.unpack_from(f"{self.order}I", flags.content)
        sizes = struct.unpack_from(f"{self.order}{len(axes.content) // 4}i", axes.content)
        if min(sizes, default=0) < 0:
            raise FileError(self.path, f"has an array of the sizes {sizes}, which no array has", COPY_AGAIN)
        at = self._element(axes.end).end  # past the name
        if word & 0xFF == _CELL:
            cells = math.prod(sizes)
            if 8 * cells > len(self.content) - at:
                raise FileError(self.path, f"says that it has {sizes} cells, which its bytes cannot hold", COPY_AGAIN)
            for _ in range(cells):
                at = self.check_matrix(at, level + 1)
            return at
        if word & 0xFF not in _NUMBERS:
            raise FileError(self.path, f"has cells of class {word & 0xFF}, not of numbers", COPY_AGAIN)
        at = self._element(at).end
        return self._element(at).end if word & 0x0800 else at  # the imaginary part

    def _tag(self, at: int) -> tuple[int, int]:
        kind, size = struct.unpack_from(f"{self.order}II", self.content, at)
        return kind, size

    def _element(self, at: int) -> _Element:
        """One that is short has its bytes inside its tag."""
        kind, size = self._tag(at)
        if kind >> 16:
            return _Element(kind & 0xFFFF, self.content[at + 4 : at + 4 + (kind >> 16)], at + 8)
        end = at + 8 + size
        if end > len(self.content):
            raise FileError(self.path, f"has an element of {size} bytes, which are not there", COPY_AGAIN)
        return _Element(kind, self.content[at + 8 : end], end + -size % 8)


def check_elements(path: Path, file: BinaryIO, size: int) -> None:
    """Refuse a file, from its start, that unpacks to more than there is room for, or whose cell arrays lie.

    Raises:
        FileError: that.
        struct.error, zlib.error: it is damaged.
    """
    start = file.read(_HEADER)
    order = "<" if start[126:128] == b"IM" else ">"
    while len(tag := file.read(8)) == 8:
        kind, length = struct.unpack(f"{order}II", tag)
        after = file.tell() + length
        pieces = inflate(path, file, length) if kind == _PACKED else iter([tag + file.read(min(length, size))])
        content = bytearray(next(pieces, b""))
        is_cell = len(content) > _CLASS and content[_CLASS if order == "<" else _CLASS + 3] == _CELL
        for piece in pieces:
            if is_cell:
                content += piece
        if is_cell:
            Elements(path, memoryview(content), order).check_matrix()
        file.seek(after)
