"""The passes over voxels that norm and ReLU are made of, as Triton compiles them; `norm.py` says what they add up to.

A group is what has statistics of its own: all images, or one. `stats` holds four numbers for each of its channels: scale,
shift, mean and 1 / deviation.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def sums(x, parts, rows, LOOPS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
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
def finish(
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
def apply(x, y, stats, size, C: tl.constexpr, BLOCK: tl.constexpr):
    """max(0, scale x + shift)."""
    group = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = place % C
    table = stats + group * 4 * C + channel
    value = tl.load(x + group * size + place, mask=place < size).to(tl.float32)
    value = value * tl.load(table) + tl.load(table + C)
    tl.store(y + group * size + place, tl.maximum(value, 0.0).to(y.dtype.element_ty), mask=place < size)


@triton.jit
def evaluate(
    x,
    y,
    mean,
    variance,
    weight,
    bias,
    offset,
    rows,
    eps,
    OFFSET: tl.constexpr,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """max(0, scale x + shift) by statistics that are given."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, inside = tl.arange(0, C), (row < rows)[:, None]
    at = row[:, None] * C + channel[None, :]
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(weight + channel).to(tl.float32) * tl.rsqrt(tl.load(variance + channel).to(tl.float32) + eps)
    centre = tl.load(mean + channel).to(tl.float32)
    if OFFSET:
        centre -= tl.load(offset + channel).to(tl.float32)
    shift = tl.load(bias + channel).to(tl.float32) - centre * scale
    value = value * scale[None, :] + shift[None, :]
    tl.store(y + at, tl.maximum(value, 0.0).to(y.dtype.element_ty), mask=inside)


@triton.jit
def back_sums(x, dy, parts, stats, rows, LOOPS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
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
def back_finish(parts, stats, found, rows, P: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
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
def back_apply(x, dy, dx, stats, found, size, C: tl.constexpr, BLOCK: tl.constexpr):
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
