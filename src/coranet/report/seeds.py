"""Runs repeated with several seeds, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from coranet.evaluation import Scores
from coranet.metrics import compare
from coranet.report.numbers import TableRow
from coranet.report.runs import read_runs


def seeds_text(repeats: Sequence[Mapping[str, Path]]) -> list[TableRow]:
    """For each run mean DSC over seeds, its spread, every seed's, and how far it is ahead of the first run, over cases.

    Args:
        repeats: the runs by name, once for each seed.

    Raises:
        InputError: a run lacks a file, or runs were not scored on the same cases.
    """
    scored = [{run.name: run.scores for run in read_runs(runs)} for runs in repeats]
    first, rows = next(iter(scored[0])), []
    for name in scored[0]:
        values = [100 * scores[name].mean()["dsc"].mean for scores in scored]
        spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
        ahead = compare(_over_seeds([s[name] for s in scored]), _over_seeds([s[first] for s in scored]))
        rows.append(
            {
                "run": name,
                "DSC %, mean ± std over seeds": f"{mean(values):.1f}{spread}",
                "each seed": ", ".join(f"{value:.1f}" for value in values),
                f"ahead of {first} [95 % over cases]": ""
                if name == first
                else f"{100 * ahead.difference:+.1f} [{100 * ahead.low:+.1f}, {100 * ahead.high:+.1f}]",
            }
        )
    return rows


def _over_seeds(scores: Sequence[Scores]) -> dict[str, float]:
    """Each case's DSC, averaged over seeds."""
    each = [one.by_case("dsc") for one in scores]
    return {case: mean(by_case[case] for by_case in each) for case in each[0]}
