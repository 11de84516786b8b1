"""Predictions that stand out by their size, before there is a label to hold them against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

FAR_SMALLER = 0.2
"""Of the usual size: below it a scan is named. Organs of grown patients seldom differ fivefold."""


def odd_sizes(
    sizes: Mapping[str, Mapping[str, float]], trained: Mapping[str, Sequence[float]] | None = None, named: int = 10
) -> list[str]:
    """What to look at first, a sentence for each class that is missing somewhere or far smaller than it usually is.

    Usual is the median of the labelled cases or, where that is not known, of the predictions themselves. A class that most
    of them do not hold, such as a tumour, has no usual size, and no scan stands out.

    Args:
        sizes: by case and class, in millilitres.
        trained: by class, of the labelled cases that the run was trained on.
        named: at most so many cases of a class, the smallest first.
    """
    said = []
    for kind in next(iter(sizes.values()), {}):
        here = {case: of[kind] for case, of in sizes.items()}
        labelled = (trained or {}).get(kind, ())
        usual = median(labelled or here.values())
        odd = sorted((size, case) for case, size in here.items() if size < FAR_SMALLER * usual)
        if not any(here.values()):
            said.append(_nowhere(kind, list(here), usual, named))
        elif odd:
            others = "labelled cases that the run was trained on" if labelled else "other scans"
            listed = _listed([f"{case} ({100 * size / usual:.1f} %)" for size, case in odd], named)
            said.append(f"Far less {kind} than in the {others}, in % of their median: {listed}. Look there first.")
    return said


def _nowhere(kind: str, cases: list[str], usual: float, named: int) -> str:
    where = "the scan" if len(cases) == 1 else f"any of the {len(cases)} scans"
    expected = f", where labelled cases hold {usual:.3g} mL: {_listed(cases, named)}" if usual else ""
    return f"No {kind} was found in {where}{expected}."


def _listed(names: list[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
