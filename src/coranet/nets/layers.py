"""Layers by dimension, and the blocks made of them."""

from __future__ import annotations

from typing import Literal

from torch import nn

Norm = Literal["batch", "instance"]

CONVOLUTION: dict[int, type[nn.Module]] = {2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED: dict[int, type[nn.Module]] = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
MAX_POOL: dict[int, type[nn.Module]] = {2: nn.MaxPool2d, 3: nn.MaxPool3d}
NORM: dict[Norm, dict[int, type[nn.Module]]] = {
    "batch": {2: nn.BatchNorm2d, 3: nn.BatchNorm3d},
    "instance": {2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d},
}


def conv_norm_relu(dims: int, inputs: int, outputs: int, norm: Norm) -> nn.Sequential:
    """A convolution of width 3 with its norm and ReLU, keeping the size."""
    return nn.Sequential(
        CONVOLUTION[dims](inputs, outputs, 3, padding=1, bias=False),
        NORM[norm][dims](outputs, affine=True),
        nn.ReLU(inplace=True),
    )


def double_conv(dims: int, inputs: int, outputs: int, norm: Norm) -> nn.Sequential:
    """Two of them."""
    return nn.Sequential(conv_norm_relu(dims, inputs, outputs, norm), conv_norm_relu(dims, outputs, outputs, norm))


def head(dims: int, inputs: int, outputs: int, norm: Norm, convolutions: int) -> nn.Sequential:
    """Convolutions of width 3 with norm and ReLU, then one of width 1 to the outputs.

    The paper has two of width 3, its released code one.
    """
    body = [conv_norm_relu(dims, inputs, inputs, norm) for _ in range(convolutions)]
    return nn.Sequential(*body, CONVOLUTION[dims](inputs, outputs, 1))
