"""Pictures that lie about their size, their pixels and how they are packed."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image

from tests.attacks.bombs import zeros_zlib
from tests.attacks.scans import Lie, lying_file

Chunk = tuple[bytes, bytes]


def _png_of(*chunks: Chunk) -> bytes:
    def whole(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    return b"\x89PNG\r\n\x1a\n" + b"".join(whole(*chunk) for chunk in chunks)


def _size(width: int, height: int, depth: int = 8, colour: int = 0, packing: int = 0, interlace: int = 0) -> Chunk:
    return b"IHDR", struct.pack(">2I5B", width & 0xFFFFFFFF, height & 0xFFFFFFFF, depth, colour, packing, 0, interlace)


SMALL = _size(16, 16)
END: Chunk = (b"IEND", b"")
PIXELS: Chunk = (b"IDAT", zlib.compress(bytes(17 * 16)))


def _png_lies() -> list[Lie]:
    sizes = [
        (50_000, 50_000),
        (2**31 - 1, 2**31 - 1),
        (-1, -1),
        (0, 16),
        (16, 0),
        (16, 17),
        (1_000_000, 1),
        (16, 30_000),
    ]
    files: dict[str, tuple[Callable[[], Sequence[Chunk]], bool]] = {
        f"size {size}": (lambda size=size: (_size(*size), PIXELS, END), True) for size in sizes
    }
    forms = [(3, 0), (16, 2), (8, 1), (8, 3), (1, 0), (0, 0), (255, 255), (8, 7), (4, 4)]
    files |= {
        f"depth and colour {form}": (lambda form=form: (_size(16, 16, *form), PIXELS, END), False) for form in forms
    }
    bomb = lambda before: zeros_zlib(1024, before)  # noqa: E731
    files |= {
        "packed otherwise": (lambda: (_size(16, 16, packing=9), PIXELS, END), False),
        "interlaced by 7": (lambda: (_size(16, 16, interlace=7), PIXELS, END), False),
        "interlaced": (lambda: (_size(16, 16, interlace=1), PIXELS, END), False),
        "no pixels": (lambda: (SMALL, END), True),
        "no end": (lambda: (SMALL, PIXELS), False),
        "no size": (lambda: (PIXELS, END), True),
        "two sizes": (lambda: (SMALL, _size(64, 64), PIXELS, END), False),
        "pixels of 1 GB for a small size": (lambda: (SMALL, (b"IDAT", bomb(b"\0")), END), False),
        "40,000 x 40,000 that are there": (lambda: (_size(40_000, 40_000), (b"IDAT", bomb(b"\0" * 50_000)), END), True),
        "text of 1 GB": (lambda: (SMALL, (b"zTXt", b"k\0\0" + bomb(b"x")), PIXELS, END), False),
        "a profile of 1 GB": (lambda: (SMALL, (b"iCCP", b"k\0\0" + bomb(b"x")), PIXELS, END), False),
        "a billion frames": (lambda: (SMALL, (b"acTL", struct.pack(">2I", 10**9, 0)), PIXELS, END), False),
        "frames out of control": (lambda: (SMALL, (b"acTL", struct.pack(">2I", 3, 0)), (b"fdAT", b"\0"), END), False),
        "a palette of nothing": (lambda: (_size(16, 16, 8, 3), (b"PLTE", b""), PIXELS, END), False),
        "100,000 chunks": (lambda: (SMALL, *[(b"teXt", b"a\0b")] * 100_000, PIXELS, END), False),
    }
    return [
        lying_file(what, "scan.png", lambda chunks=chunks: _png_of(*chunks()), must_refuse=bad)
        for what, (chunks, bad) in files.items()
    ]


def _jpeg_lies() -> list[Lie]:
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((48, 40), np.uint8)).save(buffer, format="JPEG")
    honest = buffer.getvalue()
    place = honest.index(b"\xff\xc0") + 5

    def sized(height: int, width: int) -> bytes:
        return honest[:place] + struct.pack(">2H", height, width) + honest[place + 4 :]

    files = {
        f"size {size}": sized(*size)
        for size in ((65535, 65535), (65500, 65500), (0, 40), (48, 0), (4000, 4000), (49, 41))
    }
    files |= {
        "precision 12": honest[: place - 1] + b"\x0c" + honest[place:],
        "no scan": honest[: honest.index(b"\xff\xda")],
        "only its mark": honest[:3],
        "a segment that never ends": honest[:2] + b"\xff\xe1\xff\xff" + honest[2:],
        "a segment of nothing": honest[:2] + b"\xff\xe1\x00\x00" + honest[2:],
        "100,000 comments": honest[:2] + b"\xff\xfe\x00\x04hi" * 100_000 + honest[2:],
        "marks alone": honest[:2] + b"\xff" * 100_000,
        "pictures in a picture": honest + honest,
        "EXIF that points nowhere": honest[:2]
        + b"\xff\xe1\x00\x22Exif\0\0II*\0\xff\xff\xff\xff"
        + bytes(16)
        + honest[2:],
    }
    return [lying_file(what, "scan.jpg", lambda content=content: content) for what, content in files.items()]


def _tiff_of(*tags: tuple[int, int, int, int], following: int = 0, pixels: bytes = bytes(256)) -> bytes:
    """One page from its tags `(number, type, count, value)`."""
    entries = b"".join(struct.pack("<2H2I", tag, kind, count, value & 0xFFFFFFFF) for tag, kind, count, value in tags)
    return (
        b"II*\0"
        + struct.pack("<I", 8 + len(pixels))
        + pixels
        + struct.pack("<H", len(tags))
        + entries
        + struct.pack("<I", following)
    )


PAGE = {256: 16, 257: 16, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 16, 279: 256}
"""The tags of an honest page of 16 x 16."""


def _page(
    following: int = 0, kinds: dict[int, int] | None = None, counts: dict[int, int] | None = None, **changes: int
) -> bytes:
    tags = {**PAGE, **{int(name[1:]): value for name, value in changes.items()}}
    rows = [(tag, (kinds or {}).get(tag, 4), (counts or {}).get(tag, 1), value) for tag, value in sorted(tags.items())]
    return _tiff_of(*rows, following=following)


def _tiff_lies() -> list[Lie]:
    files: dict[str, tuple[bytes, bool]] = {}
    for tag in PAGE:
        for value in (0, -1, 2, 7, 65535, 2**31 - 1, 50_000):
            bad = (tag in (256, 257) and value in (0, -1, 65535, 2**31 - 1, 50_000)) or (
                tag == 273 and value in (-1, 2**31 - 1)
            )
            files[f"tag {tag} is {value}"] = _page(**{f"t{tag}": value}), bad
        for kind in (0, 1, 2, 3, 5, 7, 12, 13, 99):
            files[f"tag {tag} of type {kind}"] = _page(kinds={tag: kind}), False
        for count in (0, 2, 1000, 2**31):
            files[f"tag {tag} {count} times"] = _page(counts={tag: count}), False
    files |= {f"packed by {value}": (_page(t259=value), False) for value in (3, 4, 5, 6, 8, 32773, 34712, 50000)}
    files |= {f"pages in a circle at {place}": (_page(following=place), False) for place in (8, 264, 2**31)}
    files |= {
        "no page": (b"II*\0" + bytes(4), True),
        "a page that is nowhere": (b"II*\0\xff\xff\xff\x7f", True),
        "no tag": (_tiff_of(), True),
        "big TIFF": (b"II+\0\x08\0\0\0" + struct.pack("<Q", 2**62), True),
        "20,000 pages": (_pages(20_000), False),
        "signed and float at once": (_page(t339=3, t258=16), False),
        "floats of 8 bits": (_page(t339=3), False),
        "a planar configuration of 9": (_page(t284=9), False),
    }
    return [
        lying_file(what, "scan.tiff", lambda content=content: content, must_refuse=bad)
        for what, (content, bad) in files.items()
    ]


def _pages(count: int) -> bytes:
    """So many pages of the same pixels."""
    first = _page()
    content, at, length = bytearray(first[:-4]), 264, len(first) - 264
    for number in range(1, count):
        content += struct.pack("<I", at + number * length) + first[264:-4]
    return bytes(content) + bytes(4)


PICTURE_LIES = {"png": _png_lies(), "jpeg": _jpeg_lies(), "tiff": _tiff_lies()}
"""By format."""
