"""Does uncertainty hold up? Errors held at equal volume, calibration, and how expected Dice ranks cases; any list of sets.

    python benchmarks/uncertainty.py phantom hippocampus=Task04_Hippocampus,docs/splits/hippocampus-10.json \
        --steps 300 --labelled 6 --unlabelled 20 --development 24 --out DIR

Each set is `phantom`, which is made, or NAME=DATA,SPLIT of a raw folder, or one that `coranet reproduce` knows with a share
of its protocol (sunnybrook=DATA,1:4), which is written as a raw folder first. A run is trained on the split, `coranet
calibrate` fits its uncertainty by cross-validation over the labelled cases, and both are held against the truth of the
split's test cases; where it lists none, of its validation cases, which then take no part in training. --development takes
patients that the split lists as unlabelled instead, until there are so many cases, so that nothing is chosen by test cases.
Writes a table, rows and their origin to DIR.
What is finished is not made again.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import nan
from pathlib import Path

import torch

from coranet.data.datasets.folder import read_folder
from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.data.splits.by_patient import Split
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import versions
from coranet.evaluation import evaluate, evaluate_calibration
from coranet.evaluation.foresight import foresee
from coranet.methods import DEFAULT
from coranet.metrics import by_patient, compare, summarise
from coranet.paper.laid_scans import lay_out
from coranet.paper.sets import SETS, split_of
from coranet.runs.fitting import Calibrate, calibrate_run
from coranet.runs.launch import train
from coranet.runs.machine.device import find_device
from coranet.runs.options import Options
from coranet.runs.triage import judge_predictions

PHANTOM = Phantom(shape=(64, 64, 8))
PHANTOM_SEED = 21
"""Of phantoms that nothing was chosen by."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A set, and which of its cases are used how."""

    name: str
    data: Path
    split: Split
    """With the cases that are scored as `test`."""


def find_source(text: str, arguments: argparse.Namespace) -> Source:
    """From a word of the command line."""
    name, _, rest = text.partition("=")
    if not rest:
        data = arguments.out / "phantom"
        if not (data / "dataset.json").exists():
            write_folder(data, PHANTOM, seed=PHANTOM_SEED, labelled=30, unlabelled=0, test=40)
        named = {part: [c.name for c in read_folder(data).cases if c.part == part] for part in ("Tr", "Ts")}
        split = Split(labelled=tuple(named["Tr"][:6]), unlabelled=tuple(named["Tr"][6:]), test=tuple(named["Ts"]))
        return Source(name=name, data=data, split=split)
    data, split = _read(name, rest, arguments)
    cases = {case.name: case.patient for case in read_folder(data).cases}
    people = list(dict.fromkeys(cases[case] for case in split.unlabelled))
    random.Random(7).shuffle(people)
    unlabelled = sorted(split.unlabelled, key=lambda case: people.index(cases[case]))  # no patient on both sides
    unlabelled = [case for case in unlabelled if cases[case] not in people[: arguments.after]]
    exam = list(split.test or split.val)
    if arguments.development:
        last = cases[unlabelled[arguments.development - 1]]
        end = 1 + max(number for number, case in enumerate(unlabelled) if cases[case] == last)
        exam, unlabelled = unlabelled[:end], unlabelled[end:]
    few = Split(
        labelled=split.labelled[: arguments.labelled],
        unlabelled=tuple(sorted(unlabelled[: arguments.unlabelled])),
        test=tuple(exam),
    )
    return Source(name=name, data=data, split=few)


def _read(name: str, text: str, arguments: argparse.Namespace) -> tuple[Path, Split]:
    """A raw folder and its split; a set in its own layout is written as one first, and split by its protocol's shares."""
    data, _, split = text.rpartition(",")
    if Path(split).exists():
        return Path(data), Split.read(Path(split))
    raw = lay_out(SETS[name], Path(data), arguments.out)
    return raw, split_of(SETS[name], read_folder(raw).cases, split)[0]


def measure(source: Source, seed: int, arguments: argparse.Namespace) -> dict[str, object]:
    """Train, calibrate, predict and hold against the truth."""
    folder = arguments.out / f"{source.name}-seed{seed}"
    if (folder / "figures.json").exists():
        return dict(json.loads((folder / "figures.json").read_text()))
    folder.mkdir(parents=True, exist_ok=True)
    source.split.write(folder / "split.json")
    device, cache = find_device(arguments.device), arguments.out / "cache"
    options = Options(
        preset=arguments.preset,
        method=arguments.method,
        steps=arguments.steps,
        seed=seed,
        dims=arguments.dims,
        split=folder / "split.json",
        overrides=(("method.regions", arguments.regions),) if arguments.regions else (),
    )
    where = replace(options, device=arguments.device, cache=cache, threads=arguments.threads)
    run = train(source.data, folder / "run", where, resume=(folder / "run/run.json").exists(), say=print)
    held_out = nan
    if arguments.folds:
        asked = Calibrate(
            run=run, folds=arguments.folds, device=arguments.device, cache=cache, threads=arguments.threads
        )
        held_out = calibrate_run(asked, say=print, on_progress=lambda what, done, total: None)[1].mean
    cases = {case.name: case for case in read_folder(source.data).cases}
    part = cases[source.split.test[0]].part
    out, labels = folder / "predictions", source.data / f"labels{part}"
    trained = Trained.load(run, device)
    found = trained.predict_files(source.data / f"images{part}", out, only=source.split.test, probabilities=True)
    judge_predictions(trained, found, out)
    scores, rows = evaluate(out, labels), evaluate_calibration(out, labels)
    scores.write_csv(folder / "scores.csv")
    rows.write_csv(folder / "calibration.csv")
    foresight = foresee(out, scores)
    assert foresight is not None
    patients = {name: case.patient for name, case in cases.items()}

    def mean_of(name: str) -> float:
        return summarise(list(by_patient(rows.by_case(name), patients).values())).mean

    held, soft = (by_patient(rows.by_case(name), patients) for name in ("score_held", "softmax_held"))
    difference = compare(held, soft)
    figures = {
        "set": source.name,
        "seed": seed,
        "cases": len(source.split.test),
        "dice": scores.mean()["dsc"].mean,
        "held_out_dice": held_out,
        **{name: mean_of(name) for name in SHOWN},
        "order": order(*map(mean_of, ("retention_area", "area_at_random", "area_at_best"))),
        "gain": [difference.difference, difference.low, difference.high],
        **asdict(foresight),
    }
    (folder / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    return figures


def order(area: float, at_random: float, at_best: float) -> float:
    """How well a score puts wrong voxels first, whatever the threshold: 0 by chance, 1 where it knows every error."""
    return (at_random - area) / (at_random - at_best)


SHOWN = ("uncertain_share", "errors_held", "score_held", "softmax_held", "score_ece", "softmax_ece")


def table(rows: Sequence[dict[str, object]]) -> str:
    """For docs/uncertainty.md."""
    head = (
        "| set, seed | cases | Dice | Dice of held-out folds | region: share, errors held | score holds | softmax holds "
        "| score - softmax, 95 % interval | order | ECE score | ECE softmax | rank correlation | in interval "
        "| failures first |"
    )
    lines = [head, "|" + "---|" * 14]
    for row in rows:

        def percent(name: str, row: dict[str, object] = row, digits: int = 1) -> str:
            return f"{100 * float(str(row[name])):.{digits}f}"

        gain, low, high = (100 * float(value) for value in row["gain"])  # type: ignore[attr-defined]
        lines.append(
            f"| {row['set']}, {row['seed']} | {row['cases']} | {percent('dice')} | {percent('held_out_dice')} "
            f"| {percent('uncertain_share')}, {percent('errors_held')} | {percent('score_held')} "
            f"| {percent('softmax_held')} | {gain:+.1f} ({low:+.1f} to {high:+.1f}) | {percent('order')} "
            f"| {percent('score_ece', digits=2)} "
            f"| {percent('softmax_ece', digits=2)} | {float(str(row['rank_correlation'])):.2f} "
            f"| {percent('covered', digits=0)} % | {row['failures_first']} of {row['failures']} in {row['first']} |"
        )
    return "\n".join(lines)


def add_shared(parser: argparse.ArgumentParser) -> None:
    """What both studies of uncertainty are told."""
    parser.add_argument("sets", nargs="+", help="phantom, or NAME=DATA,SPLIT")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--method", default=DEFAULT)
    parser.add_argument("--preset", default="auto", help="quick coarsens large scans, so that a CPU can do it")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--dims", type=int, choices=(2, 3), default=2)
    parser.add_argument("--labelled", type=int, help="use the first so many labels of a split")
    parser.add_argument("--unlabelled", type=int, help="and so many unlabelled cases")
    parser.add_argument("--development", type=int, default=0, help="score so many unlabelled cases, no test case")
    parser.add_argument(
        "--after", type=int, default=0, help="pass over so many of its patients, those of earlier studies"
    )
    parser.add_argument("--device")
    parser.add_argument("--threads", type=int)


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared(parser)
    parser.add_argument("--folds", type=int, default=3, help="0 leaves the fit that a run makes of itself")
    parser.add_argument(
        "--regions", help="another estimator, with --method coranet: mc_dropout, tta, ensemble, softmax"
    )
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = [
        measure(find_source(text, arguments), seed, arguments)
        for text in arguments.sets
        for seed in range(arguments.seeds)
    ]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    origin = {**versions(), "device": device, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    (arguments.out / "figures.md").write_text(f"{table(rows)}\n\n{json.dumps(origin)}\n")
    print(table(rows))


if __name__ == "__main__":
    main()
