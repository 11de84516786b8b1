"""The paper's tables from finished runs: ours beside the paper's, each cell traced to its runs.

The difference is shown on the paper's own scans alone. Between two organs it says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from coranet.evaluation import Scores
from coranet.files import write_atomically
from coranet.metrics import Comparison, by_patient, compare
from coranet.metrics.mask import METRICS
from coranet.paper.sets import SETS
from coranet.paper.settings import ROLES, Block, MethodRow, Table, places_of, setting_of
from coranet.paper.tables import HEART_CLASSES
from coranet.report.markup import element
from coranet.report.markup import table as markup_table
from coranet.report.numbers import FACTS, NOTHING, WORK, TableRow, csv_text, failures, in_points, markdown, p_value
from coranet.report.run_files import patients_of, read_scored
from coranet.runs.row_text import run_name

MISSING = "missing"
PUBLISHED = (
    "Published here: what others report of the same labelled scans, mostly of the checkpoint best on the test cases."
)

UNLIKE = (
    "Rows have different seeds. A mean is over all seeds of its row. The lead of one row over another is over the seeds "
    "that both have."
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One metric of one row."""

    ours: tuple[float, ...]
    """Of each seed, as the paper counts it: overlaps in percent, distances in voxels."""
    paper: float | None = None

    @property
    def text(self) -> str:
        """Mean and deviation over seeds."""
        if not self.ours:
            return MISSING
        return f"{mean(self.ours):.2f}" + (f" ± {stdev(self.ours):.2f}" if len(self.ours) > 1 else "")

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return mean(self.ours) - self.paper if self.ours and self.paper is not None else None


@dataclass(frozen=True, kw_only=True)
class TableLine:
    """One row, on one set."""

    row: MethodRow
    runs: tuple[Path, ...]
    """Its finished runs."""
    cells: Mapping[str, Cell]
    """By metric."""
    chosen: tuple[float, ...]
    """DSC of the weights that did best on validation cases, of each seed, where there are such."""
    ahead: Comparison | None
    """DSC of each patient against the row that others are held against."""
    failures: str
    """Objects missed or invented, of all seeds together."""
    work: Mapping[str, str]
    """What it took, by the names of `WORK`."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A block of a table on one set."""

    block: Block
    scans: str
    lines: tuple[TableLine, ...]

    @property
    def title(self) -> str:
        """What it is, and on what."""
        stands = "" if self.own else f", standing for {SETS[ROLES[self.block.role].own].title}"
        return f"{self.block.title}: {SETS[self.scans].title}{stands}"

    @property
    def own(self) -> bool:
        """Whether the scans are the paper's own."""
        return ROLES[self.block.role].is_own(self.scans)

    @property
    def note(self) -> str:
        """What a reader of its last columns should know, if anything."""
        notes = [PUBLISHED] if self.scans in self.block.published else []
        return " ".join([*notes, *([UNLIKE] if self.unlike else [])])

    @property
    def unlike(self) -> bool:
        """Whether rows that are there have different seeds."""
        seeds = {tuple(run.name.rpartition("-seed")[2] for run in line.runs) for line in self.lines if line.runs}
        return len(seeds) > 1


def read_table(root: Path, table: Table) -> tuple[Part, ...]:
    """What finished runs in a folder say of a table, for each set that has one."""
    return tuple(part for block in table.blocks for part in _read_block(root, block))


def _read_block(root: Path, block: Block) -> list[Part]:
    """On the paper's own set where a run on it is finished, or else on those that stand for it."""
    every = (_read_part(root, block, scans) for name in SETS for scans in places_of(block, (name,)))
    found = {part.scans: part for part in every if any(line.runs for line in part.lines)}
    return [found[scans] for scans in places_of(block, tuple(found))]


def _read_part(root: Path, block: Block, scans: str) -> Part:
    folders = {row.label: root / setting_of(block, row, scans).name for row in block.rows}
    runs = {row.label: finished_runs(folders[row.label], row.method) for row in block.rows}
    read = {label: {seed: read_scored(run.name, run) for seed, run in found.items()} for label, found in runs.items()}
    scores = {label: {seed: run.scores for seed, run in found.items()} for label, found in read.items()}
    base = scores.get(block.against, {})
    return Part(
        block=block,
        scans=scans,
        lines=tuple(
            TableLine(
                row=row,
                runs=tuple(runs[row.label].values()),
                cells={
                    metric: Cell(
                        ours=tuple(_value(one, metric) for one in scores[row.label].values()),
                        paper=row.printed.get(metric),
                    )
                    for metric in block.columns
                },
                chosen=tuple(
                    _value(Scores.read_csv(run / "scores-best.csv"), "dsc")
                    for run in runs[row.label].values()
                    if (run / "scores-best.csv").exists()
                ),
                ahead=_ahead(scores[row.label], base, patients_of(folders[row.label], scores[row.label].values()))
                if row.label != block.against
                else None,
                failures=failures(scores[row.label].values()),
                work={title: FACTS[title].text([*read[row.label].values()]) for title in WORK},
            )
            for row in block.rows
        ),
    )


def finished_runs(folder: Path, method: str) -> dict[int, Path]:
    """A row's finished runs by seed; one that is missing hides no other."""
    start = run_name(method, 0).removesuffix("0")
    seeds = (file.parent.name.removeprefix(start) for file in folder.glob(f"{start}*/scores.csv"))
    return {seed: folder / f"{start}{seed}" for seed in sorted(int(seed) for seed in seeds if seed.isdecimal())}


def _value(scores: Scores, metric: str) -> float:
    """Over cases, or over those that have the class, in the paper's units."""
    name, _, of = metric.partition(":")
    if of:
        title = next((row.class_name for row in scores.rows if row.value == HEART_CLASSES[of]), None)
        value = float("nan") if title is None else scores.mean_of(name, title)
    else:
        value = scores.mean_of(name)
    return 100 * value if METRICS[name].unit == "%" else value


def _ahead(ours: Mapping[int, Scores], base: Mapping[int, Scores], patients: Mapping[str, str]) -> Comparison | None:
    """Patient by patient: a case is worth its mean over the seeds that both have, a patient the mean of its cases."""
    seeds = ours.keys() & base.keys()
    if not seeds:
        return None

    def over_seeds(scores: Mapping[int, Scores]) -> dict[str, float]:
        each = [scores[seed].by_case("dsc") for seed in sorted(seeds)]
        return {case: mean(by_case[case] for by_case in each) for case in each[0]}

    mine, theirs = over_seeds(ours), over_seeds(base)
    if mine.keys() != theirs.keys():
        return None
    gain = by_patient({case: mine[case] - theirs[case] for case in mine}, patients)
    return compare(gain, dict.fromkeys(gain, 0.0))


def table_rows(part: Part) -> list[TableRow]:
    """Ours, the paper's and on its own scans the difference, metric by metric, and a test of DSC."""
    against, rows = part.block.against, []
    published = part.block.published.get(part.scans, {})
    for line in part.lines:
        cells: TableRow = {"row": line.row.label, "method": line.row.method}
        for metric, title in part.block.columns.items():
            cell = line.cells[metric]
            cells[f"{title} ours"] = cell.text
            cells[f"{title} paper"] = NOTHING if cell.paper is None else f"{cell.paper:.2f}"
            if part.own:
                cells[f"{title} difference"] = NOTHING if cell.difference is None else f"{cell.difference:+.2f}"
        if published:
            others = published.get(line.row.label)
            values = [f"{others[metric]:.2f}" for metric in part.block.columns] if others else [NOTHING]
            cells[f"published here: {' / '.join(part.block.columns.values())}"] = " / ".join(values)
        if any(other.chosen for other in part.lines):
            cells["DSC %, chosen on validation"] = Cell(ours=line.chosen).text if line.chosen else NOTHING
        ahead = line.ahead
        cells[f"DSC ahead of {against} [95 % over patients]"] = (
            NOTHING if ahead is None else f"{in_points(ahead)}, {p_value(ahead.p)}"
        )
        cells |= {"failures": line.failures, **line.work, "seeds": str(len(line.runs))}
        rows.append(cells)
    return rows


def table_markdown(table: Table, parts: Sequence[Part]) -> str:
    """The table for a text file."""
    lines = [f"## {table.name}: {table.title}", ""]
    for part in parts:
        lines += [f"### {part.title}", "", markdown(table_rows(part)), "", *([part.note, ""] if part.note else [])]
    return "\n".join([*lines, *([table.note, ""] if table.note else [])])


def table_markup(table: Table, parts: Sequence[Part]) -> str:
    """The table for a page."""
    pieces = [element("h2", f"{table.name}: {table.title}")]
    for part in parts:
        pieces += [element("h3", part.title), markup_table(table_rows(part))]
        pieces += [element("p", part.note, "quiet")] if part.note else []
    return "\n".join([*pieces, *([element("p", table.note, "quiet")] if table.note else [])])


def write_table(folder: Path, table: Table, parts: Sequence[Part], root: Path) -> None:
    """`<name>.md`, and `<name>.csv` with every number in full and the runs it is made of, one line a cell."""
    write_atomically(folder / f"{table.name}.md", (table_markdown(table, parts) + "\n").encode())
    rows: list[Mapping[str, str | float]] = [
        {
            "block": part.block.title,
            "scans": part.scans,
            "row": line.row.label,
            "method": line.row.method,
            "metric": metric,
            "ours": mean(cell.ours) if cell.ours else "",
            "std": stdev(cell.ours) if len(cell.ours) > 1 else "",
            "seeds": len(cell.ours),
            "paper": "" if cell.paper is None else cell.paper,
            "difference": cell.difference if part.own and cell.difference is not None else "",
            "runs": " ".join(str(run.relative_to(root)) for run in line.runs),
        }
        for part in parts
        for line in part.lines
        for metric, cell in line.cells.items()
    ]
    write_atomically(folder / f"{table.name}.csv", csv_text(rows).encode())
