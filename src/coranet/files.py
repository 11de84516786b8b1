"""Writing a file in one move: whoever looks finds the old one or the whole new one, never a part."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from coranet.errors import InputError


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
