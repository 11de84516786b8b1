"""One network for all classes or one for each, on labels alone or with unlabelled volumes: three dimensions, equal steps.

    python benchmarks/volumes.py Task04_Hippocampus --split docs/splits/hippocampus-20.json --out runs/volumes --seeds 0 1 2

Trains what is missing, predicts the split's test cases with the last checkpoint, scores them, and prints the table:
means over seeds, intervals over cases, differences to the first row with a paired test. Nothing here looks at test cases
before a run is over.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from coranet.engine.trained import Trained
from coranet.evaluation import evaluate
from coranet.experiments.launch import train
from coranet.experiments.options import Options
from coranet.report.seeds import seeds_text

ROWS = {
    "supervised": ("supervised", "native"),
    "supervised, binary": ("supervised", "binary"),
    "coranet": ("coranet", "native"),
    "coranet, binary": ("coranet", "binary"),
    "coranet:repaired": ("coranet:repaired", "native"),
}


def run_one(arguments: argparse.Namespace, name: str, seed: int) -> Path:
    """Train, predict and score one row with one seed; what is finished is not done again."""
    method, classes = ROWS[name]
    folder: Path = arguments.out / f"{name.replace(', ', '-').replace(':', '-')}-seed{seed}"
    if (folder / "scores.csv").exists():
        return folder
    options = Options(
        method=method,
        classes=classes,
        steps=arguments.steps,
        seed=seed,
        split=arguments.split,
        dims=3,
        device=arguments.device,
        cache=arguments.out / "cache",
        overrides=(("net.width", str(arguments.width)),),
    )
    train(arguments.data, folder, options, resume=(folder / "run.json").exists(), say=lambda line: print(name, line))
    trained = Trained.load(folder, torch.device(arguments.device))
    trained.predict_files(arguments.data / "imagesTr", folder / "predictions", only=trained.run.split.test)
    evaluate(folder / "predictions", arguments.data / "labelsTr").write_csv(folder / "scores.csv")
    seconds = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["seconds"]
    print(f"{name}, seed {seed}: {seconds:.0f} s", flush=True)
    return folder


def main() -> None:
    """Every row and seed, then the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/volumes"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    repeats = [{name: run_one(arguments, name, seed) for name in arguments.rows} for seed in arguments.seeds]
    for row in seeds_text(repeats):
        print(row)


if __name__ == "__main__":
    main()
