"""Networks: bodies with named heads, chosen from one table or by name from MONAI, and critics.

`Net` is what a run says of its network; `MakeNet` makes it, with the heads that a method asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from coranet.errors import InputError, suggest
from coranet.nets.body import Body, Feature, body_of, count_parameters
from coranet.nets.critic import Critic
from coranet.nets.fused import fuse
from coranet.nets.layers import Norm, Upsampling
from coranet.nets.monai import MonaiBody, multiple_of
from coranet.nets.resnet18 import ResNet18
from coranet.nets.unet import UNet
from coranet.nets.vnet import VNet

__all__ = ["NETS", "Body", "Critic", "Feature", "MakeNet", "Net", "body_of", "count_parameters", "fuse"]

NETS: dict[str, type[UNet] | type[VNet] | type[ResNet18]] = {"unet": UNet, "vnet": VNet, "resnet18": ResNet18}
MONAI = "monai:"


@dataclass(frozen=True, kw_only=True)
class Net:
    """Which network is trained. The defaults are the paper's."""

    body: str = "unet"
    """One of the table NETS, or `monai:NAME` for a network of MONAI."""
    width: int = 64
    """Channels of the finest level, which double at each level below: 64 in the paper's U-Net and ResNet-18, 16 in
    the field's V-Net."""
    levels: int = 4
    """How often the image is halved; in `resnet18` the number of stages, which come after a first halving."""
    norm: Norm = "batch"
    """Batch or instance normalisation. A network of MONAI keeps its own; this is that of its heads."""
    head_convolutions: Literal[1, 2] = 2
    """Convolutions of width 3 in each head: two in the paper's text, one in its released code."""
    dropped: tuple[float, ...] = ()
    """Of `unet`: share of values dropped within each level of the encoder, finest first. The paper has none; the field takes
    0.05, 0.1, 0.2, 0.3 and 0.5."""
    deep: float = 0.0
    """Weight of labels at coarser levels of the decoder (deep supervision), beside what any method learns; 0 has none."""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further arguments of a MONAI network's constructor."""

    def __post_init__(self) -> None:
        if self.body not in NETS and self.monai is None:
            names = suggest(self.body, NETS, f", and {MONAI}NAME for those of MONAI")
            raise InputError(f"No network is called {self.body[:80]!r}. {names}")
        if self.width < 1 or self.levels < 1:
            raise InputError(f"A network needs width and levels of at least 1, not {self.width} and {self.levels}.")
        if self.dropped and self.body != "unet":
            raise InputError(f"Only unet drops values within levels (net.dropped), not {self.body}.")
        if len(self.dropped) > self.levels + 1 or not all(0 <= share < 1 for share in self.dropped):
            raise InputError(f"net.dropped has a share from 0 to below 1 for each of {self.levels + 1} levels at most.")
        if self.deep < 0 or (self.deep and self.monai):
            raise InputError(
                f"net.deep is not negative, and for {', '.join(NETS)}; {self.body} has no levels to learn at."
            )
        if not isinstance(self.options, Mapping):
            raise InputError(f"Options of a network are arguments by name, not {self.options!r}.")
        if self.options and self.monai is None:
            raise InputError(
                f"Network {self.body!r} takes no options ({', '.join(self.options)}); they are for a body {MONAI}NAME."
            )

    @property
    def monai(self) -> str | None:
        """The name of the network in MONAI, if it is one of theirs."""
        return self.body.removeprefix(MONAI) if self.body.startswith(MONAI) else None

    @property
    def offers(self) -> frozenset[Feature]:
        """What a method may ask of it, beyond an image in and logits out."""
        return frozenset() if self.monai else frozenset({"levels", "decoders", "dropout"})

    @property
    def multiple(self) -> int:
        """What every axis of a window must be a multiple of."""
        if self.monai is None:
            return NETS[self.body].multiple_for(self.levels)
        return multiple_of(self.monai, self.levels, self.options)


@dataclass(frozen=True)
class MakeNet:
    """Builds the networks a method asks for, all of one kind and for one kind of data."""

    net: Net
    dims: int
    channels: int
    classes: int

    def __call__(
        self,
        heads: Mapping[str, int] | None = None,
        *,
        decoders: Mapping[str, Upsampling] | None = None,
        dropout: float = 0.0,
    ) -> Body:
        """A new network.

        Args:
            heads: their outputs by name; by default one head, `main`, with an output per class.
            decoders: beside `main`; a head sits on the decoder of its name where there is one.
            dropout: rate on the coarsest level and on each decoder's last feature.
        """
        name, options = self.net.monai, self.net.options
        make: Callable[..., Body] = NETS[self.net.body] if name is None else partial(MonaiBody, name, options=options)
        if self.net.dropped:
            make = partial(make, dropped=self.net.dropped)
        return make(
            dims=self.dims,
            channels=self.channels,
            heads=heads or {"main": self.classes},
            width=self.net.width,
            levels=self.net.levels,
            norm=self.net.norm,
            head_convolutions=self.net.head_convolutions,
            decoders=decoders,
            dropout_rate=dropout,
        )

    def critic(self, channels: int) -> Critic:
        """A new network that tells from maps of that many channels where they come from."""
        return Critic(self.dims, channels, width=self.net.width, layers=min(4, self.net.levels))
