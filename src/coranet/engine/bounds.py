"""Which numbers a run may have: far more than anyone uses, and far less than what fills memory or never ends.

They are checked before anything is made of them, as run.json may come from anyone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from coranet.errors import InputError

BOUNDS: dict[str, tuple[int, int]] = {
    "data.channels": (1, 1000),
    "data.window.size": (1, 2**14),
    "data.window.stride": (1, 2**14),
    "net.width": (1, 4096),
    "net.levels": (1, 12),
    "method": (-10_000, 10_000),
    "train": (0, 10**12),
    "train.batch": (1, 10**5),
}
"""Of whole numbers, by what they are or belong to; the closest name counts."""
WINDOW = 2**27
"""Points of a window: 512 x 512 x 512."""
CLASSES = (2, 256)
"""Background is one. Labels are bytes."""


def check_bounds(content: Mapping[str, Any]) -> None:
    """Refuse a run that is encoded and has numbers beyond all use.

    Raises:
        InputError: it does; the first such number is named.
    """
    for name, number in _whole_numbers(content):
        low, high = BOUNDS[max((known for known in BOUNDS if f"{name}.".startswith(f"{known}.")), key=len)]
        if not low <= number <= high:
            raise InputError(
                f"{name} is between {low} and {high}, not {number}. Change it (--set), or restore run.json."
            )
    size, classes = content["data"]["window"]["size"], content["data"]["classes"]
    if prod(size) > WINDOW:
        raise InputError(f"data.window.size has at most {WINDOW} points, not {' x '.join(map(str, size))}.")
    if not CLASSES[0] <= len(classes) <= CLASSES[1]:
        raise InputError(
            f"data.classes has {len(classes)} classes, and a run has {CLASSES[0]} to {CLASSES[1]} with background. "
            "Restore run.json, or train anew."
        )
    if set(classes) != {str(value) for value in range(len(classes))}:
        raise InputError("data.classes are named by their values, 0, 1, 2 ... without a gap. Restore run.json.")


def _whole_numbers(content: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Those that a bound is known for."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _whole_numbers(value, f"{name}.{key}" if name else str(key))
    elif isinstance(content, list):
        for value in content:
            yield from _whole_numbers(value, name)
    elif isinstance(content, int) and any(f"{name}.".startswith(f"{known}.") for known in BOUNDS):
        yield name, content
