"""Many classes as the paper treats them (Shi et al., IEEE TMI 2021, section IV, ACDC): one binary sub-task for each object.

Each object k has networks, optimizers and stored maps of its own and learns, by any method, to tell itself from the rest.
Their answers are merged by a vote (`vote.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.methods.other_voice import of_one_object
from coranet.methods.vote import Vote, numbered, of_object, together
from coranet.nets import Feature, MakeNet
from coranet.types import Batch, Nets, Phase, Prediction, Progress, Sample, Terms, Update
from coranet.uncertainty import Estimator


@dataclass(frozen=True, kw_only=True)
class OneVsRest(Method):
    """One binary sub-task for each object, all in one run, merged by their confidence.

    What belongs to object k carries its number: the network `1.student`, the optimizer `2.main`, the map `3.certain`.
    """

    paper: ClassVar[str] = "Shi et al., IEEE TMI 2021"
    high: ClassVar[str] = "as the method it wraps"
    low: ClassVar[str] = "as the method it wraps"

    inner: Method
    """What each sub-task is trained by."""
    objects: int
    """Classes without background, K - 1."""

    def __post_init__(self) -> None:
        if self.objects < 1:
            raise InputError(f"One-versus-rest needs at least one object, not {self.objects}.")
        if self.dice:
            raise InputError("The Dice term belongs to the method of each sub-task, and is set there.")

    # What exists

    @property
    def numbers(self) -> range:
        """Of the objects: 1 to K - 1, as in the label."""
        return range(1, self.objects + 1)

    @property
    def needs(self) -> frozenset[Feature]:
        """What each sub-task needs."""
        return self.inner.needs

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """For each object the networks of a method with two classes."""
        if make_net.classes != self.objects + 1:
            raise InputError(f"method.objects is {self.objects}, but the labels have {make_net.classes - 1} objects.")
        binary = replace(make_net, classes=2)
        return together(self.inner.nets(binary) for _ in self.numbers)

    @property
    def estimator(self) -> Estimator:
        """Each sub-task's."""
        return self.inner.estimator

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Each sub-task's, side by side."""
        return self.inner.phases

    # What is learnt

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """The sub-tasks' losses together; in training each is minimised on its own."""
        whole = Update(name="whole", loss=self.inner.loss)
        return Terms.together(numbered_update(k, whole).loss(nets, batch, at) for k in self.numbers)

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """Object by object, each with its own optimizers."""
        return tuple(numbered_update(k, update) for k in self.numbers for update in self.inner.objectives(phase))

    def begin_phase(self, nets: Nets, phase: str) -> None:
        """Each sub-task's."""
        for k in self.numbers:
            self.inner.begin_phase(of_object(k, nets), phase)

    def after_step(self, nets: Nets, at: Progress) -> None:
        """Each sub-task's."""
        for k in self.numbers:
            self.inner.after_step(of_object(k, nets), at)

    # What is kept per case

    def remember(self, prediction: Prediction) -> dict[str, Tensor]:
        """What each sub-task keeps of its own prediction."""
        return together(self.inner.remember(one) for one in prediction.objects)

    # What is predicted

    def segmenter(self, nets: Nets, *, uncertainty: bool = True) -> Vote:
        """All objects' as one."""
        return Vote.of([self.inner.segmenter(of_object(k, nets), uncertainty=uncertainty) for k in self.numbers])

    def on_labels_alone(self) -> Method:
        """Each sub-task on labels alone."""
        return replace(self, inner=self.inner.on_labels_alone())


def numbered_update(k: int, update: Update) -> Update:
    """A sub-task's update as one of the whole: it sees its own networks, its own label and its own maps."""

    def loss(nets: Nets, batch: Batch, at: Progress) -> Terms:
        terms = update.loss(of_object(k, nets), sub_task(k, batch), at)
        return Terms(
            values=numbered(k, terms.values),
            weights=numbered(k, terms.weights),
            measures=dict(terms.measures) | numbered(k, terms.measures),  # the trainer averages those of one name
            traces=numbered(k, terms.traces),
        )

    return replace(
        update,
        name=f"{k}.{update.name}",
        loss=loss,
        trains=tuple(numbered(k, dict.fromkeys(update.trains))),
        optimizer=f"{k}.{update.optimizer}",
    )


def sub_task(k: int, batch: Batch) -> Batch:
    """The batch as object k sees it."""
    return Batch(
        labelled=against_rest(k, batch.labelled),
        unlabelled=None if batch.unlabelled is None else against_rest(k, batch.unlabelled),
    )


def against_rest(k: int, sample: Sample) -> Sample:
    """The images with 1 for object k and 0 for all else as their label, and the maps kept for it."""
    label = None if sample.label is None else (sample.label == k).long()
    return replace(sample, label=label, maps=of_object(k, sample.maps) | of_one_object(k, sample.maps))
