"""Damage to bytes that knows nothing of what they mean."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

Damage = Callable[[bytes, Random], bytes]

NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    127,
    128,
    255,
    256,
    2**15 - 1,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    -(2**31),
)
"""Where programs count wrongly."""


def _place(content: bytes, rng: Random) -> int:
    """Anywhere, but half of the time where headers are."""
    return rng.randrange(min(len(content), 400) if rng.random() < 0.5 else len(content))


def flip_bit(content: bytes, rng: Random) -> bytes:
    """One bit."""
    place = _place(content, rng)
    return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]


def change_bytes(content: bytes, rng: Random) -> bytes:
    """A few bytes, each to any other."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16, 64))):
        changed[_place(content, rng)] = rng.randrange(256)
    return bytes(changed)


def write_number(content: bytes, rng: Random) -> bytes:
    """A number at an end of what a field can say."""
    place, size = _place(content, rng), rng.choice((1, 2, 4, 8))
    number = rng.choice(NUMBERS) & ((1 << 8 * size) - 1)
    return content[:place] + number.to_bytes(size, rng.choice(("little", "big"))) + content[place + size :]


def write_float(content: bytes, rng: Random) -> bytes:
    """NaN, infinity or a number far too large or too small."""
    place, form = _place(content, rng), rng.choice(("<f", "<d"))
    value = rng.choice((float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 1e-30, 0.0, -1.0))
    return content[:place] + struct.pack(form, value) + content[place + struct.calcsize(form) :]


def other_digits(content: bytes, rng: Random) -> bytes:
    """Another number in text."""
    digits = [place for place, byte in enumerate(content[:2000]) if chr(byte).isdecimal()]
    if not digits:
        return change_bytes(content, rng)
    place = rng.choice(digits)
    return (
        content[:place]
        + rng.choice((b"9", b"0", b"-", b"99999", b"1e9", b" ", b"99999999999999999999"))
        + content[place + 1 :]
    )


def cut(content: bytes, rng: Random) -> bytes:
    """The beginning alone."""
    return content[: rng.choice((rng.randrange(len(content)), rng.randrange(min(len(content), 400)), len(content) - 1))]


def take_out(content: bytes, rng: Random) -> bytes:
    """A stretch is missing."""
    place = _place(content, rng)
    return content[:place] + content[place + rng.choice((1, 2, 16, 300)) :]


def put_in(content: bytes, rng: Random) -> bytes:
    """A stretch too many."""
    place = _place(content, rng)
    return content[:place] + rng.choice((rng.randbytes(rng.choice((1, 4, 64, 1000))), content[:200])) + content[place:]


def wipe(content: bytes, rng: Random) -> bytes:
    """A stretch of one value, as a bad disk has it."""
    place, size = _place(content, rng), rng.choice((4, 16, 128, 512))
    return (
        content[:place]
        + rng.choice((b"\0", b"\xff"))[:1] * len(content[place : place + size])
        + content[place + size :]
    )


def add_behind(content: bytes, rng: Random) -> bytes:
    """More than there should be."""
    return content + rng.choice((b"\0", b"\n", rng.randbytes(50), content))


def swap(content: bytes, rng: Random) -> bytes:
    """Two halves, the other way round."""
    place = rng.randrange(1, len(content))
    return content[place:] + content[:place]


DAMAGES: tuple[Damage, ...] = (
    flip_bit, flip_bit, change_bytes, change_bytes, write_number, write_number, write_number, write_float, other_digits,
    cut, cut, take_out, put_in, wipe, add_behind, swap,
)  # fmt: skip
"""As often as they are drawn."""


def damaged(content: bytes, rng: Random) -> tuple[str, bytes]:
    """What was done, and what came of it; now and then twice."""
    damage = rng.choice(DAMAGES)
    result, what = damage(content, rng), damage.__name__
    if result and damage is not cut and rng.random() < 0.2:
        second = rng.choice(DAMAGES)
        result, what = second(result, rng), f"{what}, {second.__name__}"
    return what, result
