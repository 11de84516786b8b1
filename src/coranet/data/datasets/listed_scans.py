"""Scans that a text lists: a path in each line, from the text's own folder on; `#` begins a remark."""

from __future__ import annotations

from pathlib import Path

from coranet.data.problem import FileError

_ENDING = ".txt"


def is_list(path: Path) -> bool:
    """Whether a file lists scans."""
    return path.suffix == _ENDING and path.is_file()


def listed(path: Path) -> tuple[Path, ...]:
    """What a text lists.

    Raises:
        FileError: it is no text, or a scan of it is not there.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(
            path, f"cannot be read as a list of scans ({error})", "Write a path a line, in UTF-8"
        ) from error
    files = tuple(path.parent / line for line in lines if line and not line.startswith("#"))
    if not files:
        raise FileError(path, "lists no scan", "Write the path of a scan into each line")
    if absent := next((file for file in files if not file.exists()), None):
        raise FileError(absent, f"does not exist, and {path} lists it", "Correct the list")
    return files
