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
from torch import Tensor

from coranet.kernels import norm_passes as passes

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
        if not (torch.is_grad_enabled() and _learns(x, weight, bias, offset)):
            return _evaluate(x, weight, bias, running, offset, eps)
        scale = weight * torch.rsqrt(running[1] + eps)
        mean = running[0] if offset is None else running[0] - offset
        evaluated: Tensor = _Affine.apply(x, scale, bias - mean * scale)
        return evaluated
    added = None if offset is None else offset.detach()
    learnt: Tensor = _NormReLU.apply(x, weight, bias, running, added, each, momentum, eps)
    return learnt


def _evaluate(
    x: Tensor, weight: Tensor, bias: Tensor, running: tuple[Tensor, Tensor], offset: Tensor | None, eps: float
) -> Tensor:
    """By statistics that are given, where nothing learns from it: one pass, scale and shift made on the way."""
    y, channels = torch.empty_like(x), x.shape[1]
    rows, block = x.numel() // channels, ELEMENTS // channels
    passes.evaluate[(triton.cdiv(rows, block),)](
        x,
        y,
        *running,
        weight,
        bias,
        bias if offset is None else offset,
        rows,
        eps,
        OFFSET=offset is not None,
        C=channels,
        BLOCK=block,
    )
    return y


def _learns(*tensors: Tensor | None) -> bool:
    return any(tensor is not None and tensor.requires_grad for tensor in tensors)


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
        passes.sums[(programs, groups)](x, parts, rows, LOOPS=loops, C=channels, BLOCK=block)
        stats = x.new_empty(groups, 4, channels, dtype=torch.float32)
        mean, variance = running or (stats, stats)
        passes.finish[(groups, channels)](
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
        passes.apply[(triton.cdiv(per_group, ELEMENTS), groups)](x, y, stats, per_group, C=channels, BLOCK=ELEMENTS)
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
        passes.back_sums[(programs, groups)](x, dy, parts, stats, rows, LOOPS=loops, C=channels, BLOCK=block)
        found = torch.empty(groups, 4, channels, dtype=torch.float32, device=x.device)
        passes.back_finish[(groups, channels)](
            parts, stats, found, rows, P=programs, C=channels, BLOCK=_power_of_two(programs)
        )
        dx = torch.empty_like(x)
        per_group = rows * channels
        passes.back_apply[(triton.cdiv(per_group, ELEMENTS), groups)](
            x, dy, dx, stats, found, per_group, C=channels, BLOCK=ELEMENTS
        )
        d_weight, d_bias = (found[0, 0], found[0, 1]) if groups == 1 else found[:, :2].sum(dim=0).unbind()
        return dx, d_weight.to(weight.dtype), d_bias.to(weight.dtype), None, None, None, None, None


class _Affine(torch.autograd.Function):
    """By statistics that are given, max(0, a x + b), where something learns from it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        stats = torch.stack([scale, shift, scale, shift]).float().unsqueeze(0)
        y, channels, size = torch.empty_like(x), x.shape[1], x.numel()
        passes.apply[(triton.cdiv(size, ELEMENTS), 1)](x, y, stats, size, C=channels, BLOCK=ELEMENTS)
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
