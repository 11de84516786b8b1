"""A decoder's input, `cat([skip, up + bias])`, in half precision with channels together.

`up` is a transposed convolution without its bias. Forward reads both and writes the result once; backward reads its gradient
once and writes both parts and the sums that the bias's gradient is made of. Sums are taken in a fixed order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ELEMENTS = 2048
"""Of each part that a program holds at a time."""
SUMS = 1024
"""At most so many programs share the sum over voxels in the gradient of the bias."""


def fits(skip: Tensor, channels: int) -> bool:
    """Whether the kernels take it, with so many channels to be joined to it."""
    return (
        skip.is_cuda
        and skip.dtype in (torch.bfloat16, torch.float16)
        and skip.ndim in (4, 5)
        and skip.shape[1] == channels
        and channels & (channels - 1) == 0
        and 8 <= channels <= ELEMENTS
        and 0 < skip.numel() < 2**30
        and skip.is_contiguous(memory_format=_layout(skip))
    )


def join(skip: Tensor, up: Tensor, bias: Tensor) -> Tensor:
    """Two `(B, C, *S)` and `(C,)` to `(B, 2C, *S)`, the bias being added to the second."""
    assert up.shape == skip.shape
    assert up.dtype == skip.dtype
    found: Tensor = _Join.apply(skip, up.contiguous(memory_format=_layout(skip)), bias)
    return found


class _Join(torch.autograd.Function):
    """The joined channels and their gradients."""

    @staticmethod
    def forward(ctx: Any, skip: Tensor, up: Tensor, bias: Tensor) -> Tensor:
        images, channels, *shape = skip.shape
        both = [images, 2 * channels, *shape]
        y = torch.empty(both, dtype=skip.dtype, device=skip.device, memory_format=_layout(skip))
        rows, block = skip.numel() // channels, ELEMENTS // channels
        _forward[(triton.cdiv(rows, block),)](skip, up, bias, y, rows, C=channels, BLOCK=block)
        ctx.dtype = bias.dtype
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        images, both, *shape = dy.shape
        layout, channels = _layout(dy), both // 2
        d_skip, d_up = (
            torch.empty([images, channels, *shape], dtype=dy.dtype, device=dy.device, memory_format=layout)
            for _ in range(2)
        )
        rows, block = dy.numel() // both, ELEMENTS // channels
        blocks = triton.cdiv(rows, block)
        loops = triton.cdiv(blocks, SUMS)
        programs = triton.cdiv(blocks, loops)
        parts = torch.empty(programs, channels, dtype=torch.float32, device=dy.device)
        _backward[(programs,)](
            dy.contiguous(memory_format=layout), d_skip, d_up, parts, rows, LOOPS=loops, C=channels, BLOCK=block
        )
        return d_skip, d_up, parts.sum(dim=0).to(ctx.dtype)


def _layout(x: Tensor) -> torch.memory_format:
    return torch.channels_last if x.ndim == 4 else torch.channels_last_3d


@triton.jit
def _forward(skip, up, bias, y, rows, C: tl.constexpr, BLOCK: tl.constexpr):
    """A run of voxels: the one's channels, then the other's with the bias."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, inside = tl.arange(0, C), (row < rows)[:, None]
    at = row[:, None] * C + channel[None, :]
    out = y + row[:, None] * (2 * C) + channel[None, :]
    first = tl.load(skip + at, mask=inside, other=0.0)
    second = tl.load(up + at, mask=inside, other=0.0).to(tl.float32)
    second += tl.load(bias + channel).to(tl.float32)[None, :]
    tl.store(out, first, mask=inside)
    tl.store(out + C, second.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _backward(dy, d_skip, d_up, parts, rows, LOOPS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient's two parts, and the sum of the second over a share of the voxels."""
    program = tl.program_id(0)
    channel = tl.arange(0, C)
    sums = tl.zeros((BLOCK, C), tl.float32)
    for loop in range(LOOPS):
        row = (program * LOOPS + loop) * BLOCK + tl.arange(0, BLOCK)
        inside = (row < rows)[:, None]
        at = row[:, None] * C + channel[None, :]
        given = dy + row[:, None] * (2 * C) + channel[None, :]
        first = tl.load(given, mask=inside, other=0.0)
        second = tl.load(given + C, mask=inside, other=0.0)
        tl.store(d_skip + at, first, mask=inside)
        tl.store(d_up + at, second, mask=inside)
        sums += second.to(tl.float32)
    tl.store(parts + program * C + channel, tl.sum(sums, 0))
