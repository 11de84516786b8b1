"""One table of a study on one set, with its pictures, and how it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from coranet.files import write_atomically
from coranet.paper.figure_list import FIGURES
from coranet.paper.sets import SETS
from coranet.paper.settings import ROLES, Setting
from coranet.report.markup import element
from coranet.report.markup import table as markup_table
from coranet.report.numbers import NOTHING, TableRow, csv_text, markdown
from coranet.report.pictures.paint import Picture

Numbers = Mapping[str, str | float]
"""A line of a CSV file by column."""


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table of a study, on one set."""

    title: str
    scans: str
    rows: list[TableRow]
    """As text, for people."""
    numbers: Sequence[Numbers]
    """In full, with the runs they are made of."""
    note: str = ""
    pictures: tuple[Picture, ...] = ()


def settings_of(root: Path, name: str) -> Iterator[Setting]:
    """Where a study's runs are: on the paper's own set, or else on each that stands for it and is there."""
    for needs in FIGURES[name].needs:
        there = [scans for scans in SETS for one in needs.settings((scans,)) if (root / one.name).is_dir()]
        yield from needs.settings(tuple(there))


def title_of(scans: str, role: str = "pancreas") -> str:
    """A set, and what it stands for."""
    own = ROLES[role].own
    return SETS[scans].title + ("" if scans == own else f", standing for {SETS[own].title}")


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and deviation over seeds."""
    if not values:
        return NOTHING
    return f"{fmean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def seeds_in_words(count: int) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{count} seed{'s' if count != 1 else ''}"


def write_sheets(folder: Path, name: str, sheets: Sequence[Sheet]) -> None:
    """`<name>.md`, and `<name>.csv` with every number in full."""
    write_atomically(folder / f"{name}.md", sheets_markdown(name, sheets).encode())
    rows = [{"table": sheet.title, "scans": sheet.scans, **line} for sheet in sheets for line in sheet.numbers]
    write_atomically(folder / f"{name}.csv", csv_text(rows).encode())


def sheets_markdown(name: str, sheets: Sequence[Sheet]) -> str:
    """A study for a text file."""
    lines = [f"## {name}: {FIGURES[name].title}", ""]
    for sheet in sheets:
        lines += [f"### {sheet.title}", "", markdown(sheet.rows), "", *([sheet.note, ""] if sheet.note else [])]
    return "\n".join(lines)


def sheets_markup(name: str, sheets: Sequence[Sheet], shown: Mapping[str, str]) -> str:
    """A study's section of a page; `shown` are its pictures by name."""
    pieces = [element("h2", f"{name}: {FIGURES[name].title}")]
    for sheet in sheets:
        pieces += [element("h3", sheet.title), markup_table(sheet.rows)]
        pieces += [element("p", sheet.note, "quiet")] if sheet.note else []
        pieces += [shown[picture.name] for picture in sheet.pictures]
    return "\n".join(pieces)
