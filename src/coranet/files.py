"""Writing a file in one move, so that whoever looks finds the old one or the whole new one, and holding one for oneself.

And reading JSON that may come from anyone, within bounds.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from coranet.errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

JSON_BYTES = 64 * 2**20
"""More than any file of ours has."""
JSON_DEPTH = 50
JSON_DIGITS = 300
"""Of a number: more would not fit into a float."""


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


def read_json(path: Path) -> Any:
    """What a JSON file holds. One that is too large, too deep or has numbers beyond all use is not believed.

    Raises:
        InputError: it cannot be read, or is not such a file.
    """
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is no file. Put the JSON file itself there.")
        with path.open("rb") as file:
            content = file.read(JSON_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}). Check that it exists and who may read it."
        ) from error
    try:
        return parse_json(content)
    except ValueError as error:
        raise InputError(f"{path}: broken JSON ({error}). Restore the file.") from error


def parse_json(content: bytes) -> Any:
    """JSON within bounds.

    Raises:
        ValueError: it is no JSON, or beyond them.
    """
    if len(content) > JSON_BYTES:
        raise ValueError(f"larger than {JSON_BYTES // 2**20} MB")
    text = content.decode("utf-8")
    depth = 0
    for sign in re.finditer(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[{\]}]', text, re.DOTALL):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(sign[0], 0)
        if depth > JSON_DEPTH:
            raise ValueError(f"nested deeper than {JSON_DEPTH}")
    return json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_finite)


def _integer(digits: str) -> int:
    if len(digits) > JSON_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:30]} is not a finite number")
    return number


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
