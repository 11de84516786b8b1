"""All of the paper's evidence that finished runs in a folder can show, as tables, pictures and one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coranet.errors import InputError
from coranet.files import write_atomically
from coranet.paper.figure_list import FIGURES
from coranet.paper.figures import DRAW
from coranet.paper.studies import STUDIES, Sheet, sheets_markup, write_sheets
from coranet.paper.table_text import Part, read_table, table_markup, table_rows, write_table
from coranet.paper.tables import TABLES
from coranet.report.markup import document, element, picture
from coranet.report.numbers import TableRow, csv_text
from coranet.report.pictures.paint import DPI, Picture, as_png


def write_evidence(root: Path, names: Sequence[str]) -> tuple[Path, list[Part | Sheet]]:
    """Write `tables/`, `figures/` and a page into a folder of runs; returns the page and the parts of tables.

    The page is `evidence.html`, or called like the one table or figure that is asked for.

    Raises:
        InputError: no run of any of these names is finished there.
    """
    pieces, shown = [], list[Part | Sheet]()
    drawn_alone = [name for name in names if name in FIGURES and not FIGURES[name].needs]
    if not (any(root.glob("*/*/scores.csv")) or drawn_alone == list(names)):
        raise InputError(f"{root}: has no finished run of {', '.join(names)}. Make them with `coranet reproduce NAME`.")
    for name in names:
        if name in TABLES:
            parts = read_table(root, TABLES[name])
            if parts:
                (root / "tables").mkdir(exist_ok=True)
                write_table(root / "tables", TABLES[name], parts, root)
                pieces.append(table_markup(TABLES[name], parts))
                shown += parts
        elif name in DRAW:
            pieces += [_titled(root / "figures", one) for one in DRAW[name](root)]
        elif name in STUDIES and (sheets := STUDIES[name](root)):
            (root / "tables").mkdir(exist_ok=True)
            write_sheets(root / "tables", name, sheets)
            drawn = {one.name: _keep(root / "figures", one) for sheet in sheets for one in sheet.pictures}
            pieces.append(sheets_markup(name, sheets, drawn))
            shown += sheets
    if not pieces:
        raise InputError(f"{root}: has no finished run of {', '.join(names)}. Make them with `coranet reproduce NAME`.")
    page = root / (f"{names[0]}.html" if len(names) == 1 else "evidence.html")
    title = "The paper's evidence, made again"
    write_atomically(page, document(title, [element("h1", title), *pieces]).encode())
    return page, shown


def show_evidence(parts: Sequence[Part | Sheet]) -> list[tuple[str, list[TableRow]]]:
    """Each part's title and its rows, for a console."""
    return [(part.title, part.rows if isinstance(part, Sheet) else table_rows(part)) for part in parts]


def _titled(folder: Path, drawn: Picture) -> str:
    return "\n".join([element("h2", drawn.name), _keep(folder, drawn)])


def _keep(folder: Path, drawn: Picture) -> str:
    content = as_png(drawn.figure, DPI)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{drawn.name}.png", content)
    if drawn.numbers:
        write_atomically(folder / f"{drawn.name}.csv", csv_text(drawn.numbers).encode())
    return picture(drawn.name, content, drawn.caption)
