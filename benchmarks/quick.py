"""Which method for a first try without a GPU? Rows of equal CPU time by `--preset quick`, on development cases.

    python benchmarks/quick.py phantom hippocampus=Task04_Hippocampus,docs/splits/hippocampus-10.json \
        sunnybrook=sunnybrook,1:4 --development 40 --minutes 10 --seeds 5 --threads 2 --out DIR

Sets are given as for uncertainty.py, whose first lines say how. A row is a method with its settings, as `coranet compare`
takes it. A run has as many steps as take so many minutes; what a step takes is measured in seconds of all cores that it
uses, so that other work on the machine gives no row fewer. Writes a line for each run to DIR/quick.csv, and the means.
What is finished is not made again.

Thirty such runs take two cores five hours. So `--plan FILE --count` only measures, and writes what each row amounts to;
then `--plan FILE --device cuda` trains just that, as many steps of the same size, on a GPU.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from coranet.data.datasets.folder import read_folder
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run, versions
from coranet.engine.timing import estimate
from coranet.engine.timing.pace import paced
from coranet.evaluation import evaluate
from coranet.metrics import by_patient, compare
from coranet.runs.launch import train
from coranet.runs.machine.device import find_device
from coranet.runs.machine.machine_load import use_threads
from coranet.runs.options import Options
from coranet.runs.row_text import field_path, parse_row, run_name
from coranet.runs.run_plan import make_run
from uncertainty import Source, add_shared, find_source

ROWS = ("supervised", "coranet:plus")


def measure(source: Source, row: str, seed: int, asked: argparse.Namespace) -> dict[str, object]:
    """Train and score one run; its Dice by patient."""
    folder = asked.out / source.name / run_name(row, seed)
    if (folder / "figures.json").exists():
        return dict(json.loads((folder / "figures.json").read_text()))
    begun = time.process_time()
    options = options_of(source, row, seed, asked, planned(asked).get(source.name, {}).get(row))
    train(source.data, folder / "run", options, resume=(folder / "run/run.json").exists(), say=print)
    seconds = time.process_time() - begun
    cases = {case.name: case for case in read_folder(source.data).cases}
    part, out = cases[source.split.test[0]].part, folder / "predictions"
    Trained.load(folder / "run", find_device(asked.device)).predict_files(
        source.data / f"images{part}", out, only=source.split.test
    )
    scores = evaluate(out, source.data / f"labels{part}")
    figures: dict[str, object] = {
        "set": source.name,
        "row": row,
        "seed": seed,
        "dice": scores.mean()["dsc"].mean,
        "missed": sum(score.dsc == 0 for score in scores.rows),
        "objects": len(scores.rows),
        "steps": Run.read(folder / "run").train.steps,
        "seconds": round(seconds),
        "commit": versions()["commit"],
        "patients": by_patient(scores.by_case("dsc"), {name: case.patient for name, case in cases.items()}),
    }
    (folder / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    return figures


def options_of(source: Source, row: str, seed: int, asked: argparse.Namespace, plan: dict[str, str] | None) -> Options:
    """What a row is told: to take so many minutes, or what was planned."""
    folder = asked.out / source.name / run_name(row, seed)
    folder.mkdir(parents=True, exist_ok=True)
    source.split.write(folder / "split.json")
    method, fields = parse_row(row)
    overrides = {field_path(name): value for name, value in fields.items()} | (plan or {})
    return Options(
        method=method,
        preset="quick",
        minutes=None if plan else asked.minutes,
        seed=seed,
        split=folder / "split.json",
        overrides=tuple(overrides.items()),
        device=asked.device,
        cache=asked.out / "cache",
        threads=asked.threads,
    )


def planned(asked: argparse.Namespace) -> dict[str, dict[str, dict[str, str]]]:
    """By set and row, the settings that make a run what it is on this machine."""
    return dict(json.loads(asked.plan.read_text())) if asked.plan and asked.plan.exists() else {}


def count(source: Source, row: str, asked: argparse.Namespace) -> None:
    """Measure a step of a row, and add to the plan what it amounts to."""
    device = find_device(asked.device)
    use_threads(asked.threads, device, print)
    run, store = make_run(source.data, options_of(source, row, 0, asked, None), device)
    run = paced(run, store, device, asked.minutes, say=print)
    settings = {
        "train.steps": str(run.train.steps),
        "train.batch": json.dumps(run.train.batch),
        "net.width": str(run.net.width),
    }
    plan = planned(asked)
    plan.setdefault(source.name, {})[row] = settings
    asked.plan.write_text(json.dumps(plan, indent=1) + "\n")


def table(runs: list[dict[str, object]], first: str) -> str:
    """Means over seeds, and the difference to the first row with its interval over patients."""
    lines = [
        "| set | row | seeds | Dice, mean and spread of seeds | ahead of the first, 95 % | missed | steps |",
        "|" + "---|" * 7,
    ]
    for name, row in dict.fromkeys((str(run["set"]), str(run["row"])) for run in runs):
        mine, other = ([run for run in runs if (run["set"], run["row"]) == (name, which)] for which in (row, first))
        dice = np.array([run["dice"] for run in mine], float)
        ahead = compare(_by_patient(mine), _by_patient(other)) if row != first else None
        lines.append(
            f"| {name} | `{row}` | {len(mine)} | {100 * dice.mean():.1f} ± {100 * dice.std(ddof=len(mine) > 1):.1f} | "
            + (f"{100 * ahead.difference:+.1f} ({100 * ahead.low:+.1f} to {100 * ahead.high:+.1f})" if ahead else "")
            + f" | {sum(int(str(run['missed'])) for run in mine)} of {sum(int(str(run['objects'])) for run in mine)}"
            f" | {mine[0]['steps']} |"
        )
    return "\n".join(lines)


def _by_patient(runs: list[dict[str, object]]) -> dict[str, float]:
    scores: list[dict[str, float]] = [run["patients"] for run in runs]  # type: ignore[misc]
    return {patient: float(np.mean([score[patient] for score in scores])) for patient in scores[0]}


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared(parser)
    parser.add_argument("--rows", nargs="+", default=ROWS)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--plan", type=Path, help="what each row amounts to")
    parser.add_argument("--count", action="store_true", help="write it, and train nothing")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    cores = asked.threads or 1
    estimate.time = SimpleNamespace(monotonic=lambda: time.process_time() / cores)  # type: ignore[assignment, attr-defined]
    runs: list[dict[str, object]] = []
    sources = [find_source(text, asked) for text in asked.sets]
    if asked.count:
        for source in sources:
            for row in asked.rows:
                count(source, row, asked)
        return
    for seed in range(asked.seeds):
        for source in sources:
            for row in asked.rows:
                runs.append(measure(source, row, seed, asked))
                print({name: value for name, value in runs[-1].items() if name != "patients"}, flush=True)
                write(runs, asked.out / "quick.csv")
                print(table(runs, asked.rows[0]), flush=True)


def write(runs: list[dict[str, object]], file: Path) -> None:
    """A line for each run."""
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, [name for name in runs[0] if name != "patients"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(runs)


if __name__ == "__main__":
    main()
