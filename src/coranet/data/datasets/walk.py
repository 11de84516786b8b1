"""What lies below a folder, in the order in which a person counts."""

from __future__ import annotations

from pathlib import Path

from coranet.data.datasets.names import natural
from coranet.data.listing import all_files


def files_below(root: Path) -> list[Path]:
    """All files but hidden ones, `case2` before `case10`; links are followed, but never in a circle."""
    return sorted(all_files(root), key=lambda file: natural(str(file)))
