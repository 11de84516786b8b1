"""Convolutions of width 3 in three dimensions between few channels, which libraries run at a twentieth of a GPU's rate.

`(B, C, X, Y, Z)` in half precision, channels together, padded by 1. A program computes a run of voxels: for each of the 27
neighbours it multiplies their channels by that neighbour's weights in tensor cores; what programs share comes from the
cache. With one input channel the 27 neighbours themselves are what is multiplied. Several heads on one feature are one
convolution whose output is a tensor for each of them, sixteen channels each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

STEP = 16
"""Channels of one tensor, and those that are multiplied at a time."""
SPLITS = 512
"""Programs that share the sum over voxels in the gradient of the weights."""


def fits(x: Tensor, weight: Tensor, copies: int = 1) -> bool:
    """Whether the kernels take it, for so many convolutions of one input, and are faster than the library."""
    outputs, inputs = weight.shape[:2]
    return (
        x.is_cuda
        and x.dtype in (torch.bfloat16, torch.float16)
        and x.ndim == 5
        and weight.shape[2:] == (3, 3, 3)
        and outputs == STEP
        and inputs in (1, STEP)
        and copies <= (1 if inputs == 1 else 4)
        and x.numel() // inputs * STEP * copies < 2**31
        and x.is_contiguous(memory_format=torch.channels_last_3d)
    )


def conv(x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    """`(B, I, X, Y, Z)` with each of the weights `(16, I, 3, 3, 3)` to `(B, 16, X, Y, Z)`."""
    found: tuple[Tensor, ...] = _Conv.apply(x, *weights)
    return found


class _Conv(torch.autograd.Function):
    """The convolutions and their gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(x, *weights)
        return _forward([x], torch.cat(weights) if len(weights) > 1 else weights[0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        dys = [dy.contiguous(memory_format=torch.channels_last_3d) for dy in given]
        dx: Tensor | None = None
        if ctx.needs_input_grad[0]:
            turned = torch.cat([weight.flip(2, 3, 4).transpose(0, 1) for weight in weights], dim=1)
            one = x.shape[1] == 1  # no kernel for a single output: seldom needed, as by adversarial examples
            dx = (
                torch.nn.functional.conv3d(torch.cat(dys, dim=1), turned.to(x.dtype), padding=1)
                if one
                else _forward(dys, turned)[0]
            )
        if not any(ctx.needs_input_grad[1:]):
            return dx, *[None] * len(weights)
        gradients = _weight_gradient(x, dys).split(STEP)
        return dx, *(found.to(weight.dtype) for found, weight in zip(gradients, weights, strict=True))


def _forward(xs: Sequence[Tensor], weight: Tensor) -> tuple[Tensor, ...]:
    """The convolution of tensors of sixteen channels, or of one tensor of one."""
    outputs, inputs = weight.shape[:2]
    voxels, wide = xs[0].numel() // xs[0].shape[1], _power_of_two(outputs)
    table = weight.new_zeros(27, inputs, wide, dtype=xs[0].dtype)
    table[..., :outputs] = weight.permute(2, 3, 4, 1, 0).reshape(27, inputs, outputs)
    x, y = _together(xs), _room(xs[0], outputs // STEP)
    depth, height, width = xs[0].shape[2:]
    kernel, block = _few if inputs == 1 else _many, 256
    kernel[(triton.cdiv(voxels, block),)](
        x, table, y, voxels, depth, height, width, I=inputs, O=outputs, WIDE=wide, BLOCK=block, num_warps=8
    )
    return y.unbind()


def _weight_gradient(x: Tensor, dys: Sequence[Tensor]) -> Tensor:
    inputs, outputs = x.shape[1], STEP * len(dys)
    wide, voxels, block = _power_of_two(outputs), x.numel() // inputs, 64
    loops = triton.cdiv(triton.cdiv(voxels, block), SPLITS)
    parts = torch.empty(SPLITS, 32 if inputs == 1 else 27 * inputs, wide, dtype=torch.float32, device=x.device)
    dy, (depth, height, width) = _together(dys), x.shape[2:]
    if inputs == 1:
        _few_weights[(SPLITS,)](
            x, dy, parts, voxels, depth, height, width, LOOPS=loops, O=outputs, WIDE=wide, BLOCK=block
        )
    else:
        _many_weights[(9, SPLITS)](
            x,
            dy,
            parts,
            voxels,
            depth,
            height,
            width,
            LOOPS=loops,
            I=inputs,
            O=outputs,
            WIDE=wide,
            BLOCK=block,
            num_warps=2,
        )
    summed = parts.sum(dim=0)[: 27 * inputs, :outputs]
    return summed.view(3, 3, 3, inputs, outputs).permute(4, 3, 0, 1, 2)


def _room(like: Tensor, count: int) -> Tensor:
    """`(count, B, 16, X, Y, Z)`, each a tensor whose channels lie together."""
    images, _, *shape = like.shape
    return like.new_empty(count, images, *shape, STEP).movedim(-1, 2)


def _together(tensors: Sequence[Tensor]) -> Tensor:
    """One after the other in memory."""
    return tensors[0] if len(tensors) == 1 else torch.stack([tensor.movedim(1, -1) for tensor in tensors])


def _power_of_two(number: int) -> int:
    return int(max(16, 1 << (number - 1).bit_length()))


@triton.jit
def _many(
    x,
    table,
    y,
    voxels,
    D,
    H,
    W,
    I: tl.constexpr,
    O: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A run of output voxels, sixteen input channels of one neighbour at a time."""
    voxel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    across = voxel % W
    along = voxel // W % H
    deep = voxel // (W * H) % D
    inputs = tl.arange(0, 16)
    outputs = tl.arange(0, WIDE)
    sums = tl.zeros((BLOCK, WIDE), tl.float32)
    for a in tl.static_range(3):
        for b in tl.static_range(3):
            line = (voxel < voxels) & (deep + a >= 1) & (deep + a <= D) & (along + b >= 1) & (along + b <= H)
            for c in tl.static_range(3):
                inside = line & (across + c >= 1) & (across + c <= W)
                place = (voxel + ((a - 1) * H + (b - 1)) * W + (c - 1)) * 16
                for part in tl.static_range(I // 16):
                    seen = tl.load(
                        x + part * voxels * 16 + place[:, None] + inputs[None, :], mask=inside[:, None], other=0.0
                    )
                    row = ((a * 3 + b) * 3 + c) * I + part * 16 + inputs
                    sums = tl.dot(seen, tl.load(table + row[:, None] * WIDE + outputs[None, :]), sums)
    kept = (voxel < voxels)[:, None] & (outputs < O)[None, :]
    out = y + (outputs // 16 * voxels * 16 + outputs % 16)[None, :] + voxel[:, None] * 16
    tl.store(out, sums.to(y.dtype.element_ty), mask=kept)


@triton.jit
def _neighbours(x, voxel, voxels, D, H, W):
    """The 27 neighbours of voxels of one channel, `(BLOCK, 32)`; the last five are nothing."""
    number = tl.arange(0, 32)
    a, b, c = number // 9 - 1, number // 3 % 3 - 1, number % 3 - 1
    across = (voxel % W)[:, None] + c[None, :]
    along = (voxel // W % H)[:, None] + b[None, :]
    deep = (voxel // (W * H) % D)[:, None] + a[None, :]
    inside = (across >= 0) & (across < W) & (along >= 0) & (along < H) & (deep >= 0) & (deep < D)
    inside = inside & (voxel < voxels)[:, None] & (number < 27)[None, :]
    place = voxel[:, None] + ((a * H + b) * W + c)[None, :]
    return tl.load(x + place, mask=inside, other=0.0)


@triton.jit
def _few(
    x,
    table,
    y,
    voxels,
    D,
    H,
    W,
    I: tl.constexpr,
    O: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A run of output voxels of a single input channel, all neighbours at once."""
    voxel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    outputs = tl.arange(0, WIDE)
    number = tl.arange(0, 32)
    weights = tl.load(table + number[:, None] * WIDE + outputs[None, :], mask=(number < 27)[:, None], other=0.0)
    sums = tl.dot(_neighbours(x, voxel, voxels, D, H, W), weights)
    kept = (voxel < voxels)[:, None] & (outputs < O)[None, :]
    tl.store(y + voxel[:, None] * O + outputs[None, :], sums.to(y.dtype.element_ty), mask=kept)


@triton.jit
def _many_weights(
    x,
    dy,
    parts,
    voxels,
    D,
    H,
    W,
    LOOPS: tl.constexpr,
    I: tl.constexpr,
    O: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """For three neighbours in a line, the sum over a share of the voxels of seen times gradient."""
    line, split = tl.program_id(0), tl.program_id(1)
    a, b = line // 3 - 1, line % 3 - 1
    inputs = tl.arange(0, I)
    outputs = tl.arange(0, WIDE)
    column = outputs // 16 * voxels * 16 + outputs % 16
    before = tl.zeros((I, WIDE), tl.float32)
    here = tl.zeros((I, WIDE), tl.float32)
    after = tl.zeros((I, WIDE), tl.float32)
    for loop in range(LOOPS):
        voxel = (split * LOOPS + loop) * BLOCK + tl.arange(0, BLOCK)
        across = voxel % W
        along = voxel // W % H + b
        deep = voxel // (W * H) % D + a
        known = voxel < voxels
        gradient = tl.load(
            dy + column[None, :] + voxel[:, None] * 16, mask=known[:, None] & (outputs < O)[None, :], other=0.0
        )
        inside = known & (deep >= 0) & (deep < D) & (along >= 0) & (along < H)
        place = x + (voxel + (a * H + b) * W)[None, :] * I + inputs[:, None]
        seen = tl.load(place - I, mask=(inside & (across > 0))[None, :], other=0.0)
        before = tl.dot(seen, gradient, before)
        seen = tl.load(place, mask=inside[None, :], other=0.0)
        here = tl.dot(seen, gradient, here)
        seen = tl.load(place + I, mask=(inside & (across < W - 1))[None, :], other=0.0)
        after = tl.dot(seen, gradient, after)
    out = parts + ((split * 9 + line) * 3 * I + inputs[:, None]) * WIDE + outputs[None, :]
    tl.store(out, before)
    tl.store(out + I * WIDE, here)
    tl.store(out + 2 * I * WIDE, after)


@triton.jit
def _few_weights(
    x,
    dy,
    parts,
    voxels,
    D,
    H,
    W,
    LOOPS: tl.constexpr,
    O: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The same for a single input channel, all neighbours at once."""
    split = tl.program_id(0)
    outputs = tl.arange(0, WIDE)
    number = tl.arange(0, 32)
    sums = tl.zeros((32, WIDE), tl.float32)
    for loop in range(LOOPS):
        voxel = (split * LOOPS + loop) * BLOCK + tl.arange(0, BLOCK)
        kept = (voxel < voxels)[:, None] & (outputs < O)[None, :]
        gradient = tl.load(dy + voxel[:, None] * O + outputs[None, :], mask=kept, other=0.0)
        sums = tl.dot(tl.trans(_neighbours(x, voxel, voxels, D, H, W)), gradient, sums)
    tl.store(parts + (split * 32 + number)[:, None] * WIDE + outputs[None, :], sums)
