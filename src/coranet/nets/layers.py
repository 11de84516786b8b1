"""Layers by dimension, and the blocks made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from coranet.nets import fused

Norm = Literal["batch", "instance"]
Upsampling = Literal["own", "other"]
"""How a decoder up-samples: as the body's main one does, or the other way of transposed convolutions and linear ones."""
PerAxis = int | tuple[int, ...]
"""One number for all axes, or one for each."""

CONVOLUTION: dict[int, type[nn.Module]] = {2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED: dict[int, type[nn.Module]] = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
MAX_POOL: dict[int, type[nn.Module]] = {2: nn.MaxPool2d, 3: nn.MaxPool3d}
CHANNEL_DROPOUT: dict[int, type[nn.Module]] = {2: nn.Dropout2d, 3: nn.Dropout3d}
NORM: dict[Norm, dict[int, type[nn.Module]]] = {
    "batch": {2: nn.BatchNorm2d, 3: nn.BatchNorm3d},
    "instance": {2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d},
}


def conv(
    dims: int, inputs: int, outputs: int, kernel: PerAxis = 3, stride: PerAxis = 1, *, bias: bool = False
) -> nn.Module:
    """A convolution padded such that a stride of 1 keeps the size; kernels are odd."""
    padding = kernel // 2 if isinstance(kernel, int) else tuple(k // 2 for k in kernel)
    return CONVOLUTION[dims](inputs, outputs, kernel, stride=stride, padding=padding, bias=bias)


class NormReLU(fused.Fusable):
    """A norm and ReLU."""

    def forward(self, x: Tensor) -> Tensor:
        """`(B, C, *S)` to the same."""
        return fused.norm_relu(cast(_NormBase, self[0]), x) if self.fused else self.one_by_one(x)


class ConvNormReLU(fused.Fusable):
    """A convolution, or an up-sampling, a norm and ReLU."""

    @property
    def conv(self) -> _ConvNd:
        """The convolution."""
        return cast(_ConvNd, self[0].conv if isinstance(self[0], Upsample) else self[0])

    @property
    def norm(self) -> _NormBase:
        """The norm."""
        return cast(_NormBase, self[1])

    def forward(self, x: Tensor) -> Tensor:
        """`(B, inputs, *S)` to `(B, outputs, *S)`."""
        if not self.fused:
            return self.one_by_one(x)
        if isinstance(self[0], Upsample) and not self[0].transposed:
            return fused.norm_relu(self.norm, self[0](x))
        return fused.conv_norm_relu(self.conv, self.norm, x)


class Head(fused.Fusable):
    """Convolutions with norm and ReLU, then one of width 1 to the outputs."""

    @property
    def first(self) -> ConvNormReLU:
        """The first of the convolutions."""
        return cast(ConvNormReLU, self[0])

    def forward(self, x: Tensor) -> Tensor:
        """`(B, width, *S)` to `(B, outputs, *S)`."""
        return self.finish(x, 0) if self.fused else self.one_by_one(x)

    def finish(self, x: Tensor, done: int) -> Tensor:
        """The rest of the layers where some have been done elsewhere."""
        for number in range(done, len(self) - 1):
            x = self[number](x)
        return fused.readout(cast(_ConvNd, self[-1]), x)


def read_heads(heads: Sequence[Head], x: Tensor) -> list[Tensor]:
    """Several fused heads on one feature, their first convolutions as one where a kernel can."""
    firsts = [head.first for head in heads if isinstance(head[0], ConvNormReLU)]
    if 1 < len(heads) == len(firsts):
        together = fused.conv_together([first.conv for first in firsts], x)
        if together is not None:
            read = zip(heads, firsts, together, strict=True)
            return [head.finish(fused.norm_relu(first.norm, y, first.conv.bias), 1) for head, first, y in read]
    return [head(x) for head in heads]


def norm_relu(dims: int, channels: int, norm: Norm) -> NormReLU:
    """What follows a convolution, or goes before it."""
    return NormReLU(*_norm_relu(dims, channels, norm))


def _norm_relu(dims: int, channels: int, norm: Norm) -> tuple[nn.Module, nn.Module]:
    return NORM[norm][dims](channels, affine=True), nn.ReLU(inplace=True)


def conv_norm_relu(
    dims: int,
    inputs: int,
    outputs: int,
    norm: Norm,
    kernel: PerAxis = 3,
    stride: PerAxis = 1,
    *,
    bias: bool = False,
) -> ConvNormReLU:
    """A convolution with its norm and ReLU."""
    return ConvNormReLU(conv(dims, inputs, outputs, kernel, stride, bias=bias), *_norm_relu(dims, outputs, norm))


def down_norm_relu(dims: int, inputs: int, norm: Norm) -> ConvNormReLU:
    """Half the size and twice the channels."""
    return ConvNormReLU(CONVOLUTION[dims](inputs, 2 * inputs, 2, stride=2), *_norm_relu(dims, 2 * inputs, norm))


def up_norm_relu(dims: int, outputs: int, norm: Norm, *, transposed: bool) -> ConvNormReLU:
    """Twice the size and half the channels."""
    return ConvNormReLU(Upsample(dims, 2 * outputs, outputs, transposed=transposed), *_norm_relu(dims, outputs, norm))


def double_conv(dims: int, inputs: int, outputs: int, norm: Norm, dropped: float = 0.0) -> nn.Sequential:
    """Two of them, and between them a share of the values dropped."""
    first, second = conv_norm_relu(dims, inputs, outputs, norm), conv_norm_relu(dims, outputs, outputs, norm)
    return nn.Sequential(first, nn.Dropout(dropped), second) if dropped else nn.Sequential(first, second)


def head(dims: int, inputs: int, outputs: int, norm: Norm, convolutions: int, kernel: PerAxis = 3) -> Head:
    """A head; the paper has two convolutions of width 3 in it, its released code one."""
    body = [conv_norm_relu(dims, inputs, inputs, norm, kernel) for _ in range(convolutions)]
    return Head(*body, CONVOLUTION[dims](inputs, outputs, 1))


def make_heads(dims: int, width: int, heads: Mapping[str, int], norm: Norm, convolutions: int) -> nn.ModuleDict:
    """A head for each name, with that many outputs, on features of `width` channels."""
    return nn.ModuleDict({name: head(dims, width, outputs, norm, convolutions) for name, outputs in heads.items()})


def dropout(dims: int, rate: float, norm: Norm) -> nn.Module:
    """Drops single values, and of volumes whole channels, as the field's V-Nets do, where norms keep no statistics.

    A norm that follows dropped channels learns of another spread than it meets in evaluation, and objects shrink there.
    """
    if not rate:
        return nn.Identity()
    return CHANNEL_DROPOUT[dims](rate) if dims == 3 and norm == "instance" else nn.Dropout(rate)


class MaxPool(fused.Fusable):
    """Half the size."""

    def forward(self, x: Tensor) -> Tensor:
        """`(B, C, *2S)` to `(B, C, *S)`."""
        return fused.max_pool(self[0], x) if self.fused else self.one_by_one(x)


def max_pool(dims: int) -> MaxPool:
    """The largest of each two voxels along every axis."""
    return MaxPool(MAX_POOL[dims](2))


class Upsample(fused.Fusable):
    """Twice the size: a transposed convolution of stride 2, or linear interpolation and a convolution of width 1."""

    def __init__(self, dims: int, inputs: int, outputs: int, *, transposed: bool) -> None:
        super().__init__()
        kind = TRANSPOSED if transposed else CONVOLUTION
        self.transposed = transposed
        self.conv = kind[dims](inputs, outputs, 2, stride=2) if transposed else kind[dims](inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """`(B, inputs, *S)` to `(B, outputs, *2S)`."""
        up: Tensor = self.conv(x)
        return up if self.transposed else upsample_to(up, [2 * n for n in x.shape[2:]])

    def join(self, skip: Tensor, x: Tensor) -> Tensor:
        """`(B, C, *2S)` and `(B, inputs, *S)` to `(B, C + outputs, *2S)`: the first, then the second up-sampled."""
        if self.fused and self.transposed:
            return fused.join(skip, cast(_ConvNd, self.conv), x)
        return torch.cat([skip, self(x)], dim=1)


def upsample_to(x: Tensor, size: Sequence[int]) -> Tensor:
    """Linear up-sampling, `(B, C, *S)` to `(B, C, *size)`: each axis has its length already, or half of it.

    As `interpolate` without aligned corners, whose gradient is not deterministic on a GPU in three dimensions.
    """
    for axis, length in enumerate(size, start=2):
        if x.shape[axis] != length:
            x = _double(x, axis)
    return x


def _double(x: Tensor, axis: int) -> Tensor:
    """New voxels lie a quarter of a voxel to either side of the old ones; beyond the edge is the edge."""
    last = x.shape[axis] - 1
    before = torch.cat([x.narrow(axis, 0, 1), x.narrow(axis, 0, last)], axis)
    after = torch.cat([x.narrow(axis, 1, last), x.narrow(axis, last, 1)], axis)
    return torch.stack([x.lerp(before, 0.25), x.lerp(after, 0.25)], axis + 1).flatten(axis, axis + 1)
