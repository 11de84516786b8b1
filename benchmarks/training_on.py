"""Does it pay to correct and train on? A few labels, some predictions corrected, and the same number of steps more.

    python benchmarks/training_on.py hippocampus=Task04_Hippocampus,docs/splits/hippocampus-10.json --method coranet:plus \
        --labelled 5 --unlabelled 40 --development 60 --corrected 10 --actions 40 100 --seeds 2 --threads 1 --out DIR

Sets are given as for uncertainty.py, whose first lines say how. A run is trained, and says what it makes of some unlabelled
cases. Then it is trained on, by `coranet train --labels --init`, in these ways:

    no correction     on the labels it had, the control
    N actions         an annotator who knows the truth spent so many keys and dabs of a brush on each case (correcting.py)
    drawn wholly      each case has its true label

Writes a line for each run to DIR/training_on.csv, and means over seeds with what they are ahead of the control by.
What is finished is not made again.
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import replace
from math import isnan
from pathlib import Path
from statistics import fmean

from correcting import Annotator, by_heads

from coranet.data.datasets.corrections import labels_folder
from coranet.data.datasets.folder import read_folder
from coranet.data.grid import through_plane_axis
from coranet.data.readers import nifti
from coranet.engine.prediction.trained import Trained
from coranet.evaluation import evaluate
from coranet.evaluation.folders import pair_up
from coranet.metrics import by_patient, compare
from coranet.review.pieces import cut
from coranet.runs.launch import train
from coranet.runs.machine.device import find_device
from coranet.runs.options import Options
from uncertainty import Source, add_shared, find_source

CONTROL, WHOLLY = "no correction", "drawn wholly"


def correct(predictions: Path, labels: Path, out: Path, actions: int | None) -> float:
    """Write the corrected labels, or the true ones; their mean Dice."""
    labels_folder(out).mkdir(parents=True, exist_ok=True)
    dice = []
    for pair in pair_up(predictions, labels).read():
        spacing = pair.geometry.spacing
        axis = through_plane_axis(pair.geometry.shape, spacing)
        region = cut(by_heads(predictions, pair), spacing, axis)
        annotator = Annotator(pair.prediction.copy(), pair.label, axis, region, brush=True, most=actions or 0)
        if actions is None:
            annotator.label = pair.label
        annotator.correct()
        nifti.write(labels_folder(out) / f"{pair.case}.nii.gz", annotator.label, pair.geometry)
        dice.append(annotator.dice[-1])
    return fmean(dice)


def measure(source: Source, seed: int, asked: argparse.Namespace) -> list[dict[str, object]]:
    """A line for each way, and for the run that all began with."""
    place = asked.out / f"{source.name}-seed{seed}"
    place.mkdir(parents=True, exist_ok=True)
    source.split.write(place / "split.json")
    options = Options(
        preset=asked.preset,
        method=asked.method,
        steps=asked.steps,
        seed=seed,
        dims=asked.dims,
        split=place / "split.json",
        cache=asked.out / "cache",
        device=asked.device,
        threads=asked.threads,
    )
    first = place / "first"
    lines = [learn(source, "before", first, options, asked)]
    images, labels = (source.data / f"{kind}{part_of(source)}" for kind in ("images", "labels"))
    if not (place / "predictions").exists():
        trained = Trained.load(first / "run", find_device(asked.device))
        trained.predict_files(
            images, place / "predictions", masks=True, only=source.split.unlabelled[: asked.corrected]
        )
    on = replace(options, init=first / "run")
    lines.append(learn(source, CONTROL, place / "control", on, asked))
    for actions in (*asked.actions, None):
        way = WHOLLY if actions is None else f"{actions} actions"
        folder = place / way.replace(" ", "-")
        if (folder / "figures.json").exists():
            quality = float("nan")
        else:
            quality = correct(place / "predictions", labels, folder / "corrections", actions)
        corrected = replace(on, labels=folder / "corrections", split=None)
        lines.append(learn(source, way, folder, corrected, asked, quality))
    return [{"set": source.name, "seed": seed, **line} for line in lines]


def learn(
    source: Source, way: str, folder: Path, options: Options, asked: argparse.Namespace, quality: float = float("nan")
) -> dict[str, object]:
    """Train and score."""
    if not (folder / "figures.json").exists():
        train(source.data, folder / "run", options, resume=(folder / "run/run.json").exists(), say=print)
        part = part_of(source)
        trained = Trained.load(folder / "run", find_device(asked.device))
        trained.predict_files(source.data / f"images{part}", folder / "predictions", only=source.split.test)
        scores = evaluate(folder / "predictions", source.data / f"labels{part}")
        patients = by_patient(
            scores.by_case("dsc"), {case.name: case.patient for case in read_folder(source.data).cases}
        )
        figures = {"way": way, "dice": scores.mean()["dsc"].mean, "labels": quality, "patients": patients}
        (folder / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    return dict(json.loads((folder / "figures.json").read_text()))


def part_of(source: Source) -> str:
    """Where the set has its cases."""
    return next(case.part for case in read_folder(source.data).cases if case.name == source.split.test[0])


def table(lines: list[dict[str, object]]) -> str:
    """Means over seeds, and the difference to the control with its interval over patients."""
    rows = [
        "| set | way | Dice of the labels given | Dice by seed | mean | ahead of the control, 95 % |",
        "|" + "---|" * 6,
    ]
    for name, way in dict.fromkeys((str(line["set"]), str(line["way"])) for line in lines):
        mine, control = (
            [line for line in lines if (line["set"], line["way"]) == (name, which)] for which in (way, CONTROL)
        )
        ahead = compare(_patients(mine), _patients(control))
        rows.append(
            f"| {name} | {way} | {_quality(mine)} | "
            + ", ".join(f"{100 * float(str(line['dice'])):.1f}" for line in mine)
            + f" | {100 * fmean(float(str(line['dice'])) for line in mine):.1f} | "
            + f"{100 * ahead.difference:+.1f} ({100 * ahead.low:+.1f} to {100 * ahead.high:+.1f}) |"
        )
    return "\n".join(rows)


def _quality(lines: list[dict[str, object]]) -> str:
    mean = fmean(float(str(line["labels"])) for line in lines)
    return "" if isnan(mean) else f"{100 * mean:.1f}"


def _patients(lines: list[dict[str, object]]) -> dict[str, float]:
    scores: list[dict[str, float]] = [line["patients"] for line in lines]  # type: ignore[misc]
    return {patient: fmean(score[patient] for score in scores) for patient in scores[0]}


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared(parser)
    parser.add_argument("--corrected", type=int, default=10, help="unlabelled cases that are corrected, the first ones")
    parser.add_argument("--actions", type=int, nargs="*", default=[40, 100], help="keys and dabs for each of them")
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    lines = [
        line
        for source in (find_source(text, asked) for text in asked.sets)
        for seed in range(asked.seeds)
        for line in measure(source, seed, asked)
    ]
    with (asked.out / "training_on.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["set", "seed", "way", "labels", "dice"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)
    print(table(lines))


if __name__ == "__main__":
    main()
