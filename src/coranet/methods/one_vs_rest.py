"""Many classes as the paper treats them (Shi et al., IEEE TMI 2021, section IV, ACDC): one binary sub-task for each object.

Each object k has networks, optimizers and stored maps of its own and learns, by any method, to tell itself from the rest.
The text merges the sub-tasks by a vote with their confidence. With p_k the probability of object k in its own sub-task,

    vote = argmax_k p_k  where max_k p_k > ½,  else background
    P_0 = (1 - max_k p_k) / s,  P_k = p_k / s,  s = 1 - max_k p_k + Σ_k p_k

and argmax P is that vote. Division by s ≥ 1 changes no order. Where max_k p_k > ½, background has 1 - max_k p_k < ½, so the
most confident object leads; else background has at least ½ and no object more, and the first of equals is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.methods.segmenter import Segmenter
from coranet.nets import Feature, MakeNet
from coranet.types import Batch, Nets, Phase, Prediction, Progress, Regions, Sample, Terms, Update
from coranet.uncertainty import Estimator

T = TypeVar("T")


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


@dataclass(frozen=True)
class Vote(Segmenter):
    """The segmenters of all objects, merged by their confidence."""

    objects: tuple[Segmenter, ...] = ()

    @classmethod
    def of(cls, objects: Sequence[Segmenter]) -> Vote:
        """In order of the objects."""
        return cls(nn.ModuleList(one.net for one in objects), objects[0].estimator, tuple(objects))

    def infer(self, image: Tensor) -> dict[str, Tensor]:
        """The soft maps of every object."""
        return together(one.infer(image) for one in self.objects)

    def decide(self, maps: Mapping[str, Tensor]) -> Prediction:
        """The vote, with regions that no object objects to."""
        said = tuple(one.decide(of_object(k, maps)) for k, one in enumerate(self.objects, start=1))
        confidence = torch.stack([one.probabilities[:, 1] for one in said], dim=1)
        regions = [one.regions for one in said if one.regions is not None]
        return Prediction(
            probabilities=merge_probabilities(confidence),
            regions=merge_regions(regions, confidence) if regions else None,
            objects=said,
        )


def merge_probabilities(confidence: Tensor) -> Tensor:
    """P of the vote, background first: `(B, K - 1, *S)` to `(B, K, *S)`."""
    background = 1 - confidence.amax(dim=1, keepdim=True)
    merged = torch.cat([background, confidence], dim=1)
    return merged / merged.sum(dim=1, keepdim=True)


def merge_regions(regions: Sequence[Regions], confidence: Tensor) -> Regions:
    """Certain where every object is; masks as label maps, where several are set of the object with the largest p_k.

    Args:
        regions: one for each object.
        confidence: p_k, `(B, K - 1, *S)`.
    """
    return Regions(
        certain=torch.stack([one.certain for one in regions]).all(dim=0),
        score=torch.stack([one.score for one in regions]).amax(dim=0),
        maps={
            name: merge_masks(torch.stack([one.maps[name] for one in regions], dim=1), confidence)
            for name in regions[0].maps
        },
    )


def merge_masks(masks: Tensor, confidence: Tensor) -> Tensor:
    """Among the objects whose mask is set the one with the largest p_k: two `(B, K - 1, *S)` to `(B, *S)` uint8."""
    which = torch.where(masks > 0, confidence, -1.0).argmax(dim=1) + 1
    return torch.where((masks > 0).any(dim=1), which, 0).to(torch.uint8)


def numbered(k: int, named: Mapping[str, T]) -> dict[str, T]:
    """Under names that carry the object's number."""
    return {f"{k}.{name}": thing for name, thing in named.items()}


def together(each: Iterable[Mapping[str, T]]) -> dict[str, T]:
    """What every object has, in order of the objects, under numbered names."""
    return {name: thing for k, named in enumerate(each, start=1) for name, thing in numbered(k, named).items()}


def of_object(k: int, named: Mapping[str, T]) -> dict[str, T]:
    """What carries the object's number, under the names the sub-task knows."""
    return {name.removeprefix(f"{k}."): thing for name, thing in named.items() if name.startswith(f"{k}.")}


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
    return replace(sample, label=label, maps=of_object(k, sample.maps))
