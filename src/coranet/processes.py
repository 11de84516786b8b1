"""Processes: is the one that left a file still at work, how is one started, and does it outlive who started it?"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import threading
from contextlib import suppress
from functools import cache
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import parent_process
from pathlib import Path
from types import ModuleType


class _FreshProcess(SpawnProcess):
    """Knows nothing of the program that starts it.

    Python would run a script anew in every process that it starts, up to its `if __name__ == "__main__"`, and cannot do
    so for one that is read from standard input. Nothing of ours is in that script, so it is out of sight meanwhile.
    """

    def start(self) -> None:
        """Begin, with an empty main module."""
        program = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = program


class _FreshContext(SpawnContext):
    Process = _FreshProcess


FRESH = _FreshContext()
"""Starts processes from nothing: one that is forked has threads in the middle of something, and cannot use a GPU."""


@cache
def machine() -> str:
    """Stands for this machine since it was started, and for the processes it can see: a container sees its own alone."""
    known = [socket.gethostname()]
    with suppress(OSError):
        known.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with suppress(OSError):
        known.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:6]


def start_of(number: int) -> str:
    """When a process was started, in the system's count; empty where the system does not say."""
    fields = _fields(number)
    return fields[19] if len(fields) > 19 else ""


def is_running(number: int) -> bool | None:
    """Whether there is a process of that number on this machine; None where one cannot ask."""
    if sys.platform == "win32":
        return None
    if number <= 0:
        return False
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # someone else's
        return True
    return _fields(number)[:1] not in (["Z"], ["X"])  # those have ended, and nobody has asked how


def _fields(number: int) -> list[str]:
    """What Linux says of a process, after its name; empty elsewhere."""
    try:
        said = Path(f"/proc/{number}/stat").read_text(errors="replace")
    except OSError:
        return []
    return said.rpartition(")")[2].split()


def end_with_parent() -> None:
    """In a process that another one started: end at once when that one ends, in whatever way."""
    threading.Thread(target=_wait_and_end, daemon=True).start()


def _wait_and_end() -> None:
    parent = parent_process()
    assert parent is not None, "this process was started by another"
    parent.join()
    os._exit(1)
