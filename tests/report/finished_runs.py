"""Folders of finished runs, as training, prediction and scoring leave them, in a few kilobytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from coranet.data.readers.nifti import write
from coranet.evaluation import evaluate
from coranet.geometry import Geometry

Array = NDArray[Any]
SHAPE = (24, 20, 4)
GEOMETRY = Geometry(shape=SHAPE, affine=((1.5, 0, 0, 0), (0, 1.5, 0, 0), (0, 0, 8, 0), (0, 0, 0, 1)))
CLASSES = {"0": "background", "1": "RV", "2": "LV"}
CASES = [f"case_{number}" for number in range(6)]


def truth_of(number: int) -> Array:
    label = np.zeros(SHAPE, np.uint8)
    label[5 : 14 + number % 2, 6:15, 1:4] = 1
    label[8:12, 9:13, 1:4] = 2
    return label


def scan(path: Path, array: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, array, GEOMETRY)


def make_run(root: Path, name: str, *, shift: int, regions: bool, steps: int = 40) -> Path:
    """A finished run whose predictions are off by some voxels, by one more in every other case."""
    folder = root / name
    for number, case in enumerate(CASES):
        prediction = np.roll(truth_of(number), shift + number // 2, axis=0)
        if shift and number == 5:
            prediction[prediction == 2] = 1  # a missed class
        scan(folder / "predictions" / f"{case}.nii.gz", prediction)
    (root / "dataset.json").write_text(
        json.dumps({"labels": {name: int(value) for value, name in CLASSES.items()}, "channel_names": {"0": "MRI"}})
    )
    evaluate(folder / "predictions", root / "labelsTs").write_csv(folder / "scores.csv")
    write_settings(folder, steps)
    write_log(folder, steps, regions=regions)
    write_film(folder, regions=regions)
    if regions:
        write_regions(folder)
    return folder


def write_settings(folder: Path, steps: int, **split: list[str]) -> None:
    cases: dict[str, list[str]] = {"labelled": ["a"], "unlabelled": ["b", "c"], "val": [], "test": CASES} | split
    about = {
        "data": {"classes": CLASSES, "source": str(folder.parent)},
        "split": cases,
        "method": {"kind": "coranet"},
        "net": {"width": 16},
        "train": {"steps": steps, "batch": [4, 4]},
        "seed": 7,
        "made_with": {"commit": "c0ffee1", "command": "coranet train <scans> --steps 40"},
    }
    (folder / "run.json").write_text(json.dumps(about))


def write_log(folder: Path, steps: int, *, regions: bool) -> None:
    records = [
        {
            "step": step,
            "phase": "pretrain" if step <= steps // 2 else "selftrain",
            "updates": 3 * step,
            "images": 8 * step,
            "seconds": float(step),
            "lr": 1e-3,
            "terms": {"seg": 1 / step},
            "measures": {"uncertain_share": 1 / step} if regions and step > steps // 2 else {},
            "val": {"mean": 0.8, "RV": 0.7, "LV": 0.9} if step == steps else None,
        }
        for step in range(2, steps + 1, 2)
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def write_film(folder: Path, *, regions: bool) -> None:
    (folder / "film").mkdir()
    image, label = np.random.default_rng(0).random(SHAPE[:2]), truth_of(0)[..., 2]
    maps = {"uncertain": band(label), "conservative": label, "radical": label} if regions else {}
    for step in (20, 40):
        arrays: dict[str, Any] = {"prediction": label, "case": "b", "slice": 2, **maps}
        np.savez_compressed(folder / "film" / f"{step:07d}.npz", image=image, **arrays)


def write_regions(folder: Path) -> None:
    for number, case in enumerate(CASES):
        for kind in ("conservative", "radical"):
            scan(folder / "predictions" / f"{case}_{kind}.nii.gz", truth_of(number))
        scan(folder / "predictions" / f"{case}_uncertain.nii.gz", band(truth_of(number)))


def band(label: Array) -> Array:
    """Two voxels about the edge of all objects."""
    found: Array = (ndimage.binary_dilation(label, iterations=2) & ~ndimage.binary_erosion(label)).astype(np.uint8)
    return found


def make_data(root: Path) -> Path:
    """Scans and labels, and two runs that predicted them."""
    rng = np.random.default_rng(1)
    for number, case in enumerate(CASES):
        scan(root / "labelsTs" / f"{case}.nii.gz", truth_of(number))
        scan(root / "imagesTs" / f"{case}_0000.nii.gz", truth_of(number) + rng.random(SHAPE))
    make_run(root, "supervised", shift=2, regions=False)
    make_run(root, "cora", shift=0, regions=True)
    return root
