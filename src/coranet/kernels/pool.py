"""Max pooling of width and stride 2, over `(B, C, *S)` in half precision whose channels lie together.

PyTorch's writes an eight-byte number beside each maximum to say where it was. Here nothing is kept but x, and backward finds
the place again: of equal values the first, in the order of memory.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ELEMENTS = 2048
"""Of the output that a program holds at a time."""


def fits(x: Tensor) -> bool:
    """Whether the kernels take it."""
    channels = x.shape[1]
    return (
        x.is_cuda
        and x.dtype in (torch.bfloat16, torch.float16)
        and x.ndim in (4, 5)
        and channels & (channels - 1) == 0
        and 8 <= channels <= ELEMENTS
        and all(length % 2 == 0 for length in x.shape[2:])
        and 0 < x.numel() < 2**31
        and x.is_contiguous(memory_format=_layout(x))
    )


def max_pool(x: Tensor) -> Tensor:
    """`(B, C, *2S)` to `(B, C, *S)`."""
    found: Tensor = _MaxPool.apply(x)
    return found


class _MaxPool(torch.autograd.Function):
    """The maxima and their gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        images, channels, *shape = x.shape
        small = [images, channels, *(length // 2 for length in shape)]
        y = torch.empty(small, dtype=x.dtype, device=x.device, memory_format=_layout(x))
        _run(_forward, y, x, y)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        _run(_backward, dy, x, dy.contiguous(memory_format=_layout(x)), dx)
        return dx


def _run(kernel: Any, small: Tensor, *tensors: Tensor) -> None:
    """A program for each run of the voxels of the smaller grid."""
    channels, (*_, height, width) = small.shape[1], small.shape
    voxels, block = small.numel() // channels, ELEMENTS // channels
    kernel[(triton.cdiv(voxels, block),)](
        *tensors, voxels, height, width, CORNERS=2 ** (small.ndim - 2), C=channels, BLOCK=block
    )


def _layout(x: Tensor) -> torch.memory_format:
    return torch.channels_last if x.ndim == 4 else torch.channels_last_3d


@triton.jit
def _first(voxel, H, W, CORNERS: tl.constexpr):
    """The first of the voxels that become one; lines of all images and planes follow each other."""
    line, across = voxel // W, voxel % W
    if CORNERS == 8:
        line = 2 * line - line % H
    return 4 * line * W + 2 * across


@triton.jit
def _forward(x, y, voxels, H, W, CORNERS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    """The largest of each voxel's corners; what is no number counts as largest."""
    voxel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, inside = tl.arange(0, C)[None, :], (voxel < voxels)[:, None]
    at = x + _first(voxel, H, W, CORNERS)[:, None] * C + channel
    best = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    for corner in tl.static_range(1, CORNERS):
        step = ((corner // 4 * 2 * H + corner // 2 % 2) * 2 * W + corner % 2) * C
        value = tl.load(at + step, mask=inside, other=0.0).to(tl.float32)
        best = tl.where((value > best) | (value != value), value, best)
    tl.store(y + voxel[:, None] * C + channel, best.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _backward(x, dy, dx, voxels, H, W, CORNERS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    """To the corner that was the largest the gradient, to the others 0."""
    voxel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, inside = tl.arange(0, C)[None, :], (voxel < voxels)[:, None]
    place = _first(voxel, H, W, CORNERS)[:, None] * C + channel
    gradient = tl.load(dy + voxel[:, None] * C + channel, mask=inside, other=0.0)
    best = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    chosen = tl.zeros((BLOCK, C), tl.int32)
    for corner in tl.static_range(1, CORNERS):
        step = ((corner // 4 * 2 * H + corner // 2 % 2) * 2 * W + corner % 2) * C
        value = tl.load(x + place + step, mask=inside, other=0.0).to(tl.float32)
        better = (value > best) | (value != value)
        best = tl.where(better, value, best)
        chosen = tl.where(better, corner, chosen)
    for corner in tl.static_range(CORNERS):
        step = ((corner // 4 * 2 * H + corner // 2 % 2) * 2 * W + corner % 2) * C
        passed = tl.where(chosen == corner, gradient, 0.0)
        tl.store(dx + place + step, passed.to(dx.dtype.element_ty), mask=inside)
