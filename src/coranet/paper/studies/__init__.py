"""What the paper's text claims without a table, and what any mask can give.

Each is read from files that finished runs left; `STUDIES` has them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from coranet.paper.studies.efficiency_sheet import read_efficiency
from coranet.paper.studies.heads_sheet import read_heads
from coranet.paper.studies.masks_sheet import read_masks
from coranet.paper.studies.sheet import Sheet, sheets_markup, write_sheets
from coranet.paper.studies.weights_sheet import read_weights

STUDIES: dict[str, Callable[[Path], Sequence[Sheet]]] = {
    "efficiency": read_efficiency,
    "weights": read_weights,
    "masks": read_masks,
    "heads": read_heads,
}
"""By name: from a folder of finished runs to sheets, none where runs are missing."""

__all__ = ["STUDIES", "Sheet", "sheets_markup", "write_sheets"]
