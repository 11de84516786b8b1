"""What lies in a folder, and below it; hidden files, such as macOS's `._*`, do not count."""

from __future__ import annotations

import os
from pathlib import Path

from coranet.data.problem import FileError
from coranet.file_names import is_text


def entries(folder: Path) -> list[Path]:
    """All that lies in a folder, by name.

    Raises:
        FileError: the folder may not be read, or a name in it is no text.
    """
    return [folder / entry.name for entry in _entries(folder)]


def all_files(root: Path) -> list[Path]:
    """All files in a folder and in those below it; links are followed, but never in a circle.

    Raises:
        FileError: a folder may not be read, or a name is no text.
    """
    seen: set[str] = set()

    def below(folder: Path) -> list[Path]:
        if (real := os.path.realpath(folder)) in seen:
            return []
        seen.add(real)
        there = ((folder / entry.name, entry.is_dir()) for entry in _entries(folder))
        return [file for path, inner in there for file in (below(path) if inner else [path])]

    return below(root) if root.is_dir() else []


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            there = sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise FileError(folder, f"cannot be listed ({error.strerror})", "Make it a folder that you may read") from error
    for entry in there:
        if not is_text(entry.name):
            raise FileError(folder / entry.name, "has a name that is no text", "Rename it in letters of UTF-8")
    return there
