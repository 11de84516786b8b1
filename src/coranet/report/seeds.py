"""Runs repeated with several seeds, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from coranet.report.numbers import TableRow
from coranet.report.runs import read_runs


def seeds_text(repeats: Sequence[Mapping[str, Path]]) -> list[TableRow]:
    """For each run mean DSC over seeds, its spread, every seed's, and by how much it is ahead of the first run.

    Args:
        repeats: the runs by name, once for each seed.

    Raises:
        InputError: a run lacks a file, or runs were not scored on the same cases.
    """
    scored = [{run.name: 100 * run.scores.mean()["dsc"].mean for run in read_runs(runs)} for runs in repeats]
    first, rows = next(iter(scored[0])), []
    for name in scored[0]:
        values = [scores[name] for scores in scored]
        ahead = [scores[name] - scores[first] for scores in scored]
        spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
        rows.append(
            {
                "run": name,
                "DSC %, mean ± std over seeds": f"{mean(values):.1f}{spread}",
                "each seed": ", ".join(f"{value:.1f}" for value in values),
                f"ahead of {first}": f"{mean(ahead):+.1f} ({min(ahead):+.1f} to {max(ahead):+.1f})",
            }
        )
    return rows
