"""Runs repeated with several seeds, side by side: the table that a comparison ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import mean, stdev

from coranet.evaluation import Scores
from coranet.files import write_atomically
from coranet.metrics import Comparison, Summary, by_patient, compare, summarise
from coranet.report.numbers import FACTS, MEASURES, TableRow, csv_text, failures, in_points, markdown, number, p_value
from coranet.report.run_files import FinishedRun, patients_of, read_runs


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the seeds of a run say together. A case is worth its mean over seeds, a patient that of its cases."""

    name: str
    each: tuple[float, ...]
    """Mean DSC of every seed."""
    patients: Summary
    """DSC over patients."""
    measures: Mapping[str, float]
    """The mean of every other one of `MEASURES`, over cases and seeds."""
    failures: str
    """Objects missed or invented, of all seeds together."""
    facts: Mapping[str, float]
    """Each of `FACTS`, over seeds."""
    ahead: Comparison | None
    """DSC of each patient against another run's; None for that run itself."""

    @property
    def std(self) -> float:
        """Over seeds; NaN for a single one."""
        return stdev(self.each) if len(self.each) > 1 else float("nan")


def standings(repeats: Sequence[Mapping[str, Path]], against: str | None = None) -> list[Standing]:
    """Every run over its seeds.

    Args:
        repeats: the runs by name, once for each seed.
        against: the run that others are held against; the first where none is named.

    Raises:
        InputError: a run lacks a file, or runs were not scored on the same cases.
    """
    seeds = [{run.name: run for run in read_runs(runs)} for runs in repeats]
    base = against or next(iter(seeds[0]))
    return [standing(name, [runs[name] for runs in seeds], [runs[base] for runs in seeds]) for name in seeds[0]]


def standing(name: str, runs: Sequence[FinishedRun], base: Sequence[FinishedRun]) -> Standing:
    """A run over its seeds, held against another over its own, which may be more or fewer. All have the same cases."""
    patients = patients_of(runs[0].folder.parent, [run.scores for run in runs])
    dice, theirs = (by_patient(_over_seeds([run.scores for run in some], "dsc"), patients) for some in (runs, base))
    return Standing(
        name=name,
        each=tuple(run.scores.mean_of("dsc") for run in runs),
        patients=summarise(list(dice.values())),
        measures={name: mean(run.scores.mean_of(name) for run in runs) for name in MEASURES if name != "dsc"},
        failures=failures(run.scores for run in runs),
        facts={title: fact.value(runs) for title, fact in FACTS.items()},
        ahead=None if name == base[0].name else compare(dice, theirs),
    )


def seeds_text(repeats: Sequence[Mapping[str, Path]], against: str | None = None) -> list[TableRow]:
    """For each run mean DSC over seeds, its spread, every seed's, and how far it is ahead of another run, over patients.

    Args and errors are those of `standings`.
    """
    found = standings(repeats, against)
    return [_dice_columns(one, _base_of(found)) for one in found]


def comparison_text(found: Sequence[Standing]) -> list[TableRow]:
    """The same with intervals over patients, distances, failures and what each run cost."""
    return [
        {
            **_dice_columns(one, _base_of(found)),
            "95 % over patients": f"{100 * one.patients.low:.1f} to {100 * one.patients.high:.1f}",
            **{
                MEASURES[name].title: number(value, MEASURES[name].digits)
                for name, value in one.measures.items()
                if MEASURES[name].brief
            },
            "failures": one.failures,
            **{title: number(value, FACTS[title].digits) for title, value in one.facts.items()},
        }
        for one in found
    ]


def write_comparison(folder: Path, found: Sequence[Standing], errors: Mapping[str, str]) -> list[TableRow]:
    """Write table.md and table.csv; runs that failed come last, with their error. Returns the rows as text.

    Raises:
        InputError: a file cannot be written.
    """
    failed = [{"run": name, "error": error} for name, error in errors.items()]
    rows = [*comparison_text(found), *failed]
    numbers: list[Mapping[str, str | float]] = [*map(_plain, found), *failed]
    write_atomically(folder / "table.md", f"{markdown(rows)}\n".encode())
    write_atomically(folder / "table.csv", csv_text(numbers).encode())
    return rows


def _dice_columns(one: Standing, base: str) -> TableRow:
    spread = f" ± {100 * one.std:.1f}" if len(one.each) > 1 else ""
    ahead = one.ahead
    return {
        "run": one.name,
        "DSC %, mean ± std over seeds": f"{100 * mean(one.each):.1f}{spread}",
        "each seed": ", ".join(f"{100 * value:.1f}" for value in one.each),
        f"ahead of {base} [95 % over patients]": "" if ahead is None else f"{in_points(ahead)}, {p_value(ahead.p)}",
    }


def _plain(one: Standing) -> dict[str, str | float]:
    """Numbers in full, DSC as a share of one."""
    ahead = {name: getattr(one.ahead, name) for name in ("difference", "low", "high", "p")} if one.ahead else {}
    return {
        "run": one.name,
        "dsc": mean(one.each),
        "dsc_std_over_seeds": "" if len(one.each) == 1 else one.std,
        "dsc_low": one.patients.low,
        "dsc_high": one.patients.high,
        **{f"ahead_{name}": ahead.get(name, "") for name in ("difference", "low", "high", "p")},
        **one.measures,
        "seeds": len(one.each),
        "patients": one.patients.n,
        "failures": one.failures,
        **{title: _short(value, FACTS[title].digits + 1) for title, value in one.facts.items()},
    }


def _base_of(found: Sequence[Standing]) -> str:
    return next(one.name for one in found if one.ahead is None)


def _over_seeds(scores: Sequence[Scores], metric: str) -> dict[str, float]:
    """Each case's value, averaged over seeds."""
    each = [one.by_case(metric) for one in scores]
    return {case: mean(by_case[case] for by_case in each) for case in each[0]}


def _short(value: float, digits: int) -> float | str:
    """Rounded, and a whole number as such; nothing where no log says it."""
    return "" if isnan(value) else int(value) if float(value).is_integer() else round(value, digits)
