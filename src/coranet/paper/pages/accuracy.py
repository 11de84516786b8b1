"""What the default reaches on test patients: the tables of docs/accuracy.md, and the rows that the front page has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from coranet.metrics import Comparison
from coranet.paper.pages.origin import origins_of
from coranet.report.numbers import TableRow, in_points, markdown
from coranet.report.run_files import FinishedRun, read_scored
from coranet.report.seeds import comparison_text, standing

LABELS, NNUNET, PEER, DEFAULT = "supervised", "nnunet-mirrored", "unimatch", "coranet-plus"
ROWS = {
    LABELS: "labels alone",
    "nnunet-plain": "nnU-Net 2.8, labels alone, no copies",
    NNUNET: "nnU-Net 2.8, labels alone, mirrored copies averaged",
    "bcp": "`bcp`",
    "fixmatch": "`fixmatch`",
    "mi_kl": "`mi_kl`",
    PEER: "`unimatch`",
    DEFAULT: "`coranet:plus`, the default",
}
"""By the folders of their runs, in the order of a table."""


LABELS_HEAD, DEFAULT_HEAD, LEAD_HEAD = "labels alone", "`coranet:plus`", "lead, 95 % interval"
FRONT = {LABELS_HEAD: LABELS, "nnU-Net, labels alone": NNUNET, "UniMatch": PEER, DEFAULT_HEAD: DEFAULT}
"""The front page's columns, and what they show."""

SETS = {
    "acdc-14": "ACDC, slices, 14 of 70 labelled",
    "acdc-7": "ACDC, slices, 7 of 70 labelled",
    "hippocampus-10": "hippocampus, slices, 10 of 208 labelled",
    "sunnybrook-1-4": "Sunnybrook, slices, 7 of 36 labelled",
    "la-8": "left atrium, volumes, 8 of 80 labelled",
    "la-16": "left atrium, volumes, 16 of 80 labelled",
}
"""Whose test patients were scored, by the folders of their runs."""

Seeds = dict[str, Sequence[FinishedRun]]
"""The runs of each row that has some."""


def accuracy_tables(runs: Path) -> str:
    """Each set's rows, held against labels alone, and the default held against each of them."""
    return "\n\n".join(_part(title, _read(folder)) for folder, title in _scored(runs))


def front_rows(runs: Path) -> list[TableRow]:
    """Mean Dice of each set's rows, with the default's lead over labels alone."""
    return [_front_row(title, _read(folder)) for folder, title in _scored(runs)]


def lead_over_nnunet(runs: Path) -> str:
    """What a user gains, in one sentence."""
    lead = in_points(_lead(_read(runs / "default/acdc-14"), NNUNET))
    return f"On ACDC the default is {lead} points of Dice ahead of nnU-Net on the same labels, at as many steps."


def _scored(runs: Path) -> list[tuple[Path, str]]:
    """Those sets that have runs, and their titles."""
    folders = [(runs / "default" / name, title) for name, title in SETS.items()]
    return [(folder, title) for folder, title in folders if folder.is_dir()]


def _front_row(title: str, found: Seeds) -> TableRow:
    dice = {
        head: f"{100 * mean(run.scores.mean_of('dsc') for run in found[row]):.1f}"
        for head, row in FRONT.items()
        if row in found
    }
    return {"": title} | dice | {LEAD_HEAD: in_points(_lead(found, LABELS))}


def _part(title: str, found: Seeds) -> str:
    rows = comparison_text([standing(ROWS[name], each, found[LABELS]) for name, each in found.items()])
    for row in rows:
        row.pop("each seed")
    leads = "; ".join(f"{in_points(_lead(found, name))} of {ROWS[name]}" for name in found if name != DEFAULT)
    folders = [run.folder for each in found.values() for run in each]
    return f"**{title}.** Commit {origins_of(folders).commit}.\n\n{markdown(rows)}\n\nThe default is ahead by {leads}."


def _lead(found: Seeds, base: str) -> Comparison:
    """How far the default is ahead of a row, over patients."""
    ahead = standing(ROWS[DEFAULT], found[DEFAULT], found[base]).ahead
    assert ahead is not None
    return ahead


def _read(folder: Path) -> Seeds:
    found = {name: sorted(folder.glob(f"{name}-seed*")) for name in ROWS}
    return {name: [read_scored(ROWS[name], run) for run in each] for name, each in found.items() if each}
