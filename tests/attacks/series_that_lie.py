"""DICOM series whose headers lie about sizes, places, pixels and how they are packed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ImplicitVRLittleEndian,
    JPEGBaseline8Bit,
    RLELossless,
)

from tests.attacks.bombs import zeros_zlib
from tests.attacks.honest_scans import dicom_bytes
from tests.attacks.scans import Lie


def _series(what: str, changes: Callable[[int], dict[str, Any]], *, refuse: bool = False) -> Lie:
    """Five slices, each with what is changed of it."""

    def make(room: Path) -> Path:
        (room / "series").mkdir()
        for place in range(5):
            (room / f"series/{place:03d}.dcm").write_bytes(dicom_bytes(place, **changes(place)))
        return room / "series"

    return Lie(what=what, make=make, must_refuse=refuse)


def _same(what: str, *, refuse: bool = False, **changes: Any) -> Lie:
    return _series(what, lambda place: changes, refuse=refuse)


def _dicom_lies() -> list[Lie]:
    made = [_same(f"Rows {rows}", Rows=rows, refuse=True) for rows in (0, 1, 13, 65535)]
    made += [_same(f"Columns {columns}", Columns=columns, refuse=True) for columns in (0, 15, 65535)]
    made += [_same(f"{frames} frames", NumberOfFrames=frames, refuse=frames > 1) for frames in (-1, 0, 2, 10**6, 10**9)]
    made += [_same(f"{bits} bits", BitsAllocated=bits) for bits in (0, 1, 8, 12, 32, 64, 65535)]
    made += [_same(f"{bits} bits stored", BitsStored=bits, HighBit=bits - 1) for bits in (1, 8, 17, 64)]
    made += [_same(f"{count} samples a pixel", SamplesPerPixel=count, refuse=True) for count in (0, 3, 65535)]
    made += [_same("no pixels", PixelData=None, refuse=True), _same("too few pixels", PixelData=b"\0\0", refuse=True)]
    made += [_same("far more pixels", PixelData=bytes(1 << 20), refuse=True)]
    made += [_same(f"spacing {gap}", PixelSpacing=[gap, gap]) for gap in (0.0, -1.0, 1e-30, 1e30, 1e-6)]
    made += [_same("spacing of three", PixelSpacing=[1.0, 1.0, 1.0]), _same("no spacing", PixelSpacing=None)]
    turned = [(0,) * 6, (1, 0, 0, 1, 0, 0), (9, 0, 0, 0, 9, 0), (1, 0, 0), (1e30, 0, 0, 0, 1e30, 0)]
    made += [
        _same(f"orientation {turn}", ImageOrientationPatient=[float(n) for n in turn], refuse=True) for turn in turned
    ]
    made += [_same("all at one place", ImagePositionPatient=[0.0, 0.0, 0.0], refuse=True)]
    made += [_series("places far apart", lambda place: {"ImagePositionPatient": [0.0, 0.0, 10.0**place]}, refuse=True)]
    made += [
        _series(
            "one slice at 1e12 mm",
            lambda place: {"ImagePositionPatient": [0.0, 0.0, 1e12 if place == 4 else 4.0 * place]},
            refuse=True,
        )
    ]
    made += [_series("no order", lambda place: {"ImagePositionPatient": [0.0, 0.0, -4.0 * place], "InstanceNumber": 1})]
    made += [_same("no places", ImagePositionPatient=None, refuse=True)]
    made += [_same(f"slope {slope}", RescaleSlope=slope) for slope in (0, 1e30, -1, 1e-30, "1e400")]
    made += [_same(f"intercept {value}", RescaleIntercept=value) for value in (1e30, -1e30, 0.5)]
    made += [_series("two patients", lambda place: {"PatientID": f"P{place % 2}"}, refuse=True)]
    made += [_series("two series", lambda place: {"SeriesInstanceUID": f"1.2.{place % 2}"}, refuse=True)]
    escape = {"PatientID": "\x1b[2J", "SeriesDescription": "\x1b]0;x\x07\n\nline"}
    made += [
        _series(
            "names that move the cursor", lambda place: {**escape, "SeriesInstanceUID": f"1.2.{place}"}, refuse=True
        )
    ]
    made += [_same("a number that is none", SeriesNumber="12\\13"), _same("colours", PhotometricInterpretation="RGB")]
    made += [_claimed(str(uid)) for uid in SYNTAXES]
    made += [_nested(levels) for levels in (50, 900, 5000)]
    made += [_bomb(), _circle()]
    return made


SYNTAXES = (
    JPEGBaseline8Bit, RLELossless, DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ImplicitVRLittleEndian, "1.2.3", "x"
)  # fmt: skip
"""How pixels are said to be packed; they are not."""


def _claimed(uid: str) -> Lie:
    """Another transfer syntax in the header of the file than it was written in."""
    honest = b"1.2.840.10008.1.2.1\0"
    claim = uid.encode()[: len(honest)].ljust(len(honest), b"\0")
    return _rewritten(f"packed by {uid}", lambda content: content.replace(honest, claim, 1))


def _rewritten(what: str, change: Callable[[bytes], bytes]) -> Lie:
    """Five slices whose bytes are changed after they were written."""

    def make(room: Path) -> Path:
        (room / "series").mkdir()
        for place in range(5):
            (room / f"series/{place:03d}.dcm").write_bytes(change(dicom_bytes(place)))
        return room / "series"

    return Lie(what=what, make=make)


def _nested(levels: int) -> Lie:
    """Sequences in sequences."""
    start = struct.pack("<2H2sHI", 0x0040, 0xA730, b"SQ", 0, 0xFFFFFFFF) + struct.pack(
        "<2HI", 0xFFFE, 0xE000, 0xFFFFFFFF
    )
    end = struct.pack("<2HI", 0xFFFE, 0xE00D, 0) + struct.pack("<2HI", 0xFFFE, 0xE0DD, 0)
    pixels = struct.pack("<2H", 0x7FE0, 0x0010)
    return _rewritten(
        f"{levels} sequences in each other",
        lambda content: content.replace(pixels, start * levels + end * levels + pixels, 1),
    )


def _bomb() -> Lie:
    """A file that is deflated as a whole, of 4 GB."""

    def make(room: Path) -> Path:
        (room / "series").mkdir()
        content = dicom_bytes(0)
        at = content.index(b"1.2.840.10008.1.2.1\0")
        head = (
            content[: at - 2]
            + struct.pack("<H", 22)
            + str(DeflatedExplicitVRLittleEndian).encode()
            + content[at + 20 :]
        )
        size = struct.unpack_from("<I", head, 140)[0] + 2
        head = head[:140] + struct.pack("<I", size) + head[144:]
        start = struct.pack("<2H2sHI", 0x0009, 0x1010, b"OB", 0, 0xFFFFFFF0)
        (room / "series/000.dcm").write_bytes(head[: 144 + size] + zeros_zlib(4096, start)[2:-4])
        return room / "series"

    return Lie(what="deflated zeros of 4 GB", make=make, must_refuse=True)


def _circle() -> Lie:
    """Folders that link to each other."""

    def make(room: Path) -> Path:
        (room / "series/inner").mkdir(parents=True)
        (room / "series/inner/up").symlink_to(room / "series")
        (room / "series/self").symlink_to("self")
        for place in range(5):
            (room / f"series/{place:03d}.dcm").write_bytes(dicom_bytes(place))
        return room / "series"

    return Lie(what="links in a circle", make=make)


SERIES_LIES = {"dicom": _dicom_lies()}
"""By format."""
