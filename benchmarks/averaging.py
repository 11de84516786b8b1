"""What averaged copies, averaged runs and the largest component are worth, on cases that choices may be made on.

    python benchmarks/averaging.py RUN RUN RUN --scans imagesTr --labels labelsTr --cases unlabelled --out averaging.csv

The runs are seeds of one training. Each way predicts the same cases of their split, never test cases. Unlabelled cases
whose truth is known serve too: runs have not seen it. A run's own Dice is averaged over runs before it is compared with
that of all runs together, case by case; intervals are over cases. The file receives every score.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from coranet.engine.prediction.average import symmetries
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run
from coranet.evaluation import Scores, evaluate
from coranet.metrics import compare, summarise


@dataclass(frozen=True)
class Way:
    """A way to predict."""

    name: str
    together: bool = False
    """All runs as one, or each alone."""
    tta: bool = False
    largest_component: bool = False


WAYS = (
    Way("one run"),
    Way("one run, largest component", largest_component=True),
    Way("one run, copies", tta=True),
    Way("all runs", together=True),
    Way("all runs, copies", together=True, tta=True),
    Way("all runs, copies, largest component", together=True, tta=True, largest_component=True),
)


def main() -> int:
    """Predict each way, score it, compare it with the first."""
    asked = _arguments()
    device = torch.device(asked.device)
    runs = [Run.read(folder) for folder in asked.runs]
    copies = [len(symmetries(run.data.augment, run.data.window.size)) for run in runs]
    print(f"{len(runs)} runs; views of each image that training showed: {', '.join(map(str, copies))}", flush=True)
    cases = sorted(getattr(runs[0].split, asked.cases))[: asked.first]
    dice: dict[str, dict[str, float]] = {}
    lines: list[dict[str, Any]] = []
    for way in WAYS:
        if way.tta and min(copies) == 1:
            continue
        every = [score(way, folders, cases, device, asked) for folders in groups(way, asked.runs)]
        dice[way.name] = {case: fmean(one.by_case("dsc")[case] for one in every) for case in cases}
        lines += [{"way": way.name, "case": case, "dsc": round(value, 5)} for case, value in dice[way.name].items()]
        print(line_of(way.name, dice, every), flush=True)
    if asked.out:
        with asked.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, ("way", "case", "dsc"))
            writer.writeheader()
            writer.writerows(lines)
    return 0


def groups(way: Way, runs: Sequence[Path]) -> Iterator[Sequence[Path]]:
    """The runs that answer as one."""
    yield from [runs] if way.together else ([run] for run in runs)


def score(
    way: Way, folders: Sequence[Path], cases: Sequence[str], device: torch.device, asked: argparse.Namespace
) -> Scores:
    """Of predictions that are thrown away afterwards."""
    trained = Trained.load(
        folders, device, uncertainty=False, tta=way.tta, largest_component=way.largest_component, trust=asked.trust
    )
    with tempfile.TemporaryDirectory() as out:
        trained.predict_files(asked.scans, Path(out), only=cases)
        return evaluate(Path(out), asked.labels)


def line_of(name: str, dice: dict[str, dict[str, float]], every: Sequence[Scores]) -> str:
    """A row of the table: mean Dice, gain over the first way with its interval, objects missed."""
    found, base = summarise(list(dice[name].values())), next(iter(dice))
    gain = compare(dice[name], dice[base])
    missed = sum(row.status == "missed" for scores in every for row in scores.rows) / len(every)
    change = "" if name == base else f"{100 * gain.difference:+.2f} [{100 * gain.low:+.2f}, {100 * gain.high:+.2f}]"
    return f"| {name} | {100 * found.mean:.2f} | {change} | {missed:.1f} | {found.n} |"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--scans", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--cases", choices=("unlabelled", "val"), default="val", help="of the runs' split")
    parser.add_argument("--first", type=int, help="so many of them, in order of their names")
    parser.add_argument("--out", type=Path, help="a CSV of every score")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--trust", action="store_true", help="as in `coranet predict`")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
