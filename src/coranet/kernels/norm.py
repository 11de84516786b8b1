"""Batch or instance norm with its ReLU, over voxels of `(B, C, *S)` in half precision whose channels lie together.

    y = max(0, γ (x - μ) r + β),  r = 1 / sqrt(σ² + ε)

μ and σ² are of all voxels of a channel, or of one image's. Forward reads x twice and writes y; PyTorch's norm and ReLU make
five passes, backward five instead of eight. What is negative before the ReLU is found again from x; nothing is kept but x.
Sums are taken in a fixed order: the same input gives the same output to the bit.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

SUMS = 1024
"""At most so many programs share the sum over a channel."""
ELEMENTS = 4096
"""That a program holds at a time."""


def norm_relu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor, Tensor] | None,
    offset: Tensor | None = None,
    *,
    each: bool,
    learning: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """The norm and ReLU of `(B, C, *S)`.

    Args:
        x: bf16 or fp16, channels last.
        weight: γ, `(C,)`.
        bias: β, `(C,)`.
        running: mean and variance; moved where statistics are of the batch, used where they are not.
        offset: `(C,)`, to be added to x: a convolution's bias, which statistics of the batch take away again.
        each: statistics are of each image, not of all.
        learning: statistics are of the input rather than `running`.
        momentum: how fast `running` moves.
        eps: ε.
    """
    if not learning:
        assert running is not None
        scale = weight * torch.rsqrt(running[1] + eps)
        mean = running[0] if offset is None else running[0] - offset
        evaluated: Tensor = _Affine.apply(x, scale, bias - mean * scale)
        return evaluated
    added = None if offset is None else offset.detach()
    learnt: Tensor = _NormReLU.apply(x, weight, bias, running, added, each, momentum, eps)
    return learnt


class _NormReLU(torch.autograd.Function):
    """By statistics of the input."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        running: tuple[Tensor, Tensor] | None,
        offset: Tensor | None,
        each: bool,
        momentum: float,
        eps: float,
    ) -> Tensor:
        channels, groups = x.shape[1], len(x) if each else 1
        rows = x.numel() // channels // groups
        programs, loops, block = _shares(rows, channels, groups)
        parts = x.new_empty(groups, programs, 2, channels, dtype=torch.float32)
        _sums[(programs, groups)](x, parts, rows, LOOPS=loops, C=channels, BLOCK=block)
        stats = x.new_empty(groups, 4, channels, dtype=torch.float32)
        mean, variance = running or (stats, stats)
        _finish[(groups, channels)](
            parts,
            weight,
            bias,
            stats,
            mean,
            variance,
            bias if offset is None else offset,
            rows,
            momentum,
            eps,
            MOVES=running is not None,
            OFFSET=offset is not None,
            P=programs,
            C=channels,
            BLOCK=_power_of_two(programs),
        )
        y = torch.empty_like(x)
        per_group = rows * channels
        _apply[(triton.cdiv(per_group, ELEMENTS), groups)](x, y, stats, per_group, C=channels, BLOCK=ELEMENTS)
        ctx.save_for_backward(x, weight, stats)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, stats = ctx.saved_tensors
        dy = dy.contiguous(memory_format=_layout(x))
        groups, _, channels = stats.shape
        rows = x.numel() // channels // groups
        programs, loops, block = _shares(rows, channels, groups)
        parts = torch.empty(groups, programs, 2, channels, dtype=torch.float32, device=x.device)
        _back_sums[(programs, groups)](x, dy, parts, stats, rows, LOOPS=loops, C=channels, BLOCK=block)
        found = torch.empty(groups, 4, channels, dtype=torch.float32, device=x.device)
        _back_finish[(groups, channels)](
            parts, stats, found, rows, P=programs, C=channels, BLOCK=_power_of_two(programs)
        )
        dx = torch.empty_like(x)
        per_group = rows * channels
        _back_apply[(triton.cdiv(per_group, ELEMENTS), groups)](
            x, dy, dx, stats, found, per_group, C=channels, BLOCK=ELEMENTS
        )
        d_weight, d_bias = (found[0, 0], found[0, 1]) if groups == 1 else found[:, :2].sum(dim=0).unbind()
        return dx, d_weight.to(weight.dtype), d_bias.to(weight.dtype), None, None, None, None, None


class _Affine(torch.autograd.Function):
    """By statistics that are given: max(0, a x + b)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        stats = torch.stack([scale, shift, scale, shift]).float().unsqueeze(0)
        y, channels, size = torch.empty_like(x), x.shape[1], x.numel()
        _apply[(triton.cdiv(size, ELEMENTS), 1)](x, y, stats, size, C=channels, BLOCK=ELEMENTS)
        ctx.save_for_backward(x, scale, y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        # Seldom needed, as by a method that looks at how an evaluating network's answer changes: by plain operations.
        x, scale, y = ctx.saved_tensors
        passed = torch.where(y > 0, dy, 0).float()
        over = (0, *range(2, x.ndim))
        wide = scale.view(1, -1, *[1] * (x.ndim - 2))
        return (passed * wide).to(x.dtype), (passed * x.float()).sum(over), passed.sum(over)


def fits(x: Tensor) -> bool:
    """Whether the kernels take it."""
    channels = x.shape[1]
    return (
        x.is_cuda
        and x.dtype in (torch.bfloat16, torch.float16)
        and x.ndim in (4, 5)
        and channels & (channels - 1) == 0
        and 2 <= channels <= ELEMENTS
        and x.numel() < 2**31
        and x.is_contiguous(memory_format=_layout(x))
    )


def _layout(x: Tensor) -> torch.memory_format:
    return torch.channels_last if x.ndim == 4 else torch.channels_last_3d


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 1).bit_length()


def _shares(rows: int, channels: int, groups: int) -> tuple[int, int, int]:
    """Programs that share a group's rows, how often each of them loops, and rows at a time."""
    block = ELEMENTS // channels
    blocks = -(-rows // block)
    programs = min(max(SUMS // groups, 1), blocks)
    return programs, -(-blocks // programs), block


@triton.jit
def _sums(x, parts, rows, LOOPS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    """Sum and sum of squares of each channel over a share of a group's rows."""
    program, group = tl.program_id(0), tl.program_id(1)
    channel = tl.arange(0, C)
    first = tl.zeros((BLOCK, C), tl.float32)
    second = tl.zeros((BLOCK, C), tl.float32)
    for loop in range(LOOPS):
        row = (program * LOOPS + loop) * BLOCK + tl.arange(0, BLOCK)
        at = (group * rows + row)[:, None] * C + channel[None, :]
        value = tl.load(x + at, mask=(row < rows)[:, None], other=0.0).to(tl.float32)
        first += value
        second += value * value
    out = parts + (group * tl.num_programs(0) + program) * 2 * C + channel
    tl.store(out, tl.sum(first, 0))
    tl.store(out + C, tl.sum(second, 0))


@triton.jit
def _finish(
    parts,
    weight,
    bias,
    stats,
    mean,
    variance,
    offset,
    rows,
    momentum,
    eps,
    MOVES: tl.constexpr,
    OFFSET: tl.constexpr,
    P: tl.constexpr,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """From sums to scale, shift, mean and 1 / deviation, and the running statistics on the way."""
    group, channel = tl.program_id(0), tl.program_id(1)
    program = tl.arange(0, BLOCK)
    at = parts + (group * P + program) * 2 * C + channel
    first = tl.sum(tl.load(at, mask=program < P, other=0.0).to(tl.float64), 0) / rows
    second = tl.sum(tl.load(at + C, mask=program < P, other=0.0).to(tl.float64), 0) / rows
    spread = tl.maximum(second - first * first, 0.0)
    inverse = 1.0 / tl.sqrt(spread + eps)
    scale = tl.load(weight + channel) * inverse
    out = stats + group * 4 * C + channel
    tl.store(out, scale.to(tl.float32))
    tl.store(out + C, (tl.load(bias + channel) - first * scale).to(tl.float32))
    tl.store(out + 2 * C, first.to(tl.float32))
    tl.store(out + 3 * C, inverse.to(tl.float32))
    if MOVES:
        unbiased = spread * rows / tl.maximum(rows - 1, 1)
        old = tl.load(mean + channel)
        if OFFSET:
            first += tl.load(offset + channel)
        tl.store(mean + channel, (old + momentum * (first - old)).to(tl.float32))
        old = tl.load(variance + channel)
        tl.store(variance + channel, (old + momentum * (unbiased - old)).to(tl.float32))


@triton.jit
def _apply(x, y, stats, size, C: tl.constexpr, BLOCK: tl.constexpr):
    """max(0, scale x + shift)."""
    group = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = place % C
    table = stats + group * 4 * C + channel
    value = tl.load(x + group * size + place, mask=place < size).to(tl.float32)
    value = value * tl.load(table) + tl.load(table + C)
    tl.store(y + group * size + place, tl.maximum(value, 0.0).to(y.dtype.element_ty), mask=place < size)


@triton.jit
def _back_sums(x, dy, parts, stats, rows, LOOPS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    """Σ g and Σ g (x - μ) r over a share of a group's rows, g being what passes the ReLU."""
    program, group = tl.program_id(0), tl.program_id(1)
    channel = tl.arange(0, C)
    table = stats + group * 4 * C + channel
    scale, shift = tl.load(table)[None, :], tl.load(table + C)[None, :]
    mean, inverse = tl.load(table + 2 * C)[None, :], tl.load(table + 3 * C)[None, :]
    first = tl.zeros((BLOCK, C), tl.float32)
    second = tl.zeros((BLOCK, C), tl.float32)
    for loop in range(LOOPS):
        row = (program * LOOPS + loop) * BLOCK + tl.arange(0, BLOCK)
        at = (group * rows + row)[:, None] * C + channel[None, :]
        inside = (row < rows)[:, None]
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        passed = tl.load(dy + at, mask=inside, other=0.0).to(tl.float32)
        passed = tl.where(value * scale + shift > 0, passed, 0.0)
        first += passed
        second += passed * (value - mean) * inverse
    out = parts + (group * tl.num_programs(0) + program) * 2 * C + channel
    tl.store(out, tl.sum(first, 0))
    tl.store(out + C, tl.sum(second, 0))


@triton.jit
def _back_finish(parts, stats, found, rows, P: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    """Gradients of weight and bias, and the two numbers a channel that dx needs: dx = scale g + a x + b."""
    group, channel = tl.program_id(0), tl.program_id(1)
    program = tl.arange(0, BLOCK)
    at = parts + (group * P + program) * 2 * C + channel
    first = tl.sum(tl.load(at, mask=program < P, other=0.0).to(tl.float64), 0)
    second = tl.sum(tl.load(at + C, mask=program < P, other=0.0).to(tl.float64), 0)
    table = stats + group * 4 * C + channel
    scale, mean, inverse = tl.load(table), tl.load(table + 2 * C), tl.load(table + 3 * C)
    slope = -scale * inverse * second / rows
    out = found + group * 4 * C + channel
    tl.store(out, second.to(tl.float32))
    tl.store(out + C, first.to(tl.float32))
    tl.store(out + 2 * C, slope.to(tl.float32))
    tl.store(out + 3 * C, (-scale * first / rows - slope * mean).to(tl.float32))


@triton.jit
def _back_apply(x, dy, dx, stats, found, size, C: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of x: scale g + a x + b."""
    group = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, inside, at = place % C, place < size, group * size + place
    table, more = stats + group * 4 * C + channel, found + group * 4 * C + channel
    value = tl.load(x + at, mask=inside).to(tl.float32)
    passed = tl.load(dy + at, mask=inside).to(tl.float32)
    scale = tl.load(table)
    passed = tl.where(value * scale + tl.load(table + C) > 0, passed, 0.0)
    result = scale * passed + value * tl.load(more + 2 * C) + tl.load(more + 3 * C)
    tl.store(dx + at, result.to(dx.dtype.element_ty), mask=inside)
