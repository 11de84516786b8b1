"""Networks of a run that may come from anyone: no larger than the file that holds their weights, whatever run.json says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.nets import MakeNet

FACTORIES = frozenset(
    {"empty", "zeros", "ones", "full", "rand", "randn", "empty_strided", "new_empty", "new_zeros", "eye"}
)
"""What PyTorch makes new tensors with; the shape comes first, or after the tensor that they are like."""
SPARE = 64 * 2**20
"""Bytes that constructors may use on the way."""


class Allowance(TorchDispatchMode):
    """Refuses tensors before they are made, once they take more together than is allowed."""

    def __init__(self, most: int, refusal: str) -> None:
        begin: Callable[[], None] = super().__init__
        begin()
        self.left, self.refusal = most, refusal

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """To keep PyTorch's compiler away from what follows loads it, which takes more than a second; none is at work."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Count what is about to be made, and make it."""
        options = kwargs or {}
        if func.overloadpacket.__name__ in FACTORIES and str(options.get("device")) != "meta":
            sizes = next((arg for arg in args if isinstance(arg, list | tuple)), args)
            self.left -= 4 * prod(size for size in sizes if isinstance(size, int))
            if self.left < 0:
                raise InputError(self.refusal)
        return func(*args, **options)


def make_networks(run: Run, source: Path) -> dict[str, nn.Module]:
    """A run's networks, for weights that lie in a file: none are fetched from elsewhere.

    Raises:
        InputError: they would take far more memory than the file has bytes.
    """
    options = {name: value for name, value in run.net.options.items() if name != "pretrained"}
    net = replace(run.net, options=options)
    refusal = (
        f"{source}: is far too small for the networks that run.json describes (width {net.width}, {net.levels} levels, "
        f"{run.data.channels} channels, {run.classes} classes). Use the run.json that belongs to it."
    )
    most = SPARE + (4 * source.stat().st_size if source.exists() else 0)
    with Allowance(most, refusal), torch.device("cpu"):
        return run.method.nets(MakeNet(net, run.data.window.dims, run.data.channels, run.classes))
