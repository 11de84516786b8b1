"""Whether a PNG has all of its rows: Pillow would make those that are missing black, without a word."""

from __future__ import annotations

import math
import struct
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from coranet.data.problem import FileError
from coranet.data.readers.unpacking import inflate
from coranet.data.readers.volume import COPY_AGAIN, opened

_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Values of a pixel, by the kind of colour."""
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Of an interlaced picture: the first column and row, and how far apart they are."""


def check_png(path: Path) -> None:
    """Refuse a file that Pillow could open, and whose pixels end before its last row.

    Raises:
        FileError: they do.
        struct.error, zlib.error: it is damaged.
    """
    with opened(path) as file:
        start = file.read(33)
        width, height, depth, colour, _, _, interlaced = struct.unpack_from(">2I5B", start, 16)
        bits = depth * _SAMPLES.get(colour, 1)
        passes = _PASSES if interlaced else ((0, 0, 1, 1),)
        needed = sum(
            _bytes_of(math.ceil((width - left) / across), math.ceil((height - top) / down), bits)
            for left, top, across, down in passes
        )
        packed, there = _pixels(file), 0
    for piece in inflate(path, BytesIO(packed), len(packed)):
        there += len(piece)
        if there >= needed:
            return
    raise FileError(path, f"is damaged or cut short ({there} bytes of {needed} that its size asks for)", COPY_AGAIN)


def _bytes_of(columns: int, rows: int, bits: int) -> int:
    """Of so many pixels, unpacked: each row has one more byte, which says how it is filtered."""
    return rows * (1 + math.ceil(columns * bits / 8)) if columns > 0 and rows > 0 else 0


def _pixels(file: BinaryIO) -> bytes:
    """The content of the chunks that hold pixels, which lie one after the other."""
    content = bytearray()
    while len(head := file.read(8)) == 8:
        length, kind = struct.unpack(">I4s", head)
        if kind == b"IDAT":
            content += file.read(length)
        elif content:
            break
        else:
            file.seek(length, 1)
        file.seek(4, 1)  # its checksum
    return bytes(content)
