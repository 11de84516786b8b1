"""All of the paper's evidence that finished runs in a folder can show, as tables, pictures and one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

from coranet.errors import InputError
from coranet.experiments.paper.tables import TABLES
from coranet.files import write_atomically
from coranet.report.markup import document, element, picture
from coranet.report.numbers import TableRow
from coranet.report.paint import DPI, Picture
from coranet.report.paper import Part, read_table, table_markup, table_rows, write_table

Draw = Callable[[Path], Sequence[Picture]]
"""From a folder of finished runs to pictures, none where runs are missing."""

DRAW: dict[str, Draw] = {}
"""By name."""


def write_evidence(root: Path, names: Sequence[str]) -> tuple[Path, list[Part]]:
    """Write `tables/` and `figures/` and `evidence.html` into a folder of runs; returns the page and the parts of tables.

    Raises:
        InputError: no run of any of these names is finished there.
    """
    pieces, shown = [], list[Part]()
    for name in names:
        if name in TABLES:
            parts = read_table(root, TABLES[name])
            if parts:
                (root / "tables").mkdir(exist_ok=True)
                write_table(root / "tables", TABLES[name], parts, root)
                pieces.append(table_markup(TABLES[name], parts))
                shown += parts
        elif name in DRAW:
            pieces += [_keep(root / "figures", one) for one in DRAW[name](root)]
    if not pieces:
        raise InputError(f"{root}: has no finished run of {', '.join(names)}. Make them with `coranet reproduce NAME`.")
    page = root / "evidence.html"
    title = "The paper's evidence, made again"
    write_atomically(page, document(title, [element("h1", title), *pieces]).encode())
    return page, shown


def show_evidence(parts: Sequence[Part]) -> list[tuple[str, list[TableRow]]]:
    """Each part's title and its rows, for a console."""
    return [(part.title, table_rows(part)) for part in parts]


def _keep(folder: Path, drawn: Picture) -> str:
    content = BytesIO()
    drawn.figure.savefig(content, format="png", dpi=DPI)
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"{drawn.name}.png", content.getvalue())
    return "\n".join([element("h2", drawn.name), picture(drawn.name, content.getvalue(), drawn.caption)])
