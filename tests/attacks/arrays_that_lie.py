"""NumPy's and MATLAB's files whose headers lie."""

from __future__ import annotations

import struct
import zlib
from functools import partial
from typing import Any

import numpy as np

from tests.attacks.bombs import zeros_zlib
from tests.attacks.honest_scans import grey, mat_bytes, npy_bytes
from tests.attacks.scans import Lie, lying_file


def _npy_with(header: str, body: bytes = b"", version: tuple[int, int] = (1, 0), size: int | None = None) -> bytes:
    text = header.encode("latin1") + b"\n"
    form = "<H" if version[0] == 1 else "<I"
    length = len(text) if size is None else size
    return b"\x93NUMPY" + bytes(version) + struct.pack(form, length) + text + (body or grey().tobytes())


def _npy_lies() -> list[Lie]:
    shapes = [
        "(1200, 1200, 1200)",
        "(32767, 32767, 32767)",
        "(10**30,)",
        f"({9 * 10**30}, 2)",
        "(-14, 12, 10)",
        "(14, 12, 10, -1)",
    ]
    shapes += [
        "(14.0, 12, 10)",
        "14",
        "None",
        "()",
        "(0, 12, 10)",
        "('a', 'b')",
        "((14, 12), 10)",
        "[14, 12, 10]",
        "(15, 12, 10)",
    ]
    shapes += [
        "(True, 12, 140)",
        "(" * 300 + "1" + ")" * 300,
        "(14, 12, 10" + ", 1" * 90 + ")",
        "(2**63, 2)",
        "(1,) * 9",
    ]
    fine = ("()", "(True, 12, 140)")
    made = [
        _npy_lie(
            f"shape {shape[:40]}", f"{{'descr': '<i2', 'fortran_order': False, 'shape': {shape}, }}", shape not in fine
        )
        for shape in shapes
    ]
    kinds = [
        "'|O'",
        "'<i9'",
        "'|V8'",
        "'<U10'",
        "'<M8[s]'",
        "'<c16'",
        "'|b1'",
        "[('a', '<i2')]",
        "'i2,i2'",
        "''",
        "5",
        "'<f2'",
    ]
    kinds += ["'>i2'", "'(3,)<i2'", "('<i2', (1000000,))", "'<i2' * 999", "'\\x00'", "'<f16'"]
    made += [
        _npy_lie(
            f"descr {kind}", f"{{'descr': {kind}, 'fortran_order': False, 'shape': (14, 12, 10), }}", kind == "'|O'"
        )
        for kind in kinds
    ]
    whole = "{'descr': '<i2', 'fortran_order': False, 'shape': (14, 12, 10), }"
    texts = [
        "",
        "{",
        "None",
        "__import__('os').system('touch ran')",
        "{'descr': '<i2'}",
        whole[:-4],
        whole + "}",
        "[" * 5000,
    ]
    texts += [
        whole.replace("False", "'no'"),
        whole.replace("'shape'", "'shape\\n'"),
        " " * 60000 + whole,
        whole + " + 1",
        "1" * 5000,
    ]
    made += [_npy_lie(f"header {text.strip()[:40]!r}", text, False) for text in texts]
    made += [
        lying_file(f"version {version}", "scan.npy", lambda version=version: _npy_with(whole, version=version))
        for version in ((0, 0), (2, 0), (3, 0), (9, 9))
    ]
    made += [
        lying_file(f"a header of {size}", "scan.npy", lambda size=size: _npy_with(whole, version=(2, 0), size=size))
        for size in (0, 1, 2**31, 2**32 - 1)
    ]
    return [*made, lying_file("objects", "scan.npy", lambda: npy_bytes(np.array([print], object)), must_refuse=True)]


def _npy_lie(what: str, header: str, refuse: bool) -> Lie:
    return lying_file(what, "scan.npy", lambda: _npy_with(header), must_refuse=refuse)


def _mat_lies() -> list[Lie]:
    from scipy import sparse

    voxels = grey()
    contents: dict[str, tuple[dict[str, Any], bool]] = {
        "a sparse matrix": ({"scan": sparse.csc_matrix(np.eye(30))}, False),
        "a sparse matrix that is huge when full": ({"scan": sparse.csc_matrix((10**6, 10**6))}, True),
        "a struct": ({"scan": {"a": voxels, "b": "text"}}, True),
        "a cell": ({"scan": np.array([voxels, "x"], object)}, True),
        "text": ({"scan": "no voxels"}, True),
        "complex numbers": ({"scan": voxels * 1j}, True),
        "nothing": ({}, True),
        "an empty array": ({"scan": voxels[:0]}, True),
        "two scans": ({"a": voxels, "b": voxels}, True),
        "five axes": ({"scan": voxels[..., None, None] * np.ones((1, 1, 1, 2, 2))}, True),
        "one number": ({"scan": 5.0}, False),
        "booleans": ({"scan": voxels > 1000}, False),
        "NaN": ({"scan": np.full((8, 8, 8), np.nan)}, False),
    }
    made = [
        lying_file(what, "scan.mat", partial(mat_bytes, content), must_refuse=r)
        for what, (content, r) in contents.items()
    ]
    made += [
        lying_file(f"dimensions {size}", "scan.mat", partial(_mat_with, size), must_refuse=True)
        for size in ((1200, 1200, 1200), (2**31 - 1,) * 3, (-14, 12, 10), (0, 12, 10), (15, 12, 10))
    ]
    made += [
        lying_file(f"packed zeros of {size} MB", "scan.mat", partial(_mat_bomb, size), must_refuse=True)
        for size in (1024, 2560, 4096)
    ]
    made += [lying_file("packed in packed", "scan.mat", _mat_nested)]
    made += [
        lying_file(
            "of version 4, too large",
            "scan.mat",
            lambda: struct.pack("<5i", 0, 60000, 60000, 0, 2) + b"x\0",
            must_refuse=True,
        )
    ]
    return made


def _mat_with(size: tuple[int, ...]) -> bytes:
    """Other dimensions than those of the voxels that follow."""
    content = mat_bytes({"scan": grey()})
    honest = struct.pack("<3i", *grey().shape)
    assert honest in content
    return content.replace(honest, struct.pack("<3i", *size), 1)


def _mat_element(kind: int, content: bytes) -> bytes:
    return struct.pack("<2I", kind, len(content)) + content + b"\0" * (-len(content) % 8)


def _mat_bomb(megabytes: int) -> bytes:
    """Honest by all its sizes, and far smaller than what it unpacks to."""
    voxels = megabytes << 20
    flags = _mat_element(6, struct.pack("<2I", 9, 0))
    sizes = _mat_element(5, struct.pack("<3i", 1024, 1024, megabytes))
    name = _mat_element(1, b"scan")
    inner = flags + sizes + name + struct.pack("<2I", 2, voxels & 0xFFFFFFFF)
    start = struct.pack("<2I", 14, (len(inner) + voxels) & 0xFFFFFFFF) + inner
    packed = zeros_zlib(megabytes, start)
    return mat_bytes({})[:128] + struct.pack("<2I", 15, len(packed)) + packed


def _mat_nested() -> bytes:
    inner = mat_bytes({"scan": grey()}, compressed=True)[128:]
    for _ in range(50):
        packed = zlib.compress(inner)
        inner = struct.pack("<2I", 15, len(packed)) + packed
    return mat_bytes({})[:128] + inner


ARRAY_LIES = {"npy": _npy_lies(), "mat": _mat_lies()}
"""By format."""
