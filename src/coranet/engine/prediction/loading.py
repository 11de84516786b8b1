"""From run folders to what predicts: networks with their weights, which answer together where there are several."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from coranet.data.prepare.preparation import Preparation
from coranet.engine import checkpoint
from coranet.engine.allowance import make_networks
from coranet.engine.codec import decode
from coranet.engine.prediction.average import Average, Look, symmetries
from coranet.engine.prediction.fitted import FITTED
from coranet.engine.prediction.predictor import Predictor, settle, stride_of
from coranet.engine.prediction.recipe import RECIPE
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.methods import Segmenter
from coranet.ops.space.orientation import Orientation


def read_fitting(folders: Sequence[Path], *, trust: bool) -> dict[Path, Run]:
    """The runs of some folders, which can answer together.

    Raises:
        InputError: one is no run, is named twice, or was trained on scans of another form than the first.
    """
    runs: dict[Path, Run] = {}
    for folder in folders:
        if folder.resolve() in {earlier.resolve() for earlier in runs}:
            raise InputError(f"{folder}: is named twice, and would count twice. Name every run once.")
        runs[folder] = Run.read(folder, trust=trust)
        _check_alike(next(iter(runs.items())), (folder, runs[folder]))
    return runs


def _check_alike(first: tuple[Path, Run], other: tuple[Path, Run]) -> None:
    expected = _form(first[1])
    for what, here in _form(other[1]).items():
        if here != expected[what]:
            raise InputError(
                f"{other[0]}: has other {what} than {first[0]} ({here} for {expected[what]}), so that their answers "
                "cannot be averaged. Name runs that were trained on one set of scans, with one preset."
            )


def content_of(run: Path, *, best: bool) -> list[str]:
    """Of all files that decide what a run, or an exported network, says: their SHA-256."""
    weights = checkpoint.BEST if best else checkpoint.LAST
    files = [run / "run.json", run / weights, run / FITTED] if run.is_dir() else [run, run.with_name(RECIPE)]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()]


def _form(run: Run) -> dict[str, Any]:
    """What runs must have in common, by name: grid and window too, which say where a voxel of an answer lies."""
    window = run.data.window
    return {
        "classes": ", ".join(run.data.classes.values()),
        "channels": run.data.channels,
        "preparation": decode(Preparation, run.data.preparation, "preparation"),
        "windows": f"{window.images}, {' x '.join(map(str, window.size))}, {window.blend}",
    }


def load_predictor(
    runs: Mapping[Path, Run],
    device: torch.device,
    *,
    uncertainty: bool,
    stride: tuple[int, ...] | None,
    best: bool,
    tta: bool,
    say: checkpoint.Say,
) -> Predictor:
    """All runs' networks as one, on a device, with the first's arithmetic and stride."""
    first = next(iter(runs.values()))
    stride = stride_of(first.data.window, stride)
    looks: list[Look] = []
    for folder, run in runs.items():
        views = _views_of(run, folder) if tta else (Orientation(tuple(range(run.data.window.dims))),)
        segmenter = load_segmenter(folder, run, uncertainty=uncertainty, best=best, say=say)
        looks += [(segmenter, view) for view in views]
    segmenter = Average.of(looks)
    torch.backends.cudnn.allow_tf32 = False
    settle(segmenter.net.eval(), first.accel, device)
    return Predictor(segmenter, first.data.window, first.accel, stride, 4 * first.classes)


def load_segmenter(folder: Path, run: Run, *, uncertainty: bool, best: bool, say: checkpoint.Say) -> Segmenter:
    """What a run predicts with, and its last weights, or those that did best on validation cases."""
    source = folder / (checkpoint.BEST if best else checkpoint.LAST)
    if best and not source.exists():
        raise InputError(f"{folder}: has no best weights: it was trained without validation cases. Use the last ones.")
    content = checkpoint.load(source, torch.device("cpu"), {"nets": dict}, run=run.identity, say=say)
    nets = make_networks(run, source)
    checkpoint.load_weights(nets, content["nets"], source)
    return run.method.segmenter(nets, uncertainty=uncertainty)


def _views_of(run: Run, folder: Path) -> tuple[Orientation, ...]:
    views = symmetries(run.data.augment, run.data.window.size)
    if len(views) == 1:
        raise InputError(
            f"{folder}: was trained on upright images alone, and does not know mirrored or turned ones. Leave "
            "--tta away, or train with --set data.augment.flip=true."
        )
    return views
