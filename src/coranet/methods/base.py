"""The contract of a method.

A method is a frozen dataclass: its fields are its hyper-parameters. It says which networks exist, what they minimise in each
phase, what moves without gradients, and what they predict. It holds no state, knows no device, logs nothing and never
waits for a value. Only `loss` has to be written; every other function has a default that fits a single network.

A step is one labelled and one unlabelled batch, whatever updates are made of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from coranet.methods.other_voice import told_terms
from coranet.methods.segmenter import Segmenter
from coranet.nets import Body, Feature, MakeNet, body_of
from coranet.ops.losses import cross_entropy, masked_mean, probabilities, soft_dice
from coranet.types import Batch, Nets, Phase, Prediction, Progress, Sample, Terms, Update
from coranet.uncertainty import Estimator, Softmax


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """How networks learn from labelled and unlabelled images."""

    paper: ClassVar[str] = ""
    """Authors, venue and year."""
    high: ClassVar[str] = "none"
    """What is done with unlabelled pixels of high confidence."""
    low: ClassVar[str] = "none"
    """And with those of low confidence."""
    hears: ClassVar[bool] = False
    """Whether labels by another model are of use to it (`other_voice.py`)."""

    dice: float = 0.0
    """Weight of a Dice term beside the cross-entropy on labelled images. The paper has none."""

    # What exists

    @property
    def needs(self) -> frozenset[Feature]:
        """What a body must have for it, beyond an image in and logits out."""
        return frozenset()

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """The networks by name; the one that predicts by default is `student`."""
        return {"student": make_net()}

    @property
    def estimator(self) -> Estimator:
        """What says which of its predictions are uncertain."""
        return Softmax(threshold=0.9)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Stretches of training in order."""
        return (Phase(name="train", epochs=130),)

    # What is learnt

    @abstractmethod
    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """The objective of the one default update."""

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """The optimizer steps of one training step in order, each evaluated after the one before it."""
        return (Update(name="step", loss=self.loss),)

    def begin_phase(self, nets: Nets, phase: str) -> None:
        """Called once before a phase's first step."""

    def after_step(self, nets: Nets, at: Progress) -> None:
        """What moves without gradients, once a step."""

    # What is kept per case

    def remember(self, prediction: Prediction) -> dict[str, Tensor]:
        """Maps of unlabelled images to keep until the next refresh, `(B, *S)` uint8 by name."""
        return {}

    # What is predicted

    def predicting(self, nets: Nets) -> Body:
        """The network that predicts."""
        return body_of(nets)

    def segmenter(self, nets: Nets, *, uncertainty: bool = True) -> Segmenter:
        """What predicts: that network with all its estimator needs, or without uncertainty with its main head alone."""
        net = self.predicting(nets)
        if not uncertainty:
            return Segmenter(net.keeping(("main",)))
        return Segmenter(self.estimator.join(net, nets), self.estimator)

    def on_labels_alone(self) -> Method:
        """What to train where there are no unlabelled cases."""
        return self

    # Shared by all

    def labelled_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """What the student's main head and the estimator's own heads learn of labels; with the latter, CoraNet's L_crm."""
        sample = batch.labelled
        assert sample.label is not None
        logits = nets["student"](sample.image)
        own = self.estimator.losses(logits, sample.label)
        told = told_terms(
            batch.unlabelled,
            at,
            self.phases[0].name,
            lambda told: self.supervised_terms(nets["student"](told.image, ("main",))["main"], told),
        )
        return Terms(
            values=self.supervised_terms(logits["main"], sample)
            | {name: masked_mean(loss, sample.valid) for name, loss in own.items()}
            | told
        )

    def supervised_terms(self, logits: Tensor, sample: Sample) -> dict[str, Tensor]:
        """Cross-entropy, and Dice where asked for, of labelled images."""
        assert sample.label is not None
        terms = {"ce": masked_mean(cross_entropy(logits, sample.label), sample.valid)}
        if self.dice:
            terms["dice"] = self.dice * soft_dice(probabilities(logits), sample.label, sample.valid)
        return terms
