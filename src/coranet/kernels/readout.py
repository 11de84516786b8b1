"""The last layer of a head: a convolution of width 1 to a few outputs, in full precision, one plane an output.

Libraries are slow at so few outputs, and what they give has to be converted and reordered before a loss can read it.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256
"""Voxels that a program looks at."""
MOST = 16
"""Outputs."""
SHARES = 1024
"""Programs that share the sum over voxels in the gradient of the weights."""


def fits(x: Tensor, weight: Tensor) -> bool:
    """Whether the kernels take it."""
    outputs, inputs = weight.shape[:2]
    layout = torch.channels_last if x.ndim == 4 else torch.channels_last_3d
    return (
        x.is_cuda
        and x.dtype in (torch.bfloat16, torch.float16)
        and x.ndim in (4, 5)
        and outputs <= MOST
        and inputs in (16, 32, 64)
        and weight[0, 0].numel() == 1
        and x.numel() < 2**31
        and x.is_contiguous(memory_format=layout)
    )


def readout(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`(B, I, *S)` and `(O, I, 1, ..)` to `(B, O, *S)` in fp32, each output's voxels together."""
    found: Tensor = _Readout.apply(x, weight, bias)
    return found


class _Readout(torch.autograd.Function):
    """The layer and its gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        outputs, inputs = weight.shape[:2]
        y = torch.empty(len(x), outputs, *x.shape[2:], dtype=torch.float32, device=x.device)
        size = y[0, 0].numel()
        _forward[(triton.cdiv(size, BLOCK), len(x))](
            x, weight, bias, y, size, I=inputs, O=outputs, BLOCK=BLOCK, HALF=_half(x)
        )
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        dy = dy.contiguous()
        outputs, inputs = weight.shape[:2]
        size, images = dy[0, 0].numel(), len(x)
        dx = torch.empty_like(x)
        shares = max(min(SHARES // images, triton.cdiv(size, BLOCK)), 1)
        loops = triton.cdiv(triton.cdiv(size, BLOCK), shares)
        parts = torch.empty(images * shares, inputs, 16, dtype=torch.float32, device=x.device)
        _backward[(shares, images)](
            x, weight, dy, dx, parts, size, LOOPS=loops, I=inputs, O=outputs, BLOCK=BLOCK, HALF=_half(x)
        )
        summed = parts.sum(dim=0)[:, :outputs].t()
        over = (0, *range(2, dy.ndim))
        return dx, summed.reshape(weight.shape).to(weight.dtype), dy.sum(over).to(weight.dtype)


def _half(x: Tensor) -> Any:
    return tl.bfloat16 if x.dtype == torch.bfloat16 else tl.float16 if x.dtype == torch.float16 else tl.float32


@triton.jit
def _forward(x, weight, bias, y, size, I: tl.constexpr, O: tl.constexpr, BLOCK: tl.constexpr, HALF: tl.constexpr):
    """Σ_i w_oi x_i + b_o of a run of one image's voxels."""
    image = tl.program_id(1)
    voxel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inputs, outputs = tl.arange(0, I), tl.arange(0, 16)
    inside, real = (voxel < size)[:, None], (outputs < O)[None, :]
    seen = tl.load(x + (image * size + voxel)[:, None] * I + inputs[None, :], mask=inside, other=0.0)
    weights = tl.load(weight + outputs[None, :] * I + inputs[:, None], mask=real, other=0.0).to(HALF)
    sums = tl.dot(seen, weights) + tl.load(bias + outputs, mask=outputs < O, other=0.0)[None, :]
    tl.store(y + (image * O + outputs)[None, :] * size + voxel[:, None], sums, mask=inside & real)


@triton.jit
def _backward(
    x,
    weight,
    dy,
    dx,
    parts,
    size,
    LOOPS: tl.constexpr,
    I: tl.constexpr,
    O: tl.constexpr,
    BLOCK: tl.constexpr,
    HALF: tl.constexpr,
):
    """Gradients: dx_i = Σ_o w_oi dy_o, and Σ x_i dy_o over a share of one image's voxels."""
    share, image = tl.program_id(0), tl.program_id(1)
    inputs, outputs = tl.arange(0, I), tl.arange(0, 16)
    real = outputs < O
    weights = tl.load(weight + outputs[:, None] * I + inputs[None, :], mask=real[:, None], other=0.0).to(HALF)
    sums = tl.zeros((I, 16), tl.float32)
    for loop in range(LOOPS):
        voxel = (share * LOOPS + loop) * BLOCK + tl.arange(0, BLOCK)
        inside = voxel < size
        gradient = tl.load(
            dy + (image * O + outputs)[None, :] * size + voxel[:, None], mask=inside[:, None] & real[None, :], other=0.0
        ).to(HALF)
        place = (image * size + voxel)[:, None] * I + inputs[None, :]
        tl.store(dx + place, tl.dot(gradient, weights).to(dx.dtype.element_ty), mask=inside[:, None])
        seen = tl.load(x + (image * size + voxel)[None, :] * I + inputs[:, None], mask=inside[None, :], other=0.0)
        sums = tl.dot(seen, gradient, sums)
    out = parts + ((image * tl.num_programs(0) + share) * I + inputs)[:, None] * 16 + outputs[None, :]
    tl.store(out, sums)
