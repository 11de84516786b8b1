"""What the paper's text claims without a table, and what any mask can give, from files that finished runs left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from coranet.report.studies.efficiency import read_efficiency
from coranet.report.studies.masks import read_masks
from coranet.report.studies.sheet import Sheet, sheets_markup, write_sheets
from coranet.report.studies.weights import read_weights

STUDIES: dict[str, Callable[[Path], Sequence[Sheet]]] = {
    "efficiency": read_efficiency,
    "weights": read_weights,
    "masks": read_masks,
}
"""By name: from a folder of finished runs to sheets, none where runs are missing."""

__all__ = ["STUDIES", "Sheet", "sheets_markup", "write_sheets"]
