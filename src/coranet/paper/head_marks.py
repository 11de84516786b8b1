"""When each head begins to mark each object: how much of unlabelled images it marks, at every refresh.

Reads what finished runs kept (`maps/`), and no truth; leaves `marks.json` in each run's folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coranet.engine.run import Run
from coranet.files import write_atomically

MARKS = "marks.json"
HEADS = ("main", "con", "rad")


def write_all_marks(folders: Sequence[Path]) -> None:
    """Of every finished run that kept maps, once."""
    for folder in folders:
        files = sorted((folder / "maps").glob("*.npz"))
        if files and (folder / "scores.csv").exists() and not (folder / MARKS).exists():
            run = Run.read(folder)
            epochs = sum(phase.epochs for phase in run.method.phases) / run.train.steps
            looks = [{"step": int(file.stem), "epoch": epochs * int(file.stem), **marks_in(file)} for file in files]
            write_atomically(folder / MARKS, (json.dumps({"looks": looks}, indent=1) + "\n").encode())


def marks_in(file: Path) -> dict[str, float]:
    """The share of all pixels that each head gives to each object, by `<head>.<object>`."""
    with np.load(file) as kept:
        objects = sorted(int(name.partition(".")[2]) for name in kept.files if name.startswith("con."))
        label = kept["label"]
        found = {f"main.{k}": float((label == k).mean()) for k in objects}
        return found | {f"{head}.{k}": float((kept[f"{head}.{k}"] > 127).mean()) for head in HEADS[1:] for k in objects}
