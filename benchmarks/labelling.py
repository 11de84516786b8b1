"""Does it pay to let the run choose what is labelled next? Rounds from a few labels, by several ways of choosing.

    python benchmarks/labelling.py hippocampus=Task04_Hippocampus,docs/splits/hippocampus-10.json --start 5 --add 5 \
        --rounds 3 --seeds 3 --steps 2000 --out DIR

Starts from the same labels for all ways. In each round a run is trained, the cases that are still unlabelled are asked
for by one way, their true labels are handed out, and the next round trains anew. Every run is scored on cases that are
never asked for. The ways:

    random       any of them
    uncertainty  most uncertain volume over predicted volume, no two alike (coranet next --first worst without a fit)
    expected     lowest expected Dice, no two alike (coranet next --first worst after coranet calibrate)
    covering     the scans that look most like those still to be labelled (coranet next); nothing is asked of the run
    needed       the same, each scan counting by what its expected Dice lacks
    oracle       lowest true Dice, which nobody knows

Writes DIR/curve.csv (set, way, seed, labels, Dice) and a table of means. What is finished is not made again.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from coranet.data.datasets.folder import read_folder
from coranet.data.splits.by_patient import Split
from coranet.engine.prediction.trained import Trained
from coranet.evaluation import evaluate
from coranet.evaluation.quality import read_qualities
from coranet.evaluation.selection import choose_next, choose_usual, need
from coranet.runs.fitting import Calibrate, calibrate_run
from coranet.runs.labelling import look_at_all, looks_of
from coranet.runs.launch import train
from coranet.runs.machine.device import find_device
from coranet.runs.options import Options
from uncertainty import Source, add_shared, find_source

WAYS = ("random", "uncertainty", "expected", "covering", "needed", "oracle")
FITTED = ("expected", "needed")


def learn(source: Source, split: Split, folder: Path, seed: int, arguments: argparse.Namespace) -> tuple[Path, float]:
    """Train on a split and score its test cases: the run, and its mean Dice."""
    done = folder / "dice.json"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        split.write(folder / "split.json")
        options = Options(
            preset=arguments.preset, method=arguments.method, steps=arguments.steps, seed=seed, dims=arguments.dims
        )
        where = replace(options, split=folder / "split.json", cache=arguments.out / "cache", device=arguments.device)
        begun = (folder / "run/run.json").exists()
        train(source.data, folder / "run", replace(where, threads=arguments.threads), resume=begun)
        trained = Trained.load(folder / "run", find_device(arguments.device))
        part = next(case.part for case in read_folder(source.data).cases if case.name == split.test[0])
        trained.predict_files(source.data / f"images{part}", folder / "test", only=split.test)
        scores = evaluate(folder / "test", source.data / f"labels{part}")
        done.write_text(json.dumps(scores.mean()["dsc"].mean))
    return folder / "run", float(json.loads(done.read_text()))


def ask(
    way: str, run: Path, source: Source, split: Split, n: int, seed: int, arguments: argparse.Namespace
) -> list[str]:
    """The cases to label next."""
    pool = list(split.unlabelled)
    if way == "random":
        return random.Random(f"{seed} {len(split.labelled)}").sample(pool, min(n, len(pool)))
    if way in FITTED and not (run / "calibration.json").exists():
        asked = Calibrate(
            run=run, folds=3, device=arguments.device, cache=arguments.out / "cache", threads=arguments.threads
        )
        calibrate_run(asked, say=lambda message: None, on_progress=lambda what, done, total: None)
    trained = Trained.load(run, find_device(arguments.device))
    if way not in FITTED:
        trained = replace(trained, fitted=None)
    cases = {case.name: case for case in read_folder(source.data).cases if case.name in pool}
    out = run.parent / f"asked-{way}"
    looks, _ = look_at_all(trained, cases, out, predict=True, on_progress=lambda what, done, total: None)
    needs: Mapping[str, float] = need(read_qualities(out))
    if way == "oracle":
        labels = source.data / f"labels{next(iter(cases.values())).part}"
        dice = evaluate(out, labels).by_case("dsc")
        return sorted(dice, key=lambda case: dice[case])[:n]
    if way in ("covering", "needed"):
        labelled = {case.name: case for case in read_folder(source.data).cases if case.name in split.labelled}
        known, _ = look_at_all(trained, labelled, out, predict=False)
        return choose_usual(looks, n, list(known.values()), needs if way == "needed" else None)
    return choose_next(needs, looks, n)


def draw(cases: Sequence[str], seed: int, n: int) -> list[str]:
    """So many by chance."""
    return random.Random(seed).sample(sorted(cases), n)


def begin(source: Source, way: str, seed: int, arguments: argparse.Namespace) -> list[str]:
    """The first labels, before there is any run: by chance, or as `coranet next SCANS` asks for them."""
    everyone = [*source.split.labelled, *source.split.unlabelled]
    if way != "covering":
        return draw(everyone, seed, arguments.start)
    cases = [case for case in read_folder(source.data).cases if case.name in everyone]
    return choose_usual(looks_of(cases)[0], arguments.start)


def rounds(source: Source, way: str, seed: int, arguments: argparse.Namespace) -> list[dict[str, object]]:
    """The curve of one way: Dice over labels."""
    everyone = [*source.split.labelled, *source.split.unlabelled]
    start = begin(source, way, seed, arguments) if arguments.cold else draw(everyone, seed, arguments.start)
    split = replace(
        source.split, labelled=tuple(start), unlabelled=tuple(case for case in everyone if case not in start)
    )
    curve: list[dict[str, object]] = []
    for number in range(arguments.rounds + 1):
        # The first round is the same for all ways, and is trained once, unless it is asked for too.
        first = f"start-{way}" if arguments.cold else "start"
        folder = arguments.out / f"{source.name}-seed{seed}" / (f"{way}-{number}" if number else first)
        run, dice = learn(source, split, folder, seed, arguments)
        curve.append({"set": source.name, "way": way, "seed": seed, "labels": len(split.labelled), "dice": dice})
        print(curve[-1], flush=True)
        if number < arguments.rounds:
            asked = ask(way, run, source, split, arguments.add, seed, arguments)
            left = tuple(case for case in split.unlabelled if case not in asked)
            split = replace(split, labelled=(*split.labelled, *asked), unlabelled=left)
    return curve


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared(parser)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--start", type=int, default=5)
    parser.add_argument("--add", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="ask for the first labels too, with random and covering")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = [
        row
        for text in arguments.sets
        for seed in range(arguments.seeds)
        for way in arguments.ways.split(",")
        for row in rounds(find_source(text, arguments), way, seed, arguments)
    ]
    with (arguments.out / "curve.csv").open("w", newline="") as file:
        lines = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        lines.writeheader()
        lines.writerows(rows)
    for name, way, labels in sorted({(row["set"], row["way"], row["labels"]) for row in rows}, key=str):
        dice = [
            float(str(row["dice"])) for row in rows if (row["set"], row["way"], row["labels"]) == (name, way, labels)
        ]
        print(
            f"| {name} | {way} | {labels} | {100 * fmean(dice):.1f} | {', '.join(f'{100 * one:.1f}' for one in dice)} |"
        )


if __name__ == "__main__":
    main()
