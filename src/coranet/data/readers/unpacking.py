"""Bytes out of what is packed, piece by piece: no more of them than announced, or than there is room for."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from coranet.data.budget import claim
from coranet.data.problem import FileError
from coranet.data.readers.volume import COPY_AGAIN

_PIECE = 2**20
_MORE = 16 * 2**20
"""Bytes that may follow the voxels."""


def gather(path: Path, stream: BinaryIO | gzip.GzipFile, size: int) -> BytesIO:
    """The next `size` bytes; of what is packed, all else is unpacked and dropped, since its checksum comes last.

    Raises:
        FileError: there are fewer, or far more.
        OSError, EOFError, zlib.error: what is packed is damaged.
    """
    content = BytesIO()
    while (left := size - content.tell()) > 0 and (piece := stream.read(min(left, _PIECE))):
        content.write(piece)
    if content.tell() < size:
        message = f"is damaged or cut short ({content.tell()} bytes of {size} that its header announces)"
        raise FileError(path, message, COPY_AGAIN)
    if isinstance(stream, gzip.GzipFile):
        more = 0
        while piece := stream.read(_PIECE):
            more += len(piece)
            if more > _MORE:
                raise FileError(path, f"unpacks to far more than the {size} bytes that it announces", COPY_AGAIN)
    content.seek(0)
    return content


def inflate(path: Path, stream: BinaryIO, length: int, bits: int = zlib.MAX_WBITS) -> Iterator[bytes]:
    """What the next `length` bytes of a file's stream unpack to, as long as there is room for all of it.

    Raises:
        FileError: there is not.
        zlib.error: they are damaged.
    """
    inflater, total, taken = zlib.decompressobj(bits), 0, 0
    while taken < length and not inflater.eof and (packed := stream.read(min(length - taken, _PIECE // 16))):
        taken += len(packed)
        while packed and not inflater.eof:
            piece = inflater.decompress(packed, _PIECE)
            total += len(piece)
            claim(path, total, taken)
            yield piece
            packed = inflater.unconsumed_tail
