"""Bodies with named heads, chosen from one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from coranet.errors import InputError
from coranet.nets.body import Body, count_parameters
from coranet.nets.layers import Norm
from coranet.nets.unet import UNet

__all__ = ["NETS", "Body", "MakeNet", "Net", "count_parameters"]

NETS: dict[str, type[UNet]] = {"unet": UNet}


@dataclass(frozen=True, kw_only=True)
class Net:
    """Which network is trained. The defaults are the paper's."""

    body: str = "unet"
    """One of the table NETS."""
    width: int = 64
    """Channels of the finest level; they double at each level below."""
    levels: int = 4
    """How often the image is halved."""
    norm: Norm = "batch"
    """Batch or instance normalisation."""
    head_convolutions: Literal[1, 2] = 2
    """Convolutions of width 3 in each head: two in the paper's text, one in its released code."""

    def __post_init__(self) -> None:
        if self.body not in NETS:
            raise InputError(f"No network is called {self.body!r}. There are: {', '.join(NETS)}.")
        if self.width < 1 or self.levels < 1:
            raise InputError(f"A network needs width and levels of at least 1, not {self.width} and {self.levels}.")


@dataclass(frozen=True)
class MakeNet:
    """Builds the networks a method asks for, all of one kind and for one kind of data."""

    net: Net
    dims: int
    channels: int
    classes: int

    def __call__(self, heads: Mapping[str, int] | None = None) -> Body:
        """A new network whose heads have that many outputs; by default one head, `main`, with an output per class."""
        return NETS[self.net.body](
            dims=self.dims,
            channels=self.channels,
            heads=heads or {"main": self.classes},
            width=self.net.width,
            levels=self.net.levels,
            norm=self.net.norm,
            head_convolutions=self.net.head_convolutions,
        )
