"""NIfTI and NRRD whose headers lie: sizes, types, offsets and what is said of compression."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.attacks.bombs import zeros_gz
from tests.attacks.honest_scans import grey, nifti_bytes, nrrd_header
from tests.attacks.scans import Lie, lying_file

SECRET = b"The password is swordfish, and nobody may read it. " * 80
"""What a scan must not pull in from elsewhere."""


def _nifti_with(*changes: tuple[int, str, tuple[Any, ...]]) -> bytes:
    """An honest NIfTI-1 file with some fields, by offset and form, changed."""
    content = bytearray(nifti_bytes(grey()))
    for place, form, values in changes:
        struct.pack_into(form, content, place, *values)
    return bytes(content)


def _nifti_changes() -> list[tuple[str, bool, list[tuple[int, str, tuple[Any, ...]]]]]:
    """What is said, whether it must be refused, and the fields."""
    nan, inf = float("nan"), float("inf")
    sizes = [(3, 1200, 1200, 1200), (3, 32767, 32767, 32767), (7, 32767, 32767, 32767, 32767, 32767, 32767, 32767)]
    sizes += [(3, -14, 12, 10), (3, 14, 0, 10), (0, 14, 12, 10), (8, 14, 12, 10), (-1, 14, 12, 10), (3, 15, 12, 10)]
    sizes += [(4, 14, 12, 10, 30000), (5, 14, 12, 10, 1, 32767), (1, 1680), (3, -1, -1, -1), (257, 1, 1, 1)]
    made = [(f"dim {list(size)}", True, [(40, f"<{len(size)}h", size)]) for size in sizes]
    kinds = [0, 1, 3, 32, 128, 255, 511, 1024, 1536, 1792, 2048, 2304, 9999, -4]
    made += [(f"datatype {kind}", kind in (0, 9999, -4, 128, 2304), [(70, "<h", (kind,))]) for kind in kinds]
    made += [(f"bitpix {bits}", False, [(72, "<h", (bits,))]) for bits in (0, 1, -16, 64, 32767)]
    offsets = [0.0, -1.0, 3000.0, 1e9, 1e30, nan, inf, -1e30]
    made += [(f"vox_offset {place}", place not in (0.0, -1.0), [(108, "<f", (place,))]) for place in offsets]
    slopes = [(nan, 0), (inf, 0), (0, 5), (1e38, 1e38), (1, nan), (1, inf), (-1, 0), (1e-45, 0)]
    made += [(f"slope {pair}", False, [(112, "<2f", pair)]) for pair in slopes]
    spacings = [0.0, nan, inf, -1.0, 1e-30, 1e30, 1e-6, 1e6]
    made += [
        (f"pixdim {size} without an affine", False, [(80, "<3f", (size,) * 3), (252, "<2h", (1, 0))])
        for size in spacings
    ]
    made += [(f"srow {size}", False, [(280, "<4f", (size, 0, 0, 0))]) for size in (0.0, nan, inf, 1e-30, 1e30, 1e6)]
    made += [("all axes one way", True, [(280, "<12f", (1, 1, 1, 0) * 3)])]
    made += [(f"codes {code}", False, [(252, "<2h", (code, code))]) for code in (-1, 5, 99, 32767)]
    made += [("quaternion", False, [(252, "<2h", (1, 0)), (256, "<3f", (nan, 2, -7))])]
    made += [(f"sizeof_hdr {size}", False, [(0, "<i", (size,))]) for size in (0, 540, -1, 349, 2**31 - 1)]
    made += [(f"magic {text!r}", False, [(344, "4s", (text,))]) for text in (b"ni1\0", b"n+2\0", b"\0\0\0\0", b"n+1x")]
    made += [("units", False, [(123, "B", (255,))]), ("extension", False, [(348, "<4b2i", (1, 0, 0, 0, 2**31 - 1, 6))])]
    return made


def _nifti_lies(name: str, pack: Callable[[bytes], bytes]) -> list[Lie]:
    return [
        lying_file(what, name, lambda fields=fields: pack(_nifti_with(*fields)), must_refuse=refuse)
        for what, refuse, fields in _nifti_changes()
    ]


def _nifti_gz_lies() -> list[Lie]:
    name = "scan.nii.gz"
    large = partial(_nifti_with, (40, "<4h", (3, 1200, 1200, 1200)))
    return [
        *_nifti_lies(name, partial(gzip.compress, mtime=0)),
        lying_file("honest, then 6 GB of zeros", name, lambda: zeros_gz(6144, nifti_bytes(grey())), must_refuse=True),
        lying_file("1200^3 that are there, in 3 MB", name, lambda: zeros_gz(3456, large()[:352]), must_refuse=True),
        lying_file("zeros alone", name, lambda: zeros_gz(4096), must_refuse=True),
        lying_file("gzip in gzip", name, lambda: gzip.compress(gzip.compress(nifti_bytes(grey()))), must_refuse=True),
        lying_file("not gzip", name, lambda: nifti_bytes(grey()), must_refuse=True),
        lying_file("gzip by name only", "scan.nii", lambda: gzip.compress(nifti_bytes(grey())), must_refuse=True),
        lying_file("only gzip's header", name, lambda: gzip.compress(b"")[:10], must_refuse=True),
        lying_file("nothing, packed", name, lambda: gzip.compress(b""), must_refuse=True),
    ]


def _nrrd(what: str, *, refuse: bool = False, voxels: Callable[[], bytes] | None = None, **fields: str | None) -> Lie:
    body = voxels or (lambda: grey().tobytes(order="F"))
    return lying_file(what, "scan.nrrd", lambda: nrrd_header(**fields) + body(), must_refuse=refuse)


def _nrrd_lies() -> list[Lie]:
    sizes = [
        "-14 12 10",
        "-14 -12 10",
        "99999999999999999999 16 10",
        "14 12",
        "14 12 10 1",
        "0 12 10",
        "14.5 12 10",
        "x y z",
    ]
    sizes += [
        "1200 1200 1200",
        "2147483647 2147483647 2147483647",
        "4294967296 4294967296 1",
        "15 12 10",
        "",
        "1e1 12 10",
    ]
    sizes += ["14 12 10 " * 400, "9" * 5000, "14 12 -1", "\u0661\u0664 12 10", "0x0e 12 10", "1_4 12 10"]
    fine = ("14 12 10 1", "\u0661\u0664 12 10", "1_4 12 10")  # spellings of the truth
    made = [_nrrd(f"sizes {size[:40]}", sizes=size, refuse=size not in fine) for size in sizes]
    made += [
        _nrrd(f"type {kind}", type=kind)
        for kind in ("block", "double", "uchar", "string", "", "int128", "float\x1b[2J")
    ]
    made += [
        _nrrd(f"encoding {kind}", encoding=kind, refuse=True) for kind in ("gzip", "bzip2", "ascii", "hex", "", "zip")
    ]
    made += [_nrrd(f"dimension {number}", dimension=number) for number in ("0", "17", "-3", "2", "x", "9" * 400)]
    made += [_nrrd(f"endian {order}", endian=order) for order in ("middle", "", "BIG")]
    made += [
        _nrrd(f"{name} {by}", **{name: by}) for name in ("byte skip", "line skip") for by in ("-1", "99999999", "x")
    ]
    directions = [
        "none none none",
        "(0,0,0) (0,0,0) (0,0,0)",
        "(nan,0,0) (0,1,0) (0,0,1)",
        "(1,0) (0,1) (1,1)",
        "((((",
        "",
    ]
    directions += ["(1e-30,0,0) (0,1,0) (0,0,1)", "(1e308,0,0) (0,1e308,0) (0,0,1e308)", "(1,0,0) (1,0,0) (1,0,0)"]
    made += [_nrrd(f"directions {text}", space_directions=text) for text in directions]
    made += [_nrrd(f"origin {text}", space_origin=text) for text in ("(nan,0,0)", "(1e308,1e308,1e308)", "x", "(0)")]
    made += [_nrrd(f"space {text}", space=text) for text in ("scanner-xyz", "", "left\x1b[31m", "3D-right-handed")]
    made += [_nrrd("no type", type=None, refuse=True), _nrrd("no sizes", sizes=None, refuse=True)]
    made += [_nrrd("gzip of 4 GB", encoding="gzip", voxels=lambda: zeros_gz(4096), refuse=True)]
    large = {"sizes": "1200 1200 1200", "encoding": "gzip"}
    made += [_nrrd("1200^3 that are there", voxels=lambda: zeros_gz(3456), refuse=True, **large)]
    made += [_nrrd("1200^3 in gzip of little", voxels=lambda: gzip.compress(b"x" * 99), refuse=True, **large)]
    made += [_nrrd("raw, and packed", voxels=lambda: gzip.compress(bytes(10)), refuse=True)]
    made += [lying_file("no end of its header", "scan.nrrd", lambda: nrrd_header().strip(), must_refuse=True)]
    made += [lying_file("a million fields", "scan.nrrd", lambda: b"NRRD0004\n" + b"key:=value\n" * 1_000_000)]
    made += [lying_file("no field", "scan.nrrd", lambda: b"NRRD0004\n\n", must_refuse=True)]
    for field in ("data file", "datafile", "DATA FILE", "data  file", "Datafile"):
        made += [
            _detached(field, target)
            for target in ("../secret.raw", "secret.raw", "/etc/passwd", "LIST", "s%03d.raw 1 9 1")
        ]
    return made


def _detached(field: str, target: str) -> Lie:
    """Voxels that are said to lie in another file, with some in this one too."""

    def make(room: Path) -> Path:
        (room / "secret.raw").write_bytes(SECRET)
        (room / "inner").mkdir()
        (room / "inner/secret.raw").write_bytes(SECRET)
        lines = nrrd_header().rstrip(b"\n") + f"\n{field}: {target}\n\n".encode()
        (room / "inner/scan.nrrd").write_bytes(lines + grey().tobytes(order="F"))
        return room / "inner/scan.nrrd"

    return Lie(what=f"{field}: {target}", make=make, must_refuse=True, secret=SECRET[:50])


PLAIN_LIES = {
    "nifti": _nifti_lies("scan.nii", lambda content: content),
    "nifti.gz": _nifti_gz_lies(),
    "nrrd": _nrrd_lies(),
}
"""By format."""
