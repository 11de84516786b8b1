"""Confidence of the softmax output: the common way, which the paper compares with at 0.5, 0.7 and 0.9."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coranet.errors import InputError
from coranet.ops.regions import confident
from coranet.types import Regions
from coranet.uncertainty.estimator import Estimator


@dataclass(frozen=True, kw_only=True)
class Softmax(Estimator):
    """Certain is where the largest probability exceeds a threshold."""

    rule: ClassVar[str] = "main has no class above the threshold"

    threshold: float = 0.9
    """Between 0 and 1."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise InputError(f"A confidence threshold lies between 0 and 1, not at {self.threshold}.")

    def judge(self, maps: Mapping[str, Tensor]) -> Regions:
        """Certain where max_k p_k > threshold; the score is what is missing to 1."""
        probabilities = maps["main"]
        return Regions(certain=confident(probabilities, self.threshold), score=1 - probabilities.amax(dim=1))
