"""Passes through a network that leave no trace in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from coranet.ops.losses import probabilities


@torch.no_grad()
def guess(net: nn.Module, image: Tensor) -> Tensor:
    """Probabilities `(B, K, *S)` of the head `main`: no gradient, no dropout, and running statistics stay where they are."""
    with evaluating(net):
        return probabilities(net(image, ("main",))["main"])


@contextmanager
def evaluating(net: nn.Module) -> Iterator[None]:
    """Meanwhile the network is in evaluation mode; after it every layer is in the mode it was in before."""
    learning = [layer for layer in net.modules() if layer.training]
    for layer in learning:
        layer.training = False
    try:
        yield
    finally:
        for layer in learning:
            layer.training = True


@contextmanager
def dropout_on(net: nn.Module) -> Iterator[None]:
    """Meanwhile dropout layers draw, on the network's device; all other layers stay in the mode they are in.

    So a network in evaluation mode keeps its running statistics, and normalises by them, as Monte Carlo dropout needs it
    (Gal & Ghahramani, ICML 2016).
    """
    layers = [layer for layer in net.modules() if isinstance(layer, _DropoutNd)]
    modes = [layer.training for layer in layers]
    for layer in layers:
        layer.train()
    try:
        yield
    finally:
        for layer, mode in zip(layers, modes, strict=True):
            layer.train(mode)


@contextmanager
def frozen_statistics(*nets: nn.Module) -> Iterator[None]:
    """Keep running statistics as they are; a network in training still normalises by those of the batch.

    For images a network should not get used to, such as adversarial ones, and for a second look at a batch, which would
    count it twice. Instance norms keep no statistics and are left alone.
    """
    norms = [layer for net in nets for layer in net.modules() if isinstance(layer, _NormBase)]
    tracking = [layer for layer in norms if layer.track_running_stats]
    for layer in tracking:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in tracking:
            layer.track_running_stats = True
