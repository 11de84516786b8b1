"""What a method may ask of a network: features once, then any of its named heads."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence

from torch import Tensor, nn


class Body(nn.Module):
    """An encoder and a decoder whose last feature feeds named heads.

    Calling it gives the logits of each head by name, all from one pass through encoder and decoder.
    """

    heads: nn.ModuleDict
    multiple: int
    """Every axis of the input must be a multiple of this."""

    @abstractmethod
    def features(self, image: Tensor) -> Tensor:
        """The decoder's last feature, `(B, C, *S)` to `(B, F, *S)`."""

    def forward(self, image: Tensor, heads: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Logits by head; all heads where none are named."""
        features = self.features(image)
        return {name: self.heads[name](features) for name in (heads or self.heads)}

    def keeping(self, heads: Sequence[str]) -> Body:
        """A copy that has only these heads."""
        reduced = copy.deepcopy(self)
        reduced.heads = nn.ModuleDict({name: reduced.heads[name] for name in heads})
        return reduced


def count_parameters(net: nn.Module) -> int:
    """Trainable or not, every weight counts."""
    return sum(parameter.numel() for parameter in net.parameters())
