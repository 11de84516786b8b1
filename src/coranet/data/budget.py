"""How much memory one scan may take, asked before it is taken: a header is believed only as far as its file can hold it.

Three limits. The first two fall where a person says how much may be used: `--max-gb`, `CORANET_MAX_GB`, or in Python
`with allowing(8): ...`.

    what can be packed      1032 bytes in one, which is all that gzip can do; from 256 MiB on
    what is packed          500 bytes in one; from 512 MiB on. An empty mask of 512 x 512 x 2000 voxels stays below
    memory                  half of what is free, for twice the voxels: what is read, and what is made of it
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Protocol, TypeVar

from coranet.data.free_memory import free_memory
from coranet.data.problem import FileError
from coranet.errors import InputError

ALWAYS = 256 * 2**20
"""Bytes of voxels that any file may have."""
LARGE = 512 * 2**20
"""Bytes of voxels from which on the usual ratio holds."""
MOST_PACKED, USUALLY_PACKED = 1032, 500
"""Bytes that one can hold by gzip, and that one holds in a large scan."""
SHARE = 0.5
"""Of free memory, that a scan may take."""
COPIES = 2
"""What reading takes at its peak, in sizes of the array that it gives."""
VARIABLE = "CORANET_MAX_GB"


@dataclass(frozen=True)
class Budget:
    """What one scan may take."""

    asked: float | None = None
    """Gigabytes that a person allows; None leaves it to the machine."""
    sharers: int = 1
    """Processes that read at the same time."""

    @property
    def gigabytes(self) -> float | None:
        """What was asked for here or in the environment.

        Raises:
            InputError: the environment asks for no number of gigabytes.
        """
        if self.asked is not None or not (text := os.environ.get(VARIABLE)):
            return self.asked
        try:
            return _checked(float(text), f"{VARIABLE}={text}")
        except ValueError as error:
            raise InputError(f"{VARIABLE}={text}: give a number of gigabytes, such as 8.") from error


_BUDGET: ContextVar[Budget] = ContextVar("budget")
_PLAIN = Budget()


def current_budget(sharers: int = 1) -> Budget:
    """The one that holds here, for so many processes that read at the same time."""
    return replace(_BUDGET.get(_PLAIN), sharers=sharers)


def adopt(budget: Budget) -> None:
    """In a new process: keep to the budget of the one that started it."""
    _BUDGET.set(budget)


@contextmanager
def allowing(gigabytes: float | None) -> Iterator[None]:
    """Let each scan that is read meanwhile take so much memory; None changes nothing.

    Raises:
        InputError: that is no number of gigabytes.
    """
    budget = _BUDGET.get(_PLAIN)
    if gigabytes is not None:
        budget = replace(budget, asked=_checked(gigabytes, f"--max-gb {gigabytes:g}"))
    token = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(token)


def claim(file: Path, size: int, packed: int | None = None) -> None:
    """Ask for the memory of a scan.

    Args:
        file: what is read.
        size: bytes of the array that it will be.
        packed: bytes that the file keeps it in, where these may be fewer.

    Raises:
        FileError: the file cannot hold that much, hardly does, or memory has no room for it.
    """
    if size <= ALWAYS:
        return
    budget = _BUDGET.get(_PLAIN)
    gigabytes, needed = budget.gigabytes, max(1, math.ceil(COPIES * size / 1e8) / 10)
    trusted = f"add --max-gb {math.ceil(needed)} if you trust it (in Python {VARIABLE}={math.ceil(needed)})"
    if gigabytes is None and packed is not None:
        if size > MOST_PACKED * packed:
            message = f"says that it holds {_in_words(size)} of voxels, which its {_in_words(packed)} cannot"
            raise FileError(file, message, f"Copy or export it again; or {trusted}")
        if size > max(LARGE, USUALLY_PACKED * packed):
            message = f"unpacks from {_in_words(packed)} to {_in_words(size)}, which scans rarely do"
            raise FileError(file, message, f"Check that it is a scan; or {trusted}")
    allowed = 1e9 * gigabytes if gigabytes is not None else SHARE * free_memory() / budget.sharers
    if COPIES * size > max(allowed, COPIES * ALWAYS):
        message = f"needs {needed:g} GB of memory to be read, and a scan may take {allowed / 1e9:.2g} GB here"
        raise FileError(file, message, f"Close other programs, or coarsen it, or {trusted}")


class Budgeted(Protocol):
    """A verb with the option."""

    @property
    def max_gb(self) -> float | None:
        """Gigabytes, or None."""


Verb = TypeVar("Verb", bound=Budgeted)


def within_budget(call: Callable[[Verb], int]) -> Callable[[Verb], int]:
    """The call of a verb, kept to its `max_gb`."""

    @wraps(call)
    def bounded(self: Verb) -> int:
        with allowing(self.max_gb):
            return call(self)

    return bounded


def _checked(gigabytes: float, where: str) -> float:
    if not 0 < gigabytes < math.inf:
        raise InputError(f"{where}: give a number of gigabytes above 0, such as 8.")
    return gigabytes


def _in_words(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            number = size / factor
            return f"{number:,.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"
    return f"{size} bytes"
