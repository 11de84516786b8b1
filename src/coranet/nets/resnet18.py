"""The 3D ResNet-18 of section IV-A (Shi et al., 2021), in two or three dimensions.

The text takes the network over from UMCT (Xia et al., 2020), which follows the anisotropic hybrid network (AH-Net, Liu et
al., 2018), and says two things of it: the first 7 x 7 convolution of ResNet-18 (He et al., 2016) becomes 7 x 7 x 3, all
other 3 x 3 ones become 3 x 3 x 1. It leaves open how the third axis shrinks and how the decoder looks. Here

* the third axis is halved by max pooling: once after the first convolution, along with the other two, and by 1 x 1 x 2
  before every stage but the first. Pooling windows do not overlap, since the gradient of overlapping ones is not
  deterministic on a GPU in three dimensions; so the first is of width 2, where ResNet-18 has 3;
* the decoder is dense, as AH-Net's: three layers of growth 20 at each level, without its pyramid pooling;
* up-sampling is linear, and the last feature goes from half to full size so, with `width` channels. Heads of one
  convolution are the released code's: norm, ReLU, 3 x 3 x 1, before that last step; the text's stand after it.

In two dimensions the third axis is left out everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from coranet.nets.body import Body
from coranet.nets.layers import (
    MAX_POOL,
    NORM,
    TRANSPOSED,
    Norm,
    PerAxis,
    Upsampling,
    conv,
    conv_norm_relu,
    dropout,
    head,
    norm_relu,
    upsample_to,
)

DENSE_LAYERS, GROWTH = 3, 20


class ResNet18(Body):
    """A first convolution, `levels` residual stages of two blocks, and a dense decoder.

    Channels double at each stage from `width`: 64 to 512 in the paper.
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
    ) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels)]
        self.widths = (width, *widths)
        kernel = (3, 3, 1)[:dims]
        self.multiple = self.multiple_for(levels)
        self.stem = conv_norm_relu(dims, channels, width, norm, (7, 7, 3)[:dims], (2, 2, 1)[:dims])
        self.stages = nn.ModuleList(
            _stage(dims, inputs, outputs, norm) for inputs, outputs in zip([width, *widths[:-1]], widths, strict=True)
        )
        self.dropout = dropout(dims, dropout_rate, norm)
        self.decoders = nn.ModuleDict(
            {
                name: DenseDecoder(dims, self.widths, norm, transposed=kind == "other", dropout_rate=dropout_rate)
                for name, kind in {"main": "own", **(decoders or {})}.items()
            }
        )
        self.short_heads = head_convolutions == 1
        self.heads = nn.ModuleDict(
            {
                name: nn.Sequential(norm_relu(dims, width, norm), conv(dims, width, outputs, kernel, bias=True))
                if self.short_heads
                else head(dims, width, outputs, norm, head_convolutions, kernel)
                for name, outputs in heads.items()
            }
        )

    @staticmethod
    def multiple_for(levels: int) -> int:
        """The first convolution halves as well as the stages; one number for all axes, though the third needs half."""
        return int(2 ** (levels + 1))

    def encode(self, image: Tensor) -> list[Tensor]:
        """The feature of the first convolution and of each stage, finest first; the first is half as large."""
        features = [self.stem(image)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        return [*features[:-1], self.dropout(features[-1])]

    def read(self, levels: list[Tensor], heads: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Logits by head; short heads stand before the last up-sampling, and their logits are up-sampled."""
        if not self.short_heads:
            return super().read(levels, heads)
        names, found = tuple(heads or self.heads), {}
        for name in names:
            *_, half, full = self.decode(levels, self.decoder_of(name))
            found[name] = upsample_to(self.heads[name](half), full.shape[2:])
        return found


class DenseDecoder(nn.Module):
    """From the levels' features, finest first, to one feature a level, coarsest first, and one at full size."""

    def __init__(
        self, dims: int, widths: Sequence[int], norm: Norm, *, transposed: bool, dropout_rate: float = 0.0
    ) -> None:
        super().__init__()
        skips, coarser = [*reversed(widths[:-1])], [*reversed(widths[1:])]
        kernel = (3, 3, 1)[:dims]
        self.project = nn.ModuleList(
            conv(dims, inputs, outputs, 1) for inputs, outputs in zip(coarser, skips, strict=True)
        )
        self.blocks = nn.ModuleList(DenseBlock(dims, 2 * w, w, norm, kernel) for w in skips)
        # The first convolution keeps the third axis, so the last step leaves it as it is.
        strides = [(2,) * dims] * len(skips) + [(2, 2, 1)[:dims]]
        self.up = nn.ModuleList(
            TRANSPOSED[dims](w, w, stride, stride=stride)
            for w, stride in zip([*skips, widths[0]], strides, strict=True)
            if transposed
        )
        self.dropout = dropout(dims, dropout_rate, norm)

    def forward(self, levels: list[Tensor]) -> list[Tensor]:
        """Each level's feature; dropout is on the last."""
        *skips, x = levels
        features = []
        for step, (project, block, skip) in enumerate(zip(self.project, self.blocks, reversed(skips), strict=True)):
            x = block(torch.cat([skip, self._upsample(project(x), step, skip.shape[2:])], dim=1))
            features.append(x)
        full = [n if axis == 2 else 2 * n for axis, n in enumerate(x.shape[2:])]
        return [*features, self.dropout(self._upsample(x, len(skips), full))]

    def _upsample(self, x: Tensor, step: int, size: Sequence[int]) -> Tensor:
        return self.up[step](x) if len(self.up) else upsample_to(x, size)


class BasicBlock(nn.Module):
    """Two convolutions beside a shortcut, which is projected where size or channels change."""

    def __init__(self, dims: int, inputs: int, outputs: int, norm: Norm, stride: PerAxis) -> None:
        super().__init__()
        kernel = (3, 3, 1)[:dims]
        self.residual = nn.Sequential(
            conv_norm_relu(dims, inputs, outputs, norm, kernel, stride),
            conv(dims, outputs, outputs, kernel),
            NORM[norm][dims](outputs, affine=True),
        )
        self.shortcut = (
            nn.Identity()
            if inputs == outputs
            else nn.Sequential(conv(dims, inputs, outputs, 1, stride), NORM[norm][dims](outputs, affine=True))
        )

    def forward(self, x: Tensor) -> Tensor:
        """`(B, C, *S)` to `(B, outputs, *S / stride)`."""
        return torch.relu(self.residual(x) + self.shortcut(x))


class DenseBlock(nn.Module):
    """Layers that each see all that came before them, then a convolution of width 1 to `outputs` (Huang et al., 2017)."""

    def __init__(self, dims: int, inputs: int, outputs: int, norm: Norm, kernel: PerAxis) -> None:
        super().__init__()
        seen = [inputs + layer * GROWTH for layer in range(DENSE_LAYERS + 1)]
        self.layers = nn.ModuleList(
            nn.Sequential(norm_relu(dims, n, norm), conv(dims, n, GROWTH, kernel)) for n in seen[:-1]
        )
        self.transition = nn.Sequential(norm_relu(dims, seen[-1], norm), conv(dims, seen[-1], outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        """`(B, inputs, *S)` to `(B, outputs, *S)`."""
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        out: Tensor = self.transition(x)
        return out


def _stage(dims: int, inputs: int, outputs: int, norm: Norm) -> nn.Sequential:
    """Half the size: the first stage by pooling alone, the others by stride in the first two axes."""
    first = inputs == outputs
    stride = 1 if first else (2, 2, 1)[:dims]
    pool = [MAX_POOL[dims](2)] if first else [MAX_POOL[dims]((1, 1, 2))] if dims == 3 else []
    return nn.Sequential(
        *pool, BasicBlock(dims, inputs, outputs, norm, stride), BasicBlock(dims, outputs, outputs, norm, 1)
    )
