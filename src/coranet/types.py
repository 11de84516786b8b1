"""What travels between rooms: tensors with a name, and nothing that computes.

Shapes: `B` images, `C` channels, `K` classes, `*S` the two or three axes of space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

Nets = Mapping[str, nn.Module]
"""The networks of a method by name, such as `student` and `teacher`."""

Maps = Mapping[str, Tensor]
"""Maps of a case by name, `(*S)` in case space or `(B, *S)` in a batch."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Images cut from the store, each with its maps, all through one warp."""

    image: Tensor
    """`(B, C, *S)` float."""
    valid: Tensor
    """`(B, *S)` bool: false where the warp reached outside the image, and in labelled images where nobody drew. Belongs to
    no region and no loss."""
    label: Tensor | None = None
    """`(B, *S)` long, 0 where nobody drew; absent for unlabelled images, so that nothing can read it."""
    maps: Maps = field(default_factory=dict)
    """What is kept for these cases, cut and warped with the image: `(B, *S)` uint8 as the method remembered it, or
    `(B, M, *S)` float as it was traced. A map that nothing was kept of yet is not there."""
    unit: float = 1.0
    """How far intensities of training scans spread, in which noise, contrast and brightness are measured: 1 where scans are
    normalised to unit variance."""
    extent: Tensor | None = None
    """`(B, *S)` bool: false only where the warp reached outside, drawn or not; None where that is `valid`."""

    @property
    def inside(self) -> Tensor:
        """`(B, *S)` bool: the image, for terms of labelled images that ask no label."""
        return self.valid if self.extent is None else self.extent


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One step's images. Without unlabelled cases `unlabelled` is None, and a method trains on labels alone."""

    labelled: Sample
    unlabelled: Sample | None = None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where training stands. What changes each step is a tensor on the device, what changes by phase is not."""

    step: Tensor
    """Steps done, over all phases."""
    steps: int
    """Steps in all."""
    phase: str
    phase_step: Tensor
    """Steps done in this phase."""
    phase_steps: int
    epoch: Tensor
    """Epochs done in this phase: `phase_step` over the steps an epoch has."""
    passes: Tensor
    """How often each labelled image has been seen so far, over all phases."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A map of unlabelled images that is averaged over the steps that see them, each in its own space.

    Through the inverse of the view they were seen in: kept ← decay · kept + (1 - decay) · values, where the view reached.
    What was never seen is 0.
    """

    values: Tensor
    """`(B, M, *S)` float."""
    decay: float


@dataclass(frozen=True, kw_only=True)
class Terms:
    """An objective as named terms: the total is the sum of weight times value."""

    values: Mapping[str, Tensor]
    weights: Mapping[str, Tensor | float] = field(default_factory=dict)
    """A term that is not named here weighs 1."""
    measures: Mapping[str, Tensor] = field(default_factory=dict)
    """Logged, not optimised: the uncertain share, a threshold."""
    traces: Mapping[str, Trace] = field(default_factory=dict)
    """What to keep of the unlabelled images of this batch, by name of the map."""

    @classmethod
    def together(cls, parts: Iterable[Terms]) -> Terms:
        """Parts of one objective as one."""
        every = list(parts)
        return cls(
            values={name: value for part in every for name, value in part.values.items()},
            weights={name: weight for part in every for name, weight in part.weights.items()},
            measures={name: measure for part in every for name, measure in part.measures.items()},
            traces={name: trace for part in every for name, trace in part.traces.items()},
        )

    @property
    def total(self) -> Tensor:
        """The scalar that is minimised."""
        weighted = [self.weights.get(name, 1.0) * value for name, value in self.values.items()]
        return torch.stack([torch.as_tensor(term) for term in weighted]).sum()


@dataclass(frozen=True, kw_only=True)
class Regions:
    """What an estimator of uncertainty says of an image: two regions and a score behind them."""

    certain: Tensor
    """`(B, *S)` bool."""
    score: Tensor
    """`(B, *S)` float, larger where less certain."""
    maps: Maps = field(default_factory=dict)
    """What else can be shown, such as the conservative and the radical mask: `(B, *S)` uint8."""
    soft: Maps = field(default_factory=dict)
    """Probabilities that such masks are read from, of each object: `(B, K - 1, *S)`."""

    @property
    def uncertain(self) -> Tensor:
        """`(B, *S)` bool."""
        return ~self.certain


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a method says of an image."""

    probabilities: Tensor
    """`(B, K, *S)`, summing to one over classes."""
    regions: Regions | None = None
    objects: tuple[Prediction, ...] = ()
    """Where each object has a network of its own: what each of them says, of two classes, in order of the objects."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """One optimizer step: which networks it moves, by which loss, through which optimizer.

    Networks that are not named are frozen while it runs. Updates that name the same optimizer share its state.
    """

    name: str
    loss: Callable[[Nets, Batch, Progress], Terms]
    trains: tuple[str, ...] = ("student",)
    optimizer: str = "main"
    rate: float = 1.0
    """Times the run's learning rate."""
    adam: float | None = None
    """The rate of an Adam of its own, which stays as it is, whatever the run's optimizer; None takes the run's."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of training with one objective. Lengths are in epochs; a run shrinks or stretches them in proportion."""

    name: str
    epochs: float
    refresh_every: float | None = None
    """Epochs between two refreshes of the maps kept per case; None where the phase keeps none."""
    alone: bool = False
    """Whether it learns from labels alone."""
