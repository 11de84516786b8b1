"""Very many zeros in little space, made in no time."""

from __future__ import annotations

import gzip
import struct
import zlib
from functools import cache

BLOCK = 16
"""Megabytes that are packed once, and repeated."""


@cache
def zeros_gz(megabytes: int, before: bytes = b"") -> bytes:
    """Gzip of some bytes and then very many zeros, in little space and no time: a member for each block."""
    member = gzip.compress(bytes(BLOCK << 20), mtime=0)
    return gzip.compress(before, mtime=0) + member * (megabytes // BLOCK)


@cache
def zeros_zlib(megabytes: int, before: bytes) -> bytes:
    """The same as one zlib stream: a block that stands alone, again and again, and the sum that is right for it."""
    packer = zlib.compressobj(9)
    start = packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(BLOCK << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    times = megabytes // BLOCK
    low, high = (total := zlib.adler32(before)) & 0xFFFF, total >> 16
    total = low | ((high + times * (BLOCK << 20) * low) % 65521) << 16
    return start + block * times + b"\x03\x00" + struct.pack(">I", total)
