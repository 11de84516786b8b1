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
    keep: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER", help_behavior_hint="(optional)")] = None
    """Copy the small files of every finished run there first (settings, log in parts, scores, and what their pseudo-labels
    were worth), and report on the copy."""

    def __call__(self) -> int:
        """Write."""
        from coranet.cli.compare import show_rows
        from coranet.cli.show import say
        from coranet.paper.archive import keep_small
        from coranet.paper.evidence import show_evidence, write_evidence
        from coranet.paper.figures import judge_sources
        from coranet.paper.reproduction import NAMES

        if self.keep is not None:
            judge_sources(self.runs)
            count = keep_small(self.runs, self.keep)
            say(f"Kept what is small of {count} runs: {self.keep}")
        page, parts = write_evidence(self.keep or self.runs, NAMES)
        for title, rows in show_evidence(parts):
            say(title)
            show_rows(rows)
        say(f"Tables and pictures: {page}")
        return 0
