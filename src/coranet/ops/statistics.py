"""Passes through a network that leave no trace in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _NormBase


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
