"""Which processes there are: is the one that left a file still at work, and does a child outlive its parent?"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path


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
    import multiprocessing

    parent = multiprocessing.parent_process()
    assert parent is not None, "this process was started by another"
    parent.join()
    os._exit(1)
