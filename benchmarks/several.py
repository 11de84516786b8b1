"""How much faster one run is on several GPUs of a machine: seconds a step with one process, two, four.

    python benchmarks/several.py --gpus 1 2 4

Trains CoraNet on volumes of a phantom with windows of 96 x 96 x 96 and 8 + 8 of them a step, whatever the number of
processes, so that each has its share. The first steps are left out. What it must show for a claim: 1.8 times on two GPUs,
3.4 times on four. `--device cpu` tries the script itself where there is no GPU, with small windows; processes that share
cores say nothing about speed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from coranet.data.datasets.phantom import Phantom, write_folder

START = "import sys; from coranet.runs.machine.spread import spread; sys.exit(spread(sys.argv[2:], int(sys.argv[1])))"


def main() -> None:
    """Train with each number of processes, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    gpu = given.device != "cpu"
    side = 96 if gpu else 16
    with tempfile.TemporaryDirectory() as room:
        scans = write_folder(
            Path(room) / "scans", Phantom(shape=(2 * side, 2 * side, side)), seed=1, labelled=8, unlabelled=16, test=1
        )
        alone: float | None = None
        for count in given.gpus:
            seconds = step_seconds(scans, Path(room) / f"run{count}", count, given.steps, side, gpu=gpu)
            alone = alone or seconds * count
            print(f"{count} processes: {1000 * seconds:.1f} ms a step, {alone / seconds:.2f} times one process")


def step_seconds(scans: Path, out: Path, count: int, steps: int, side: int, *, gpu: bool) -> float:
    """Of the second half of a run."""
    small = [] if gpu else ["--set", "net.width=4", "--set", "net.levels=2", "--device", "cpu"]
    words = ["train", str(scans), "--out", str(out), "--dims", "3", "--method", "coranet", "--steps", str(steps)]
    words += [
        "--patch",
        *[str(side)] * 3,
        "--val",
        "0",
        "--set",
        "train.batch=[8,8]",
        "--set",
        "train.checks=0",
        *small,
    ]
    subprocess.run([sys.executable, "-c", START, str(count), *words], check=True, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    half = next(line for line in lines if line["step"] >= steps // 2)
    return float((lines[-1]["seconds"] - half["seconds"]) / (lines[-1]["step"] - half["step"]))


if __name__ == "__main__":
    main()
