"""Predictions that stand out by their size, before there is a label to hold them against."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

FAR_SMALLER = 0.2
"""Of the median of all scans: below it a scan is named. Organs of grown patients seldom differ fivefold."""


def odd_sizes(sizes: Mapping[str, Mapping[str, float]], named: int = 5) -> list[str]:
    """What to look at first, a sentence for each class that is missing somewhere or far smaller than elsewhere.

    A class that most scans do not hold, such as a tumour, has no usual size, and none of them stands out.

    Args:
        sizes: by case and class, in any unit.
        named: at most so many cases of a class, the smallest first.
    """
    said = []
    for kind in next(iter(sizes.values()), {}):
        found = {case: of[kind] for case, of in sizes.items()}
        usual = median(found.values())
        odd = sorted((size, case) for case, size in found.items() if size < FAR_SMALLER * usual)
        if not any(found.values()):
            said.append(
                f"No {kind} was found in {'the scan' if len(found) == 1 else f'any of the {len(found)} scans'}."
            )
        elif odd:
            listed = ", ".join(f"{case} ({100 * size / usual:.1f} %)" for size, case in odd[:named])
            more = f" and {len(odd) - named} more" if len(odd) > named else ""
            said.append(
                f"Far less {kind} than in the other scans, in % of their median: {listed}{more}. Look there first."
            )
    return said
