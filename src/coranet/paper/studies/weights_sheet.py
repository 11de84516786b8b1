"""The weight of certain to uncertain pixels (section III-D, "Weight Setting").

The paper's case for 1 : 1 is that both losses are roughly the same: many certain pixels of which few are wrong, few
uncertain ones of which many are. Logs hold terms before their weights, so that these magnitudes are of L_c-sn and L_cnt as
they stand in Eq. 7 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from matplotlib.figure import Figure

from coranet.paper.figure_list import FIGURES, RATIOS, WEIGHTS
from coranet.paper.settings import Block, MethodRow, Table
from coranet.paper.studies.sheet import Numbers, Sheet, seeds_in_words, spread, title_of
from coranet.paper.table_text import Part, TableLine, read_table, table_rows
from coranet.paper.tables import DICE
from coranet.report.curves import INKS
from coranet.report.numbers import NOTHING, TableRow
from coranet.report.pictures.paint import TEXT, WIDTH, Picture
from coranet.report.run_files import FinishedRun, read_runs

TERMS = {"certain": "L_c-sn", "consistency": "L_cnt"}
EQUAL = "1 : 1"
NOTE = (
    "Magnitudes are the two losses before their weights, the mean over every step of self-training. The paper "
    "argues for 1 : 1 by their being roughly the same, a quotient of about 1, and prints no DSC for other "
    "weights."
)


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """One ratio's runs."""

    ratio: float
    line: TableLine
    sizes: Mapping[str, tuple[float, ...]]
    """Of each term, of each seed."""

    @property
    def dice(self) -> tuple[float, ...]:
        """In percent, of each seed."""
        return self.line.cells["dsc"].ours

    @property
    def quotient(self) -> float | None:
        """Of the certain loss to the uncertain one, both as means over seeds."""
        certain, uncertain = (fmean(self.sizes[term]) if self.sizes[term] else 0.0 for term in TERMS)
        return certain / uncertain if uncertain else None


def read_weights(root: Path) -> list[Sheet]:
    """One sheet a set that has runs of another ratio than 1 : 1."""
    (needs,) = FIGURES["weights"].needs
    rows = tuple(MethodRow(label=label, method=method) for label, method in WEIGHTS.items())
    block = Block(title="", role=needs.role, share=needs.share, rows=rows, columns=DICE, against=EQUAL)
    parts = read_table(root, Table(name="weights", title=FIGURES["weights"].title, blocks=(block,)))
    return [_sheet(part) for part in parts if any(line.runs for line in part.lines if line.row.label != EQUAL)]


def mean_term(run: FinishedRun, term: str) -> float:
    """Over all steps of self-training. A line of the log is the mean over steps since the one before that have the term."""
    total, counted, before, begin = 0.0, 0, 0, selftraining_from(run)
    for record in run.log:
        if term in record["terms"]:
            steps = record["step"] - max(before, begin)
            total, counted = total + steps * record["terms"][term], counted + steps
        before = record["step"]
    return total / counted


def selftraining_from(run: FinishedRun) -> int:
    """The step that self-training begins with: phases are laid over a run in proportion to their epochs."""
    method = run.settings["method"]
    epochs = method["pretrain_epochs"] + method["selftrain_epochs"]
    first: int = round(run.settings["train"]["steps"] * method["pretrain_epochs"] / epochs)
    return first


def _sheet(part: Part) -> Sheet:
    found = [_weigh(ratio, line) for ratio, line in zip(RATIOS, part.lines, strict=True)]
    shown = table_rows(part)
    return Sheet(
        title=title_of(part.scans),
        scans=part.scans,
        rows=[_row(one, row) for one, row in zip(found, shown, strict=True)],
        numbers=[_numbers(one) for one in found],
        note=NOTE,
        pictures=(_draw(found, part.scans),),
    )


def _weigh(ratio: float, line: TableLine) -> Weighed:
    runs = [run for folder in line.runs for run in read_runs({folder.name: folder})]
    return Weighed(ratio=ratio, line=line, sizes={term: tuple(mean_term(run, term) for run in runs) for term in TERMS})


def _row(one: Weighed, shown: TableRow) -> TableRow:
    ahead = next(column for column in shown if column.startswith("DSC ahead"))
    return {
        "certain : uncertain": one.line.row.label,
        "DSC %": one.line.cells["dsc"].text,
        ahead: shown[ahead],
        **{f"{title} unweighted": spread(one.sizes[term], 5) for term, title in TERMS.items()},
        "quotient": NOTHING if one.quotient is None else f"{one.quotient:,.2f}",
        "quotient after weights": NOTHING if one.quotient is None else f"{one.ratio * one.quotient:,.2f}",
        "seeds": str(len(one.line.runs)),
    }


def _numbers(one: Weighed) -> Numbers:
    return {
        "ratio": one.ratio,
        "method": one.line.row.method,
        "dsc": fmean(one.dice) if one.dice else "",
        "dsc_std": stdev(one.dice) if len(one.dice) > 1 else "",
        **{term: fmean(values) if values else "" for term, values in one.sizes.items()},
        "quotient": "" if one.quotient is None else one.quotient,
        "seeds": len(one.line.runs),
        "runs": " ".join(f"{run.parent.name}/{run.name}" for run in one.line.runs),
    }


def _draw(found: Sequence[Weighed], scans: str) -> Picture:
    there = [one for one in found if one.dice]
    figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    ratios = [one.ratio for one in there]
    deviations = [stdev(one.dice) if len(one.dice) > 1 else 0.0 for one in there]
    left.errorbar(ratios, [fmean(one.dice) for one in there], deviations, color=INKS[0], marker="o", capsize=4)
    left.set_title("DSC on test cases, %", fontsize=TEXT)
    for ink, (term, title) in zip(INKS, TERMS.items(), strict=False):
        values = [fmean(one.sizes[term]) for one in there]
        right.plot(ratios, values, color=ink, marker="o", label=f"{title}, {'un' * (term != 'certain')}certain pixels")
    right.set_yscale("log")
    right.set_title("losses before their weights, mean over self-training", fontsize=TEXT)
    right.legend(fontsize=TEXT - 1, frameon=False)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("weight of certain to uncertain pixels", fontsize=TEXT)
        axes.set_xticks(RATIOS, list(WEIGHTS))
        axes.tick_params(labelsize=TEXT - 1)
        axes.grid(color="0.9")
    missing = [label for label, one in zip(WEIGHTS, found, strict=True) if not one.dice]
    caption = (
        f"{title_of(scans)}: CoraNet by the ratio of its two weights, means over "
        f"{seeds_in_words(max(len(one.dice) for one in there))}; bars are the deviation over seeds."
        + (f" Missing, for want of finished runs: {', '.join(missing)}." if missing else "")
    )
    return Picture(name=f"weights-{scans}", figure=figure, caption=caption)
