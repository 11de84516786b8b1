"""What labels are worth of which only some slices were drawn: Dice by share of slices, on development cases.

    OMP_NUM_THREADS=1 python benchmarks/partial.py DATA --split docs/splits/hippocampus-10.json --out scores.csv
    OMP_NUM_THREADS=1 python benchmarks/partial.py LA --split docs/splits/la-dev1-8.json --preset quick --out FILE
    python benchmarks/partial.py LA --split docs/splits/la-dev1-8.json --labelled 8 --steps 6000 --dims 3 --out FILE

DATA is a raw folder of scans that are wholly labelled. Of the split's labelled cases some are taken, and every fourth
or tenth slice of their labels is kept; all other voxels get the value `ignore`. Unlabelled and development cases are
drawn by seed 0 from the split's unlabelled ones, whose labels serve to score by and for nothing else. Test cases are never
read. `first` has the first case alone, wholly drawn, and the others unlabelled: with four cases as many slices as a quarter.
All objects are one class: short runs on a CPU often lose one of two.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.description import IGNORE
from coranet.data.datasets.folder import Case, Dataset, read_folder
from coranet.data.datasets.names import patient_of
from coranet.data.grid import orientation, through_plane_axis
from coranet.data.prepare.extents import extents_of
from coranet.data.readers import nifti
from coranet.data.splits.by_patient import Split
from coranet.engine.run import versions
from coranet.runs.launch import train
from coranet.runs.options import Options

Labels = NDArray[np.uint8]
Redraw = Callable[[Labels], Labels]
"""From a label, as it lies in the file, to what is kept of it."""


def main() -> int:
    """Draw, train and score."""
    asked = arguments(__doc__)
    dataset, split = read_folder(asked.data), chosen_split(asked)
    axis = stacked_along(dataset)
    with (
        tempfile.TemporaryDirectory(prefix="partial-") as work,
        Scores(asked.out, ("drawn", "method", "seed")) as scores,
    ):
        whole = Path(work) / "1"
        for share in sorted({1.0, *asked.shares}, reverse=True):
            folder = Path(work) / f"{share:g}"
            copy_dataset(dataset, split, folder, partial(thinned, share=share, axis=axis))
            for method in asked.methods:
                for seed in range(asked.seeds):
                    scores.add((f"{share:g}", method, seed), dice(folder, split, method, seed, asked))
        first = Split(
            labelled=split.labelled[:1],
            unlabelled=(*split.labelled[1:], *split.unlabelled),
            val=split.val,
            test=(),
        )
        for method in asked.methods:
            for seed in range(asked.seeds):
                scores.add(("first", method, seed), dice(whole, first, method, seed, asked))
    return 0


def thinned(label: Labels, share: float, axis: int) -> Labels:
    """A label with evenly spaced slices of an axis kept, and the others ignored; above all classes lies what is."""
    if share >= 1:
        return label
    step = round(1 / share)
    kept = np.zeros(label.shape[axis], np.bool_)
    kept[step // 2 :: step] = True
    shape = [-1 if other == axis else 1 for other in range(3)]
    return np.where(kept.reshape(shape), label, 255).astype(np.uint8)


def stacked_along(dataset: Dataset) -> int:
    """The axis of the files that slices are stacked along, where scans are trained on slice by slice."""
    geometries = [case.images[0].look() for case in dataset.cases if case.part == "Tr"]
    extents = extents_of(geometries)
    turned = through_plane_axis(extents.shapes.median, extents.spacings.median)
    return orientation(geometries[0])[0][turned]


def chosen_split(asked: argparse.Namespace) -> Split:
    """Some of a split's labelled cases, and others to learn from without labels and to score by."""
    split = Split.read(asked.split)
    drawn = [split.unlabelled[place] for place in np.random.default_rng(0).permutation(len(split.unlabelled))]
    names = list({patient_of(name): name for name in drawn}.values())  # one case of each, so that no patient is in both
    until = asked.unlabelled + asked.val
    return Split(
        labelled=split.labelled[: asked.labelled],
        unlabelled=tuple(names[: asked.unlabelled]),
        val=tuple(names[asked.unlabelled : until]),
        test=(),
    )


def copy_dataset(dataset: Dataset, split: Split, folder: Path, redraw: Redraw) -> None:
    """The cases of a split as a raw folder of their own, with redrawn labels of the labelled ones."""
    (folder / "imagesTr").mkdir(parents=True)
    (folder / "labelsTr").mkdir()
    labels = {"background": 0, "object": 1, IGNORE: 255}
    about = {"channel_names": dict(enumerate(dataset.channels)), "labels": labels}
    (folder / "dataset.json").write_text(json.dumps(about))
    for case in dataset.cases:
        if case.name in split.stored:
            for number, image in enumerate(case.images):
                (folder / f"imagesTr/{case.name}_{number:04d}.nii.gz").symlink_to(image.path.resolve())
            write_label(case, folder / f"labelsTr/{case.name}.nii.gz", split, redraw)


def write_label(case: Case, file: Path, split: Split, redraw: Redraw) -> None:
    """A label as it is drawn, or whole where it is scored by; nothing for an unlabelled case."""
    assert case.label is not None
    if case.name in (*split.val, *split.labelled):
        volume = case.label.read()
        label = np.minimum(volume.array, 1).astype(np.uint8)
        nifti.write(file, redraw(label) if case.name in split.labelled else label, volume.geometry)


def dice(
    folder: Path, split: Split, method: str, seed: int, asked: argparse.Namespace, **options: Any
) -> dict[str, float]:
    """The Dice of the development cases at the end of a run."""
    place = Path(tempfile.mkdtemp(prefix="run-", dir=folder.parent))
    split.write(place / "split.json")
    given = Options(
        preset=asked.preset,
        method=method,
        seed=seed,
        steps=asked.steps,
        dims=asked.dims,
        patch=asked.patch and tuple(asked.patch),
        split=place / "split.json",
        device=asked.device,
        cache=folder.parent / "cache",
        save_every=10**9,
        overrides=(("train.checks", "1"), *((key, text) for key, _, text in map(_pair, asked.set))),
        **options,
    )
    train(folder, place / "run", given)
    found: dict[str, float] = json.loads((place / "run/log.jsonl").read_text().splitlines()[-1])["val"]
    shutil.rmtree(place)
    return found


def _pair(text: str) -> tuple[str, str, str]:
    return text.partition("=")


class Scores:
    """A table on disk, a line for each run, and its means at the end."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns = path, columns
        self.found: dict[tuple[object, ...], list[float]] = {}
        self.lines: list[dict[str, object]] = []
        self.commit = versions()["commit"]

    def __enter__(self) -> Scores:
        return self

    def add(self, row: tuple[object, ...], dice: dict[str, float]) -> None:
        """What a run reached; the last of the row is its seed."""
        self.found.setdefault(row[:-1], []).append(100 * dice["mean"])
        percent = {name: round(100 * value, 2) for name, value in dice.items()}
        self.lines.append({**dict(zip(self.columns, row, strict=True)), **percent, "commit": self.commit})
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(self.lines[0]))
            writer.writeheader()
            writer.writerows(self.lines)
        print(*row, f"{100 * dice['mean']:.2f}", flush=True)

    def __exit__(self, *error: object) -> None:
        for row, values in self.found.items():
            spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
            print(*row, f"{mean(values):.2f}{spread}")


def arguments(about: str | None, **more: Any) -> argparse.Namespace:
    """What both studies of labels are told."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--labelled", type=int, default=4)
    parser.add_argument("--unlabelled", type=int, default=40)
    parser.add_argument("--val", type=int, default=16)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.25, 0.1])
    parser.add_argument("--methods", nargs="+", default=["supervised", "coranet:plus"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--dims", type=int, choices=[2, 3], default=2)
    parser.add_argument("--patch", type=int, nargs="+")
    parser.add_argument("--preset", default="auto", help="quick coarsens large scans, so that a CPU can do it")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--set", nargs="+", default=["net.width=8", "net.levels=3", "train.batch=[4,4]", "optim.lr=0.003"]
    )
    if "by" in more:
        parser.add_argument("--by", type=int, help="how far maps of another model are off, in voxels")
    parser.set_defaults(**more)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
