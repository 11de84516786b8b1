"""The U-Net of the paper (Ronneberger et al., 2015; section IV-A of Shi et al., 2021), in two or three dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from torch import Tensor, nn

from coranet.nets.body import Body
from coranet.nets.layers import Norm, Upsample, Upsampling, double_conv, dropout, make_heads, max_pool


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
        decoders: Mapping[str, Upsampling] | None = None,
        dropout_rate: float = 0.0,
        dropped: Sequence[float] = (),
    ) -> None:
        super().__init__()
        self.widths = tuple(width * 2**level for level in range(levels + 1))
        self.multiple = self.multiple_for(levels)
        shares = [*dropped, *[0.0] * (levels + 1 - len(dropped))]
        self.encoder = nn.ModuleList(
            double_conv(dims, inputs, outputs, norm, share)
            for inputs, outputs, share in zip([channels, *self.widths[:-1]], self.widths, shares, strict=True)
        )
        self.pool = max_pool(dims)
        self.dropout = dropout(dims, dropout_rate, norm)
        self.decoders = nn.ModuleDict(
            {
                name: UNetDecoder(dims, self.widths, norm, transposed=kind == "own", dropout_rate=dropout_rate)
                for name, kind in {"main": "own", **(decoders or {})}.items()
            }
        )
        self.heads = make_heads(dims, width, heads, norm, head_convolutions)

    @staticmethod
    def multiple_for(levels: int) -> int:
        """Each level halves the image."""
        return int(2**levels)

    def encode(self, image: Tensor) -> list[Tensor]:
        """The feature of each level, finest first."""
        features = [self.encoder[0](image)]
        for block in self.encoder[1:]:
            features.append(block(self.pool(features[-1])))
        return [*features[:-1], self.dropout(features[-1])]


class UNetDecoder(nn.Module):
    """From the levels' features, finest first, to one feature a level, coarsest first."""

    def __init__(
        self, dims: int, widths: Sequence[int], norm: Norm, *, transposed: bool, dropout_rate: float = 0.0
    ) -> None:
        super().__init__()
        skips = [*reversed(widths[:-1])]
        self.up = nn.ModuleList(Upsample(dims, 2 * w, w, transposed=transposed) for w in skips)
        self.blocks = nn.ModuleList(double_conv(dims, 2 * w, w, norm) for w in skips)
        self.dropout = dropout(dims, dropout_rate, norm)

    def forward(self, levels: list[Tensor]) -> list[Tensor]:
        """Each level's feature; dropout is on the last."""
        *skips, x = levels
        features = []
        for up, block, skip in zip(self.up, self.blocks, reversed(skips), strict=True):
            x = block(cast(Upsample, up).join(skip, x))
            features.append(x)
        return [*features[:-1], self.dropout(features[-1])]
