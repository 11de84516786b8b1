"""Which generated part stands on which page, and how all of them are written: `make pages`.

    <!-- made by make pages, NAME -->
    ...
    <!-- until here -->

Every number is computed from the runs in `results/`, those of the demo from `benchmarks/results/`; `tests/test_docs.py`
fails when a page says something else.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from coranet.files import write_atomically
from coranet.paper.archive import Archive
from coranet.paper.pages.accuracy import accuracy_tables
from coranet.paper.pages.digest import digest
from coranet.paper.pages.evidence_parts import SHOWN, STUDIED, study_part, table_part
from coranet.paper.pages.findings import findings
from coranet.paper.pages.front import front_part
from coranet.paper.pages.ranking_picture import ranking_picture
from coranet.paper.pages.rankings import SEEDS, ranking_table
from coranet.runs.catalogue import write_pages

BEGIN, END = "<!-- made by make pages, {} -->\n", "<!-- until here -->\n"

Parts = dict[str, str]
"""Text by the name of its place."""


def page_parts(runs: Path, scores: Path) -> dict[str, Parts]:
    """By page, from folders of runs, and from the scores of the demo."""
    return {
        "README.md": {"results": front_part(runs, scores)},
        "docs/accuracy.md": {"accuracy": accuracy_tables(runs)},
        "docs/findings.md": {"findings": findings(runs)},
        "docs/ranking.md": {name: ranking_table(runs, name) for name in SEEDS},
        "docs/results.md": {
            "digest": digest(runs),
            **{name: table_part(runs, name) for name in SHOWN},
            **{name: study_part(runs, name) for name in STUDIED},
        },
    }


def with_parts(text: str, parts: Parts) -> str:
    """A page with its generated parts made anew."""
    for name, made in parts.items():
        before, begin, rest = text.partition(BEGIN.format(name))
        _, end, after = rest.partition(END)
        assert end, f"there is no {BEGIN.format(name)}"
        text = f"{before}{begin}\n{made.strip()}\n\n{end}{after}"
    return text


def write_book(root: Path) -> None:
    """Write all that is generated in a checkout."""
    with TemporaryDirectory() as folder:
        runs = Path(folder)
        Archive.read(root / "results").unpack(runs)
        for page, parts in page_parts(runs, root / "benchmarks/results").items():
            text = (root / page).read_text(encoding="utf-8")
            write_atomically(root / page, with_parts(text, parts).encode())
        write_atomically(root / "docs/images/ranking.png", ranking_picture(runs))
    write_pages(root / "docs/methods")


if __name__ == "__main__":
    write_book(Path.cwd())
