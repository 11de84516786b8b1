"""Weights of nnU-Net (Isensee et al., 2021) under the names that MONAI's DynUNet has for them.

Both are the same network where each level has two convolutions: nnU-Net's `PlainConvUNet` numbers its stages, DynUNet calls
the first one input and the last one bottleneck.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ENCODER = re.compile(r"encoder\.stages\.(\d+)\.0\.convs\.(\d+)\.(conv|norm)\.(\w+)")
DECODER = re.compile(r"decoder\.stages\.(\d+)\.convs\.(\d+)\.(conv|norm)\.(\w+)")
UP = re.compile(r"decoder\.transpconvs\.(\d+)\.(\w+)")
AGAIN = re.compile(r"\.all_modules\.|(^|\.)decoder\.encoder\.")
"""Tensors that nnU-Net lists a second time."""


def in_dynunet(names: Iterable[str]) -> dict[str, str]:
    """DynUNet's name of each tensor of nnU-Net that it has, too; nothing where the names are not nnU-Net's."""
    encoder = {name: found for name in names if (found := ENCODER.fullmatch(name))}
    last = max((int(found[1]) for found in encoder.values()), default=0)
    others = {name: found for name in names if (found := DECODER.fullmatch(name))}
    up = {name: found for name in names if (found := UP.fullmatch(name))}
    return (
        {name: f"{_level(int(found[1]), last)}.{_layer(found)}" for name, found in encoder.items()}
        | {name: f"upsamples.{found[1]}.conv_block.{_layer(found)}" for name, found in others.items()}
        | {name: f"upsamples.{found[1]}.transp_conv.conv.{found[2]}" for name, found in up.items()}
    )


def _level(stage: int, last: int) -> str:
    if stage == 0:
        return "input_block"
    return "bottleneck" if stage == last else f"downsamples.{stage - 1}"


def _layer(found: re.Match[str]) -> str:
    """conv1.conv.weight, norm2.bias."""
    number, kind, value = int(found[2]) + 1, found[3], found[4]
    return f"conv{number}.conv.{value}" if kind == "conv" else f"norm{number}.{value}"
