"""Writing a file in one move, so that whoever looks finds the old one or the whole new one, and holding one for oneself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coranet.errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


def write_atomically(path: Path, content: bytes) -> None:
    """A file is either as it was or as it should be, also when the disk is full or the power fails.

    Raises:
        InputError: it cannot be written.
    """
    # Hidden, so that whoever lists the folder meanwhile does not take it for a scan.
    beside = path.with_name(f".{os.getpid()}-{path.name}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}). What was there before is untouched. "
            "Check that the folder exists, that you may write there and that the disk has space."
        ) from error
    finally:
        with suppress(OSError):
            beside.unlink()


def make_folder(folder: Path) -> None:
    """It and those above it, where they are not there.

    Raises:
        InputError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}). Choose another folder.") from error


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Keep other processes from holding the same file meanwhile. The system lets go of it when a process ends, in any way.

    Where a file system or a platform knows no locks, nobody is refused.

    Raises:
        InputError: `refusal`, where another process holds it.
    """
    with path.open("rb") as file:
        try:
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(refusal) from error
        except OSError:
            pass
        yield
