"""What the default reaches: the front page's table, from kept runs on test patients and from the demo's scores."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from coranet.metrics import by_patient, compare
from coranet.paper.pages.accuracy import DEFAULT_HEAD, LABELS_HEAD, LEAD_HEAD, front_rows, lead_over_nnunet
from coranet.report.numbers import TableRow, in_points, markdown

DEMO = ("generated hearts, on a CPU, 4 of 44 labelled", "e91ecb4")
"""The demo's own row, and the commit of its last runs."""


def front_part(runs: Path, scores: Path) -> str:
    """Mean Dice of what a user gets without asking, and what that is worth beside nnU-Net."""
    table = markdown([*front_rows(runs), _demo(scores / "demo.csv")])
    return f"{table}\n\n{lead_over_nnunet(runs)}"


def _demo(file: Path) -> TableRow:
    title, commit = DEMO
    with file.open(newline="", encoding="utf-8") as text:
        rows = [row for row in csv.DictReader(text) if row["commit"] == commit]
    labels, ours = (_patients(rows, method) for method in ("supervised", "coranet:plus"))
    return {
        "": title,
        LABELS_HEAD: f"{100 * mean(labels.values()):.1f}",
        DEFAULT_HEAD: f"{100 * mean(ours.values()):.1f}",
        LEAD_HEAD: in_points(compare(ours, labels)),
    }


def _patients(rows: Sequence[dict[str, str]], method: str) -> dict[str, float]:
    """Each patient's Dice, the mean over objects and seeds."""
    chosen = [row for row in rows if row["method"] == method]
    dice = {f"{row['case']}/{row['class']}/{row['seed']}": float(row["dice"]) for row in chosen}
    return by_patient(dice, {key: key.partition("/")[0] for key in dice})
