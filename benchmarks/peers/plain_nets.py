"""The networks of the peers' published steps, without anything that is there for speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn


def _twice(inputs: int, outputs: int, dropout: float) -> nn.Sequential:
    first, second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
    return nn.Sequential(
        *(first, nn.BatchNorm2d(outputs), nn.LeakyReLU(), nn.Dropout(dropout)),
        *(second, nn.BatchNorm2d(outputs), nn.LeakyReLU()),
    )


class PlainUNet(nn.Module):
    """SSL4MIS's U-Net: 16 to 256 channels, dropout on the way down, bilinear steps up after a 1 x 1 convolution."""

    def __init__(self, classes: int, width: int = 16, dropout: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.5)) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(len(dropout))]
        self.down = nn.ModuleList(
            _twice(inputs, outputs, drop) for inputs, outputs, drop in zip((1, *sizes), sizes, dropout, strict=False)
        )
        self.narrow = nn.ModuleList(nn.Conv2d(2 * size, size, 1) for size in reversed(sizes[:-1]))
        self.up = nn.ModuleList(_twice(2 * size, size, 0.0) for size in reversed(sizes[:-1]))
        self.out = nn.Conv2d(width, classes, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """`(B, 1, H, W)` to logits."""
        seen: list[Tensor] = []
        for level, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if level else x)
            seen.append(x)
        for narrow, block, skip in zip(self.narrow, self.up, reversed(seen[:-1]), strict=True):
            up = nn.functional.interpolate(narrow(x), scale_factor=2, mode="bilinear", align_corners=True)
            x = block(torch.cat([skip, up], dim=1))
        logits: Tensor = self.out(x)
        return logits


def _convolved(channels: int, count: int) -> nn.Sequential:
    return nn.Sequential(
        *(
            layer
            for _ in range(count)
            for layer in (nn.Conv3d(channels, channels, 3, padding=1), nn.InstanceNorm3d(channels), nn.ReLU())
        )
    )


def _stepped(step: nn.Module, outputs: int) -> nn.Sequential:
    return nn.Sequential(step, nn.InstanceNorm3d(outputs), nn.ReLU())


class PlainVNet(nn.Module):
    """The released CoraNet's V-Net: 16 channels, instance norm, added skips, three heads of one 3 x 3 x 3 convolution."""

    def __init__(self, width: int = 16, counts: Sequence[int] = (1, 2, 3, 3, 3)) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(len(counts))]
        self.first = _stepped(nn.Conv3d(1, width, 3, padding=1), width)
        self.blocks = nn.ModuleList(_convolved(size, count) for size, count in zip(sizes, counts, strict=True))
        self.down = nn.ModuleList(_stepped(nn.Conv3d(s, 2 * s, 2, stride=2), 2 * s) for s in sizes[:-1])
        self.up = nn.ModuleList(_stepped(nn.ConvTranspose3d(2 * s, s, 2, stride=2), s) for s in reversed(sizes[:-1]))
        self.back = nn.ModuleList(_convolved(s, n) for s, n in reversed(list(zip(sizes, counts, strict=True))[:-1]))
        heads = {name: nn.Sequential(_convolved(width, 1), nn.Conv3d(width, 2, 1)) for name in ("main", "con", "rad")}
        self.heads = nn.ModuleDict(heads)

    def forward(self, x: Tensor) -> Mapping[str, Tensor]:
        """`(B, 1, X, Y, Z)` to logits by head."""
        x, seen = self.blocks[0](self.first(x)), list[Tensor]()
        for down, block in zip(self.down, list(self.blocks)[1:], strict=True):
            seen.append(x)
            x = block(down(x))
        for up, block in zip(self.up, self.back, strict=True):
            x = block(up(x) + seen.pop())
        return {name: head(x) for name, head in self.heads.items()}
