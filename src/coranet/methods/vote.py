"""The vote of binary sub-tasks, one for each object (Shi et al., IEEE TMI 2021, section IV, ACDC).

The text merges them by their confidence. With p_k the probability of object k in its own sub-task,

    vote = argmax_k p_k  where max_k p_k > ½,  else background
    P_0 = (1 - max_k p_k) / s,  P_k = p_k / s,  s = 1 - max_k p_k + Σ_k p_k

and argmax P is that vote. Division by s ≥ 1 changes no order. Where max_k p_k > ½, background has 1 - max_k p_k < ½, so the
most confident object leads; else background has at least ½ and no object more, and the first of equals is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from coranet.methods.segmenter import Segmenter
from coranet.types import Prediction, Regions

T = TypeVar("T")


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
