"""The paper's tables and studies as pages show them: without a title, and with the commits that rows were run at."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from coranet.paper.pages.origin import origins_of
from coranet.paper.studies import STUDIES
from coranet.paper.studies.sheet import sheets_markdown
from coranet.paper.table_text import Part, read_table, table_markdown
from coranet.paper.tables import TABLES

SHOWN = ("table2", "table3", "table4", "table5", "table6", "table7", "table8", "table9")
"""Tables that finished runs fill."""
STUDIED = {"masks": "paper", "efficiency": "efficiency"}
"""Studies, and the group of their runs. Runs that are timed had the device for themselves."""


@cache
def parts_of(runs: Path, name: str) -> tuple[Part, ...]:
    """What finished runs say in a table."""
    return read_table(runs / "paper", TABLES[name])


def table_part(runs: Path, name: str) -> str:
    """A table."""
    parts = parts_of(runs, name)
    _, _, rows = table_markdown(TABLES[name], parts).partition("\n\n")
    commits = [
        "; ".join(f"{line.row.label}: {origins_of(line.runs).commit}" for line in part.lines if line.runs)
        for part in parts
    ]
    return f"{rows.strip()}\n\nCommits: {'. '.join(commits)}."


def study_part(runs: Path, name: str) -> str:
    """A study."""
    root = runs / STUDIED[name]
    sheets = STUDIES[name](root)
    _, _, rows = sheets_markdown(name, sheets).partition("\n\n")
    named = {str(line["run"]) for sheet in sheets for line in sheet.numbers if "run" in line}
    made = origins_of([root / run for run in named] or list(root.glob("*/*-seed*")))
    return f"{rows.strip()}\n\nCommits: {made.commit}."
