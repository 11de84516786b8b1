"""How much memory this process may still take: of the machine, of its container, and by the limits it was started with."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

UNKNOWN = 8 * 2**30
"""Taken where a system does not say."""

_CONTAINERS = (
    ("memory.max", "memory.current", "file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_cache"),
)
"""Under /sys/fs/cgroup, by version: the limit, what is used, and what of that can be given back."""


def free_memory() -> int:
    """Bytes."""
    return max(0, min((*_of_machine(), *_of_container(), *_of_process()), default=UNKNOWN))


def _of_machine() -> Iterator[int]:
    if match := re.search(r"^MemAvailable:\s+(\d+) kB", _text(Path("/proc/meminfo")), re.MULTILINE):
        yield int(match[1]) * 1024
    else:
        with suppress(AttributeError, OSError, ValueError):  # all there is, where nobody says what is free
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_container() -> Iterator[int]:
    root = Path("/sys/fs/cgroup")
    for limit, used, name in _CONTAINERS:
        most, taken = _text(root / limit).strip(), _text(root / used).strip()
        if most.isdecimal() and taken.isdecimal():
            found = re.search(rf"^{name} (\d+)$", _text((root / limit).with_name("memory.stat")), re.MULTILINE)
            yield int(most) - int(taken) + (int(found[1]) if found else 0)


def _of_process() -> Iterator[int]:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(Path("/proc/self/statm")).split()
    if most != resource.RLIM_INFINITY and pages:
        yield most - int(pages[0]) * resource.getpagesize()


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
