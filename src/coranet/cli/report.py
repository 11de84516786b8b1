"""`coranet report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class Report:
    """Write the paper's tables and figures again from the runs that `coranet reproduce` has finished; nothing is trained."""

    runs: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """The folder that `coranet reproduce --out` made, or a copy of the small files of its runs."""

    def __call__(self) -> int:
        """Write."""
        from coranet.cli.compare import show_rows
        from coranet.cli.show import say
        from coranet.experiments.paper.reproduce import NAMES
        from coranet.report import show_evidence, write_evidence

        page, parts = write_evidence(self.runs, NAMES)
        for title, rows in show_evidence(parts):
            say(title)
            show_rows(rows)
        say(f"Tables and pictures: {page}")
        return 0
