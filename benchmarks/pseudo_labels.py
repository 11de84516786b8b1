"""How good are the pseudo-labels, and does the uncertain region hold their mistakes?

    python benchmarks/pseudo_labels.py --methods coranet,coranet:repaired --seeds 5 --out pseudo_labels.csv

Trains on the demo's phantom and, at every refresh, compares what is kept for the unlabelled patients with their hidden
truth. The truth is read here alone; training never sees it.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np
import torch

from coranet.data.readers import nifti
from coranet.engine.log import Listener, Refresh
from coranet.engine.trainer import Trainer
from coranet.runs.demonstration import Demo, prepare_demo
from coranet.runs.options import Options
from coranet.runs.run_plan import make_run


class TruthWatch(Listener):
    """Notes, at every refresh, how pseudo-labels compare with the truth."""

    def __init__(self, truth: torch.Tensor) -> None:
        self.truth = truth
        self.rows: list[dict[str, float]] = []

    def on_refresh(self, refresh: Refresh) -> None:
        """One more row."""
        label, certain = torch.stack(refresh.memory["label"]), torch.stack(refresh.memory["certain"]).bool()
        wrong = label != self.truth
        dice = []
        for value in range(1, refresh.run.classes):
            mine, theirs = label == value, self.truth == value
            dice.append(float(2 * (mine & theirs).sum() / (mine.sum() + theirs.sum())))
        self.rows.append(
            {
                "step": refresh.step,
                "dice": round(100 * float(np.mean(dice)), 2),
                "wrong_percent": round(100 * float(wrong.float().mean()), 3),
                "uncertain_percent": round(100 * float((~certain).float().mean()), 3),
                "wrong_held_by_uncertain_percent": round(100 * float((wrong & ~certain).sum() / wrong.sum()), 2),
                "wrong_and_certain_percent": round(100 * float((wrong & certain).float().mean()), 3),
            }
        )


def watch(demo: Demo, method: str) -> list[dict[str, float]]:
    """Train one method and return a row for each refresh."""
    options = Options(method=method, steps=demo.steps, seed=demo.seed, device="cpu", cache=demo.out / "cache")
    run, store = make_run(demo.data, options, torch.device("cpu"))
    volumes = [nifti.read(demo.data / "labelsHidden" / f"{case}.nii.gz").array for case in run.split.unlabelled]
    watching = TruthWatch(torch.from_numpy(np.concatenate([np.moveaxis(volume, 2, 0) for volume in volumes])))
    with tempfile.TemporaryDirectory() as folder:
        Trainer(run, store, Path(folder), torch.device("cpu"), [watching]).fit()
    return watching.rows


def main() -> None:
    """Every method and seed, into one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="coranet,coranet:repaired")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("runs/demo"))
    parser.add_argument("--out", type=Path, default=Path("pseudo_labels.csv"))
    arguments = parser.parse_args()
    rows = []
    for seed in range(arguments.seeds):
        demo = Demo(out=arguments.data, seed=seed)
        prepare_demo(demo)
        for method in arguments.methods.split(","):
            rows += [{"method": method, "seed": seed, **row} for row in watch(demo, method)]
            print(*rows[-5:], sep="\n")
            with arguments.out.open("w", newline="") as file:
                writer = csv.DictWriter(file, rows[0])
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
