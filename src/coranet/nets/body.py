"""What a method may ask of a network: levels of features once, then any of its decoders and named heads."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal, cast

from torch import Tensor, nn

from coranet.nets.layers import Head, read_heads

Feature = Literal["levels", "decoders", "dropout"]
"""What not every body has: features of several sizes, more decoders than one, dropout."""


class Body(nn.Module):
    """An encoder and one decoder or more, whose last features feed named heads.

    Calling it gives the logits of each head by name, all from one pass through the encoder. A head sits on the decoder of
    its own name where there is one, else on `main`.
    """

    heads: nn.ModuleDict
    decoders: nn.ModuleDict
    """By name, each from a list of levels to a list of features. Empty where a network is one piece."""
    multiple: int
    """Every axis of the input must be a multiple of this."""
    widths: tuple[int, ...]
    """Channels of the levels that `encode` gives, finest first."""

    @abstractmethod
    def encode(self, image: Tensor) -> list[Tensor]:
        """The feature of each level, finest first."""

    def decode(self, levels: list[Tensor], decoder: str = "main") -> list[Tensor]:
        """The features of a decoder, coarsest first; the last is at full size."""
        decoded: list[Tensor] = self.decoders[decoder](levels)
        return decoded

    def features(self, image: Tensor) -> Tensor:
        """The last feature of the main decoder, `(B, C, *S)` to `(B, F, *S)`."""
        return self.decode(self.encode(image))[-1]

    def read(self, levels: list[Tensor], heads: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Logits by head from the levels of an image, or from what was made of them; all heads where none are named."""
        names = tuple(heads or self.heads)
        logits: dict[str, Tensor] = {}
        for decoder in dict.fromkeys(map(self.decoder_of, names)):
            last, on = self.decode(levels, decoder)[-1], [name for name in names if self.decoder_of(name) == decoder]
            logits |= zip(on, self.read_heads(last, on), strict=True)
        return {name: logits[name] for name in names}

    def read_heads(self, feature: Tensor, names: Sequence[str]) -> list[Tensor]:
        """Logits of heads that sit on one feature."""
        heads = [self.heads[name] for name in names]
        if all(getattr(head, "fused", False) for head in heads):
            return read_heads(cast(list[Head], heads), feature)
        return [head(feature) for head in heads]

    def forward(self, image: Tensor, heads: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Logits by head; all heads where none are named."""
        return self.read(self.encode(image), heads)

    def decoder_of(self, head: str) -> str:
        """The decoder a head sits on."""
        return head if head in self.decoders else "main"

    def keeping(self, heads: Sequence[str]) -> Body:
        """A copy that has only these heads, and the decoders they sit on."""
        reduced = copy.deepcopy(self)
        used = set(map(self.decoder_of, heads))
        reduced.heads = nn.ModuleDict({name: reduced.heads[name] for name in heads})
        reduced.decoders = nn.ModuleDict({name: module for name, module in reduced.decoders.items() if name in used})
        return reduced


def body_of(nets: Mapping[str, nn.Module], name: str = "student") -> Body:
    """One of a method's networks that is a body, as students and teachers are."""
    return cast(Body, nets[name])


def count_parameters(net: nn.Module) -> int:
    """Trainable or not, every weight counts."""
    return sum(parameter.numel() for parameter in net.parameters())
