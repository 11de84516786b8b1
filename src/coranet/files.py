"""Writing a file in one move, so that whoever looks finds the old one or the whole new one."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from coranet.errors import InputError, WriteError
from coranet.processes import is_running, machine

_PART = re.compile(r"\.(\d{1,9})-(?:([0-9a-f]{6})-)?.+\.part")
"""The names that `part_of` gives: of which process, and on which machine."""
_BEGAN = time.time()
_LONG = 300
"""Seconds after which nobody is writing a file any more."""


def write_atomically(path: Path, content: bytes) -> None:
    """A file is either as it was or as it should be, also when the disk is full or the power fails.

    Raises:
        WriteError: it cannot be written.
    """
    beside = part_of(path)
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise WriteError(
            f"{path}: cannot be written ({error.strerror}). What was there before is untouched. "
            "Check that the folder exists, that you may write there and that the disk has space."
        ) from error
    finally:
        with suppress(OSError):
            beside.unlink()


def part_of(path: Path) -> Path:
    """Where this process makes a file or folder before it moves it into its place.

    It is hidden, so that whoever lists the folder meanwhile does not take it for a scan.
    """
    return path.with_name(f".{os.getpid()}-{machine()}-{path.name}.part")


def sweep(folder: Path, *, deep: bool = False) -> None:
    """Remove what killed processes left half made in a folder, and in the folders in it; nothing of a living process."""
    for left in (*folder.glob(".*.part"), *(folder.glob("*/.*.part") if deep else ())):
        with suppress(OSError):
            if not _is_left_over(left):
                continue
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            else:
                left.unlink()


def _is_left_over(part: Path) -> bool:
    found = _PART.fullmatch(part.name)
    if found is None:
        return False
    number, where, changed = int(found[1]), found[2], part.lstat().st_mtime
    alive = is_running(number) if where == machine() else None
    if number == os.getpid() and alive:  # ours, or of an earlier process that had our number
        return changed < _BEGAN - 1
    return time.time() - changed > _LONG if alive is None else not alive


def make_folder(folder: Path) -> None:
    """It and those above it, where they are not there.

    Raises:
        InputError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}). Choose another folder.") from error
