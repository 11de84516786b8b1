"""Which predictions to look at first: what a run knows of its cases, written beside them and said in a few lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from math import isnan
from pathlib import Path

from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Data
from coranet.evaluation.folders import class_maps
from coranet.evaluation.oddities import Usual
from coranet.evaluation.quality import CASES, Quality, judge, why, write_qualities
from coranet.metrics.case_facts import CaseFacts

NAMED = 5
"""Cases that are said; the file has all."""


def usual_of(data: Data) -> Usual:
    """What training cases were like, as far as the run tells."""
    return Usual(sizes=data.volumes, places=data.places, looks=data.looks)


def judge_predictions(
    trained: Trained, found: Mapping[str, CaseFacts], out: Path, refused: Iterable[str] = ()
) -> tuple[Quality, ...]:
    """Write `cases.csv` beside predictions; returns its rows, worst case first, before it those that were refused."""
    rows = judge(found, usual_of(trained.run.data), trained.fitted.cases if trained.fitted else None, refused)
    write_qualities(out, rows)
    return rows


def worst(rows: Sequence[Quality], found: Mapping[str, CaseFacts]) -> list[str]:
    """The first cases, a line each with why, and where the others are."""
    known = (row for row in rows if row.case in found)
    cases = [(next(group), list(group)) for _, group in groupby(known, key=lambda row: row.case)]
    said = {row.case: why(row, of) or _doubt(found[row.case]) for row, of in cases[:NAMED]}
    lines = [f"  {case}: {reason}" for case, reason in said.items() if reason]
    if lines:
        lines.insert(0, f"Look at these first (all of them, worst first: {CASES}):")
    if all(isnan(row.expected) for row in rows) and any(map(_has_doubt, found.values())):
        lines.append("How good a case will be is not known yet: coranet calibrate RUN fits it on the labelled cases.")
    return lines


def from_before(out: Path, cases: Collection[str]) -> list[str]:
    """What is to be said of label maps in a folder that are of other scans: who scores it would score them too."""
    others = [case for case in class_maps(out) if case not in cases]
    if not others:
        return []
    some = ", ".join(others[:NAMED]) + (", ..." if len(others) > NAMED else "")
    return [
        f"{out} holds label maps from before, which are not in {CASES}: {some}. If another run made them, move them away: "
        "coranet evaluate would score them too."
    ]


def _has_doubt(facts: CaseFacts) -> bool:
    """Whether the case was predicted with its uncertainty."""
    return any(not isnan(of.expected) for of in facts.classes.values())


def _doubt(facts: CaseFacts) -> str:
    if not any(facts.sizes.values()):
        return "nothing was found"
    return f"what is uncertain is {100 * facts.doubt:.0f} % of what was found, by volume" if _has_doubt(facts) else ""
