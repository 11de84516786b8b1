"""Cases that networks were not trained on, and what those say of them: what uncertainty is fitted on.

With a handful of labels no case can be kept apart for good. So the labelled patients are dealt into folds, and for each
fold the run is trained again without it, by the same settings. Held-out cases take no part in that, not as unlabelled ones
either. Validation cases are held out already: the run itself predicts them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from coranet.data.splits.by_patient import Split
from coranet.data.store import Store
from coranet.engine.checkpoint import LAST
from coranet.engine.log import Listener
from coranet.engine.prediction.case_reading import class_facts
from coranet.engine.prediction.predictor import Predictor
from coranet.engine.run import Run
from coranet.engine.trainer import Trainer
from coranet.errors import InputError
from coranet.feed.batches import mix
from coranet.files import make_folder
from coranet.methods.other_voice import Voices
from coranet.metrics import count
from coranet.metrics.expectation import Judged
from coranet.uncertainty.tally import Tally
from coranet.uncertainty.wrongness import Wrongness


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """A case with a label, and what a network that never saw it says."""

    case: str
    patient: str
    tally: Tally
    dice: tuple[float, ...]
    """Of each object; NaN where neither truth nor prediction has it."""

    def judged(self, wrongness: Wrongness, names: Sequence[str]) -> Iterator[Judged]:
        """Its objects, by a fit of the voxels."""
        facts = class_facts(self.tally, wrongness, names)
        for name, dice in zip(names, self.dice, strict=True):
            yield Judged(case=self.case, patient=self.patient, facts=facts[name], dice=dice)


def deal(split: Split, patients: Mapping[str, str], folds: int, seed: int) -> list[Split]:
    """The splits of the folds: each labelled patient is set apart, as `val`, in one of them.

    Raises:
        InputError: there are fewer labelled patients than folds, or fewer folds than two.
    """
    people = sorted({patients[case] for case in split.labelled})
    if len(people) < 2:
        raise InputError("Only one patient is labelled, and each has to be set apart once. Label another to calibrate.")
    if not 2 <= folds <= len(people):
        raise InputError(
            f"--folds {folds}: between 2 and {len(people)}, as {len(people)} patients are labelled. "
            "Each is set apart once, and the others are trained on."
        )
    random.Random(seed).shuffle(people)
    dealt = []
    for number in range(folds):
        apart = set(people[number::folds])
        dealt.append(
            replace(
                split,
                labelled=tuple(case for case in split.labelled if patients[case] not in apart),
                unlabelled=tuple(case for case in split.unlabelled if patients.get(case, case) not in apart),
                val=tuple(case for case in split.labelled if patients[case] in apart),
            )
        )
    return dealt


def train_fold(
    run: Run,
    split: Split,
    steps: int,
    store: Store,
    folder: Path,
    device: torch.device,
    listeners: Sequence[Listener],
    voices: Voices,
) -> Predictor:
    """The run again, on a fold's cases; a fold that was begun is continued, and a finished one is taken as it is.

    `voices` are the label maps of other models that the run heard; the fold hears those of its unlabelled cases.
    """
    # Cases that are set apart are not scored on the way: nothing may look at them before the end.
    fold = replace(run, split=replace(split, val=()), train=replace(run.train, steps=steps, checks=1, keep_maps=False))
    make_folder(folder)
    others = fold.split.unlabelled
    heard = {name: {case: said[case] for case in said if case in others} for name, said in voices.items()}
    trainer = Trainer(fold.identified(), store, folder, device, listeners, voices=heard)
    if (folder / LAST).exists():
        trainer.resume()
    else:
        trainer.begin()
    trainer.fit()
    return trainer.setup.predictor()


def look_at(
    predictor: Predictor, store: Store, cases: Iterable[str], device: torch.device, seed: int = 0
) -> Iterator[HeldOut]:
    """What a predictor says of labelled cases of the store that are drawn wholly, held against their labels."""
    for name in (name for name in cases if name not in store.partial):
        label = store.label(name)
        images, truth = (
            torch.from_numpy(np.ascontiguousarray(predictor.window.split(np.array(array))))
            for array in (store.image(name), label)
        )
        torch.manual_seed(mix(seed, "predict"))
        whole, guess = None, np.zeros(tuple(truth.shape), np.uint8)
        for place, prediction in predictor.parts(images, device):
            here = Tally.of(prediction, truth[place].to(device).long())
            whole = here if whole is None else whole + here
            guess[place] = prediction.probabilities.argmax(dim=1).to(torch.uint8).cpu().numpy()
        assert whole is not None
        dice = tuple(count(guess == k, truth.numpy() == k).dsc for k in range(1, len(store.classes)))
        yield HeldOut(case=name, patient=store.cases[name].patient, tally=whole, dice=dice)
