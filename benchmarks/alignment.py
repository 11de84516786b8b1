"""How often labels that were turned on purpose are found out, on real scans.

    python benchmarks/alignment.py DATA [--dataset NAME] [--cases 200]

The labels of a dataset are judged as they lie, mirrored along each axis, and with x and y swapped. Printed for each: the
share of cases that are right alone, the patients' verdict, and the verdicts of 200 random groups of 3, 5 and 10 patients.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

from coranet.data.alignment import AS_IT_LIES, Turn, fits, judge
from coranet.data.datasets import read_dataset

TURNS = (
    AS_IT_LIES,
    Turn(mirror=(True, False, False)),
    Turn(mirror=(False, True, False)),
    Turn(mirror=(False, False, True)),
    Turn(mirror=(True, True, False)),
    Turn((1, 0, 2)),
)
"""Each undoes itself."""

Found = list[tuple[str, dict[Turn, float]]]


def verdict_of(found: Found, done: Turn) -> str:
    """In one word."""
    verdict = judge(found)
    if verdict is None or not verdict.clear:
        return "not clear"
    return "right" if verdict.turn == done else "WRONG"


def groups_of(found: Found, done: Turn, size: int) -> str:
    """The verdicts of random groups of patients, in per cent."""
    rng = np.random.default_rng(0)
    patients = sorted({patient for patient, _ in found})
    if len(patients) < size:
        return "-"
    counts: Counter[str] = Counter()
    for _ in range(200):
        chosen = set(rng.choice(patients, size, replace=False))
        counts[verdict_of([case for case in found if case[0] in chosen], done)] += 1
    return ", ".join(f"{word} {count / 2:.0f} %" for word, count in counts.most_common())


def main() -> None:
    """Read the cases once, turn their labels, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--dataset", default="folder")
    parser.add_argument("--cases", type=int, default=200)
    arguments = parser.parse_args()
    labelled = [case for case in read_dataset(arguments.data, arguments.dataset).cases if case.label]
    labelled = labelled[:: max(1, len(labelled) // arguments.cases)]
    results: dict[Turn, Found] = {turn: [] for turn in TURNS}
    for case in labelled:
        assert case.label is not None
        image, label = case.images[0].read().array, case.label.read().array
        for turn in TURNS:
            if label.any() and (label.shape[2] > 1 or not turn.mirror[2]):
                results[turn].append((case.patient, fits(image, turn.apply(label))))
    for done, found in results.items():
        if not found:
            continue
        alone = np.mean([max(case, key=case.__getitem__) == done for _, case in found])
        patients = len({patient for patient, _ in found})
        print(f"{done}: {len(found)} cases of {patients} patients, alone right {100 * alone:.1f} %", end="; ")
        print(f"together {verdict_of(found, done)}", end="; ")
        print("; ".join(f"by {size}: {groups_of(found, done, size)}" for size in (3, 5, 10)))


if __name__ == "__main__":
    main()
