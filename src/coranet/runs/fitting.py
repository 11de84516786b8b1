"""How far a run's uncertainty is to be believed: fitted on held-out cases, and written to its calibration.json."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np
import torch

from coranet.data.prepare.preparation import Preparation
from coranet.data.store import Store
from coranet.engine.codec import decode
from coranet.engine.log import Listener
from coranet.engine.prediction.fitted import Fitted
from coranet.engine.prediction.predictor import Predictor
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run, versions
from coranet.errors import InputError, some
from coranet.locks import owned
from coranet.metrics import Summary, by_patient, mean_of_present, summarise
from coranet.metrics.expectation import Judged, fit_dice
from coranet.runs.corrected import trained_on
from coranet.runs.held_out import HeldOut, deal, look_at, train_fold
from coranet.runs.machine.device import find_device
from coranet.runs.machine.machine_load import use_threads
from coranet.runs.opened_store import OnProgress, Say, open_store
from coranet.runs.other_models import kept_teacher, voices_of
from coranet.uncertainty.wrongness import fit_wrongness

FOLDS = "folds"
"""In a run's folder, while they are trained."""


@dataclass(frozen=True, kw_only=True)
class Calibrate:
    """Which run is fitted, on what, and how much that may cost."""

    run: Path
    data: Path | None = None
    """Where its scans lie now; where they lay in training, if it is not given."""
    folds: int = 3
    steps: int | None = None
    """Of each fold; the run's own where none are given."""
    device: str | None = None
    threads: int | None = None
    cache: Path | None = None
    trust: bool = False


def calibrate_run(
    asked: Calibrate, *, listeners: Sequence[Listener] = (), say: Say, on_progress: OnProgress
) -> tuple[Fitted, Summary]:
    """Train the folds, fit, and write; returns the fits, and the Dice of held-out cases over patients.

    Raises:
        InputError: the scans are not those of the run, or too few patients are labelled.
    """
    with owned(asked.run):
        device = find_device(asked.device)
        use_threads(asked.threads, device, say)
        trained = Trained.load(asked.run, device, fitted=False, trust=asked.trust)  # an earlier fit may be broken
        run = trained.whole_run
        store, patients = _open(asked, run, on_progress)
        steps = asked.steps or run.train.steps
        splits = deal(run.split, patients, asked.folds, run.seed)
        say(
            f"Training {asked.folds} times, {steps} steps each, without some of the {len(run.split.labelled)} labelled "
            f"cases: {asked.folds * steps / run.train.steps:.2g} times what the run itself took."
        )
        if steps < run.train.steps:
            say(
                f"WARNING: with {steps} of the run's {run.train.steps} steps a fold knows less than the run: the Dice to "
                "expect of new scans will be too low. Leave --steps out to know it."
            )
        voices = voices_of(kept_teacher(run, asked.run, store))
        held = list(look_at(trained.predictor, store, run.split.val, device, run.seed))
        for number, split in enumerate(splits, start=1):
            say(f"Fold {number} of {len(splits)}: without {some(split.val)}.")
            place = asked.run / FOLDS / f"{asked.folds}-{steps}-{number}"
            predictor = train_fold(run, split, steps, store, place, device, listeners, voices)
            held += look_at(predictor, store, split.val, device, run.seed)
        if not held:
            raise InputError(
                f"{asked.run}: all its labelled cases are drawn in part. Draw one wholly to calibrate by it."
            )
        fitted = fit_held_out(run, held, folds=asked.folds, steps=steps)
        fitted.write(asked.run)
        shutil.rmtree(asked.run / FOLDS, ignore_errors=True)
        return fitted, dice_of(held)


def fit_on_validation(run: Run, store: Store, predictor: Predictor, device: torch.device, folder: Path) -> None:
    """The cheap way, at the end of training: by validation cases alone, where there are some."""
    if predictor.segmenter.estimator is None:
        return
    if held := list(look_at(predictor, store, run.split.val, device, run.seed)):
        fit_held_out(run, held).write(folder)


def fit_held_out(run: Run, held: Sequence[HeldOut], *, folds: int = 0, steps: int = 0) -> Fitted:
    """Both fits. That of cases sees each case by a fit of voxels that was made without its patient."""
    names = list(run.data.classes.values())[1:]
    judged: list[Judged] = []
    for patient in sorted({one.patient for one in held}):
        others = [one.tally for one in held if one.patient != patient]
        if others:
            own = fit_wrongness(others)
            judged += [row for one in held if one.patient == patient for row in one.judged(own, names)]
    return Fitted(
        run=run.identity,
        voxels=fit_wrongness([one.tally for one in held]),
        cases=fit_dice(judged),
        held_out={
            one.case: {name: dice for name, dice in zip(names, one.dice, strict=True) if not isnan(dice)}
            for one in held
        },
        folds=folds,
        steps=steps,
        made_with=versions(),
    )


def dice_of(held: Sequence[HeldOut]) -> Summary:
    """Mean Dice of held-out cases, with an interval over patients."""
    cases = {one.case: float(mean_of_present(np.array(one.dice))) for one in held}
    people = by_patient(cases, {one.case: one.patient for one in held})
    return summarise(list(people.values()))


def _open(asked: Calibrate, run: Run, on_progress: OnProgress) -> tuple[Store, dict[str, str]]:
    data = asked.data or Path(run.data.source)
    if not data.exists():
        raise InputError(
            f"{data}: the scans of {asked.run} are not there any more. Name their folder: coranet calibrate RUN DATA."
        )
    settings: Preparation = decode(Preparation, run.data.preparation, "preparation")
    store, patients = open_store(
        data,
        lambda extents, channels: settings,
        run.split,
        asked.cache,
        corrections=trained_on(run),
        on_progress=on_progress,
    )
    if store.fingerprint != run.data.fingerprint:
        raise InputError(
            f"{data}: not the data {asked.run} was trained on, or prepared by another version of coranet. "
            "Name the folder that it was trained on, and use that version."
        )
    return store, patients
