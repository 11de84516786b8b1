"""Dropout that draws while everything else evaluates, as Monte Carlo dropout needs it (Gal & Ghahramani, ICML 2016)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.dropout import _DropoutNd


@contextmanager
def dropout_on(net: nn.Module) -> Iterator[None]:
    """Meanwhile dropout layers draw, on the network's device; all other layers stay in the mode they are in.

    So a network in evaluation mode keeps its running statistics, and normalises by them.
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
