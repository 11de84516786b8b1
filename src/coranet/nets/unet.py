"""The U-Net of the paper (Ronneberger et al., 2015; section IV-A of Shi et al., 2021), in two or three dimensions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from coranet.nets.body import Body
from coranet.nets.layers import MAX_POOL, TRANSPOSED, Norm, double_conv, head


class UNet(Body):
    """Down-sampling by max pooling, up-sampling by transposed convolutions, skips by concatenation.

    Channels double at each level from `width`; with 64 and four levels the last decoder level has 64, as the text says.
    """

    def __init__(
        self,
        *,
        dims: int,
        channels: int,
        heads: Mapping[str, int],
        width: int = 64,
        levels: int = 4,
        norm: Norm = "batch",
        head_convolutions: int = 2,
    ) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels + 1)]
        self.multiple = self.multiple_for(levels)
        self.encoder = nn.ModuleList(
            double_conv(dims, inputs, outputs, norm)
            for inputs, outputs in zip([channels, *widths[:-1]], widths, strict=True)
        )
        self.pool = MAX_POOL[dims](2)
        self.up = nn.ModuleList(TRANSPOSED[dims](2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.decoder = nn.ModuleList(double_conv(dims, 2 * w, w, norm) for w in reversed(widths[:-1]))
        self.heads = nn.ModuleDict(
            {name: head(dims, width, outputs, norm, head_convolutions) for name, outputs in heads.items()}
        )

    @staticmethod
    def multiple_for(levels: int) -> int:
        """Each level halves the image."""
        return int(2**levels)

    def encode(self, image: Tensor) -> list[Tensor]:
        """The feature of each level, finest first."""
        features = [self.encoder[0](image)]
        for block in self.encoder[1:]:
            features.append(block(self.pool(features[-1])))
        return features

    def decode(self, features: list[Tensor]) -> Tensor:
        """From the levels' features to one at full size."""
        *skips, x = features
        for up, block, skip in zip(self.up, self.decoder, reversed(skips), strict=True):
            x = block(torch.cat([skip, up(x)], dim=1))
        return x

    def features(self, image: Tensor) -> Tensor:
        """The decoder's last feature."""
        return self.decode(self.encode(image))
