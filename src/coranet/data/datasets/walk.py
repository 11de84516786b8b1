"""What lies below a folder."""

from __future__ import annotations

import os
from pathlib import Path

from coranet.data.datasets.names import natural


def files_below(root: Path) -> list[Path]:
    """All files but hidden ones, `case2` before `case10`; links are followed, but never in a circle."""
    seen: set[str] = set()
    found = []
    for folder, folders, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(folder, name) for name in files if not name.startswith(".")]
    return sorted(found, key=lambda file: natural(str(file)))
