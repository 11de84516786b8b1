"""V-Net (Milletari et al., 2016) as semi-supervised segmentation uses it (Yu et al., 2019), in two or three dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from coranet.nets.body import Body
from coranet.nets.layers import (
    Norm,
    Upsampling,
    conv_norm_relu,
    down_norm_relu,
    dropout,
    make_heads,
    up_norm_relu,
)


class VNet(Body):
    """Down- and up-sampling by convolutions of stride 2, skips by addition.

    Channels double at each level from `width`, and the levels have 1, 2, 3, 3, ... convolutions going down and the same
    going up; with 16, four levels and a plain output layer it has the field's 9.4 M parameters. The residuals within
    a level, which the original has, are left out there as here.
    """

    def __init__(
        self,
        *,
        dims: int,
        channels: int,
        heads: Mapping[str, int],
        width: int = 16,
        levels: int = 4,
        norm: Norm = "batch",
        head_convolutions: int = 2,
        decoders: Mapping[str, Upsampling] | None = None,
        dropout_rate: float = 0.0,
    ) -> None:
        super().__init__()
        widths = self.widths = tuple(width * 2**level for level in range(levels + 1))
        counts = [min(level + 1, 3) for level in range(levels + 1)]
        self.multiple = self.multiple_for(levels)
        self.encoder = nn.ModuleList(
            _block(dims, inputs, outputs, norm, count)
            for inputs, outputs, count in zip([channels, *widths[1:]], widths, counts, strict=True)
        )
        self.down = nn.ModuleList(down_norm_relu(dims, w, norm) for w in widths[:-1])
        self.dropout = dropout(dims, dropout_rate, norm)
        self.decoders = nn.ModuleDict(
            {
                name: VNetDecoder(dims, widths, counts, norm, transposed=kind == "own", dropout_rate=dropout_rate)
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
        for down, block in zip(self.down, self.encoder[1:], strict=True):
            features.append(block(down(features[-1])))
        return [*features[:-1], self.dropout(features[-1])]


class VNetDecoder(nn.Module):
    """From the levels' features, finest first, to one feature a level, coarsest first."""

    def __init__(
        self,
        dims: int,
        widths: Sequence[int],
        counts: Sequence[int],
        norm: Norm,
        *,
        transposed: bool,
        dropout_rate: float = 0.0,
    ) -> None:
        super().__init__()
        self.up = nn.ModuleList(up_norm_relu(dims, w, norm, transposed=transposed) for w in reversed(widths[:-1]))
        self.blocks = nn.ModuleList(
            _block(dims, w, w, norm, count) for w, count in reversed([*zip(widths[:-1], counts[:-1], strict=True)])
        )
        self.dropout = dropout(dims, dropout_rate, norm)

    def forward(self, levels: list[Tensor]) -> list[Tensor]:
        """Each level's feature; dropout is on the last."""
        *skips, x = levels
        features = []
        for up, block, skip in zip(self.up, self.blocks, reversed(skips), strict=True):
            x = block(up(x) + skip)
            features.append(x)
        return [*features[:-1], self.dropout(features[-1])]


def _block(dims: int, inputs: int, outputs: int, norm: Norm, count: int) -> nn.Sequential:
    first = conv_norm_relu(dims, inputs, outputs, norm, bias=True)
    return nn.Sequential(first, *(conv_norm_relu(dims, outputs, outputs, norm, bias=True) for _ in range(count - 1)))
