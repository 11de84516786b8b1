"""`coranet report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class ReportVerb:
    """Make a page of any run or comparison: settings, curves, film, scores, failures and pictures of cases.

    Writes report.html, which needs no other file, and its pictures. Nothing is trained or predicted. What a run does not
    have yet is said on the page, with the command that makes it.
    """

    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")
    ]
    """Folders of `coranet train`, side by side, the others held against the first; or the folder of one `coranet compare`
    or `coranet demo`."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the folder itself)")] = None
    """Where report.html goes; of several runs `report` by default."""
    predictions: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: RUN/predictions)")
    ] = None
    """What `coranet predict --out` made with the run, where that lies elsewhere."""
    images: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the run's own)")] = None
    """The scans that were predicted."""
    labels: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the run's own)")] = None
    """Their labels. Predictions that are not scored yet are scored against them."""

    def __call__(self) -> int:
        """Write."""
        from coranet.cli.compare import show_rows
        from coranet.cli.terminal.show import say
        from coranet.errors import InputError
        from coranet.report import ReportRequest, report_on

        if not self.runs:
            raise InputError("Name at least one RUN.")
        page, rows = report_on(
            ReportRequest(
                folders=self.runs,
                out=self.out,
                predictions=self.predictions,
                images=self.images,
                labels=self.labels,
            )
        )
        show_rows(rows)
        say(f"Pictures and details: {page}")
        return 0
