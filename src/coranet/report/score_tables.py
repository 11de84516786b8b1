"""The scores of runs in words: the rows of every table about them, each a text by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isnan
from pathlib import Path

from coranet.evaluation import Scores
from coranet.metrics import compare
from coranet.report.numbers import FACTS, MEASURES, NOTHING, WORK, TableRow, failures, number, p_value, with_interval
from coranet.report.run_files import FinishedRun, read_runs


def table_text(runs: Mapping[str, Path]) -> list[TableRow]:
    """The table of the console.

    Raises:
        InputError: a run lacks a file, or runs were not scored on the same cases.
    """
    return [console_row(run) for run in read_runs(runs)]


def console_row(run: FinishedRun) -> TableRow:
    """Mean DSC with its interval, DSC by class, the other brief measures, failures, and the work that was done."""
    mean = run.scores.mean()
    by_class = {f"DSC {name}": of["dsc"] for name, of in run.scores.per_class().items()}
    others = {name: measure for name, measure in MEASURES.items() if measure.brief and name != "dsc"}
    return {
        "run": run.name,
        "DSC": with_interval(mean["dsc"], 3),
        **{title: number(summary.mean, 3) for title, summary in by_class.items()},
        **{measure.title: number(mean[name].mean, measure.digits) for name, measure in others.items()},
        "failures": failures([run.scores]),
        **{title: FACTS[title].text([run]) for title in WORK},
    }


def score_row(run: FinishedRun) -> TableRow:
    """Each measure over cases, with its interval, failures, and the work that was done."""
    mean = run.scores.mean()
    shown = {measure.title: with_interval(mean[name], measure.digits) for name, measure in MEASURES.items()}
    work = {title: FACTS[title].text([run]) for title in WORK}
    return {"run": run.name, **shown, "failures": failures([run.scores]), **work}


def class_rows(run: FinishedRun) -> list[TableRow]:
    """For each class each measure over the cases that have it, with its interval, and failures."""
    return [
        {
            "class": name,
            "run": run.name,
            **{measure.title: with_interval(of[metric], measure.digits) for metric, measure in MEASURES.items()},
            "failures": failures([Scores(rows=tuple(row for row in run.scores.rows if row.class_name == name))]),
        }
        for name, of in run.scores.per_class().items()
    ]


def difference_row(run: FinishedRun, base: FinishedRun) -> TableRow:
    """Each measure's mean over cases of run minus base, with its interval and p."""

    def text(metric: str, digits: int) -> str:
        found = compare(run.scores.by_case(metric), base.scores.by_case(metric))
        return NOTHING if isnan(found.difference) else f"{with_interval(found, digits)}, {p_value(found.p)}"

    pair = {"run": f"{run.name} − {base.name}"}
    return pair | {measure.title: text(metric, measure.digits) for metric, measure in MEASURES.items()}


def failure_rows(runs: Sequence[FinishedRun]) -> list[TableRow]:
    """Every object that was missed or invented."""
    return [
        {
            "case": row.case,
            "class": row.class_name,
            "run": run.name,
            "failure": row.status,
            "voxels": str(row.label_voxels if row.status == "missed" else row.prediction_voxels),
        }
        for run in runs
        for row in run.scores.rows
        if row.status in ("missed", "invented")
    ]


def case_rows(runs: Sequence[FinishedRun]) -> list[TableRow]:
    """DSC of every case by every run; the first run's worst first."""
    dice = {run.name: run.scores.by_case("dsc") for run in runs}
    first = dice[runs[0].name]
    cases = dict.fromkeys(case for values in dice.values() for case in values)
    ranked = sorted(cases, key=lambda case: inf if isnan(first.get(case, inf)) else first.get(case, inf))
    return [
        {"case": case, **{name: number(values[case], 3) for name, values in dice.items() if case in values}}
        for case in ranked
    ]
