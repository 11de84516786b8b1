"""What any mask can give, by looking: which share of the pseudo-labels' errors a region holds, beside others of its size.

Reads what finished runs kept of unlabelled cases (`maps/`) and, here alone, the truth of these cases; leaves `held.json` in
each run's folder. Two heads that are calibrated at costs α : 1 switch where the posterior p of an object is

    con > ½  ⇔  p > α / (1 + α),      rad > ½  ⇔  p > 1 / (1 + α),

so that CRM's region would be the band of p between the two, which a single head and a threshold give as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.folder import read_folder
from coranet.data.prepare.cases import Preparation, open_case
from coranet.engine.codec import decode
from coranet.engine.run import Run
from coranet.feed.case_maps import read_maps
from coranet.files import write_atomically
from coranet.methods.coranet import SeparateSelfTraining
from coranet.metrics.calibration import expected_calibration_error
from coranet.uncertainty import CRM

SHARES = "held.json"

Pixels = NDArray[Any]
"""`(V,)`: all pixels of all unlabelled images."""


def write_shares(folder: Path, data: Path) -> None:
    """Look at the first and the last refresh of a finished run, once; a run that kept no probabilities is passed over.

    Args:
        folder: the run's.
        data: the raw folder with the truth of its unlabelled cases.
    """
    files = sorted((folder / "maps").glob("*.npz"))
    if (folder / SHARES).exists() or not files:
        return
    ends = {int(file.stem): _in_a_row(file) for file in (files[0], files[-1])}
    if not all("confidence" in maps for maps in ends.values()):
        return
    run = Run.read(folder)
    assert isinstance(run.method, SeparateSelfTraining)
    assert isinstance(run.method.regions, CRM)
    truth, alpha = read_truth(run, data), run.method.regions.alpha
    looks = [{"step": step, **look(maps, truth, alpha)} for step, maps in ends.items()]
    content = {"alpha": alpha, "masks": run.made_with.get("masks", "crm"), "looks": looks}
    write_atomically(folder / SHARES, (json.dumps(content, indent=1) + "\n").encode())


def read_truth(run: Run, data: Path) -> Pixels:
    """The labels of the run's unlabelled cases, in the order and on the grid of its maps."""
    cases = {case.name: case for case in read_folder(data).cases}
    settings: Preparation = decode(Preparation, run.data.preparation, "preparation")
    labels = []
    for case in (cases[name] for name in run.split.unlabelled):
        assert case.label is not None, f"{case.name} has no label"
        opened = open_case((image.read() for image in case.images), [case.label.read()], settings)
        label = opened.place_label()
        assert label is not None
        labels.append(run.data.window.split(label).ravel())
    return np.concatenate(labels)


def _in_a_row(file: Path) -> dict[str, Pixels]:
    maps = read_maps(file)
    return {
        name: np.concatenate([image.ravel() for images in by_case.values() for image in images])
        for name, by_case in maps.items()
    }


def look(maps: Mapping[str, Pixels], truth: Pixels, alpha: float) -> dict[str, float]:
    """Shares of pixels and of errors, all between 0 and 1.

    Args:
        maps: `label`, `certain` and what `soft_maps` names.
        truth: the true classes.
        alpha: the ratio of the heads' costs.

    Returns:
        `errors` and `coverage` are the shares of pixels that are labelled wrongly and that the region holds. `held` is the
        region's share of the errors, and at its coverage those of the least confident pixels (`softmax`), of any pixels
        (`random`) and of errors first (`oracle`). `band_coverage` and `band` are of the pixels between the two thresholds,
        `overlap` is the band's intersection over union with the region, `crm_at_band` the share held at the band's coverage
        by the pixels where the heads differ most. `ece_main`, `ece_con` and `ece_rad` are calibration errors of the heads,
        costs undone, among pixels of either.
    """
    label, region, unsure = maps["label"], maps["certain"] == 0, 255 - maps["confidence"]
    wrong = label != truth
    main, con, rad = (_objects(maps, head) for head in ("main", "con", "rad"))
    main = main or [np.where(label == 1, maps["confidence"], unsure)]
    band = np.any([(p > 255 / (1 + alpha)) & (p < 255 * alpha / (1 + alpha)) for p in main], axis=0)
    apart = np.max([np.abs(r.astype(np.int16) - c).astype(np.uint8) for c, r in zip(con, rad, strict=True)], axis=0)
    errors, coverage, either = float(wrong.mean()), float(region.mean()), region | band
    found = {
        "errors": errors,
        "coverage": coverage,
        "held": _share(region, wrong),
        "softmax": error_share(unsure, wrong, coverage),
        "random": coverage,
        "oracle": min(coverage / errors, 1.0) if errors else float("nan"),
        "band_coverage": float(band.mean()),
        "band": _share(band, wrong),
        "overlap": _share(region & band, either),
        "crm_at_band": error_share(apart, wrong, float(band.mean())),
    }
    is_object = np.concatenate([(truth == k)[either] for k in range(1, len(main) + 1)])
    for head, each in {"main": main, "con": con, "rad": rad}.items():
        said = np.concatenate([p[either] for p in each]) / 255
        found[f"ece_{head}"] = expected_calibration_error(without_costs(said, head, alpha), is_object)
    return found


def without_costs(p: Pixels, head: str, alpha: float) -> Pixels:
    """The posterior behind what a head says: con has learnt p / (p + α (1 - p)), rad α p / (α p + 1 - p)."""
    cost = {"main": 1.0, "con": alpha, "rad": 1 / alpha}[head]
    return cost * p / (cost * p + 1 - p)


def error_share(score: Pixels, wrong: Pixels, coverage: float) -> float:
    """Share of the errors among the pixels with the highest scores, uint8, that make up the coverage.

    Of pixels with one score some may be in and some out: what they hold on average, in any order, is counted.
    """
    counts = np.bincount(score, minlength=256)[::-1]
    mistaken = np.bincount(score[wrong], minlength=256)[::-1]
    if not mistaken.sum():
        return float("nan")
    covered, held = (np.append(0, np.cumsum(one)) / one.sum() for one in (counts, mistaken))
    return float(np.interp(coverage, covered, held))


def _objects(maps: Mapping[str, Pixels], head: str) -> list[Pixels]:
    names = sorted((name for name in maps if name.startswith(f"{head}.")), key=lambda name: int(name.split(".")[1]))
    return [maps[name] for name in names]


def _share(part: Pixels, whole: Pixels) -> float:
    return float(part[whole].mean()) if whole.any() else float("nan")


def write_all_shares(folders: Sequence[Path], data: Path) -> None:
    """Of every run that is finished."""
    for folder in folders:
        if (folder / "scores.csv").exists():
            write_shares(folder, data)
