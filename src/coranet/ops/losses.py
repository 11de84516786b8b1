"""Voxel-wise losses and the means that reduce them: voxel-wise first, reduced last."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, cast

import torch
from torch import Tensor, distributed

Normalise = Literal["image", "region", "batch"]
"""What a sum over voxels is divided by: see `masked_mean`."""


def at_least_fp32(x: Tensor) -> Tensor:
    """What a half-precision network says, in a precision that sums over voxels can bear."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def in_full_precision(x: Tensor) -> AbstractContextManager[None]:
    """Where products of tensors that lie where `x` does are not made in half precision."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def probabilities(logits: Tensor) -> Tensor:
    """Softmax over classes, `(B, K, *S)`."""
    return torch.softmax(at_least_fp32(logits), dim=1)


def cross_entropy(logits: Tensor, target: Tensor, costs: Sequence[float] | None = None) -> Tensor:
    """-w_y log p_y at every voxel.

    Args:
        logits: `(B, K, *S)`.
        target: `(B, *S)`, integer classes.
        costs: w, one misclassification cost per class.
    """
    log_p = torch.log_softmax(at_least_fp32(logits), dim=1)
    # A product with the one-hot label rather than a gather: its gradient is deterministic on every device.
    chosen = one_hot(target, logits.shape[1])
    if costs is not None:  # class by class: a list of numbers brought to a GPU would be waited for
        chosen = torch.stack([cost * mask for cost, mask in zip(costs, chosen.unbind(1), strict=True)], dim=1)
    return -(chosen * log_p).sum(dim=1)


def squared_difference(p: Tensor, q: Tensor) -> Tensor:
    """Σ_k (p_k - q_k)² at every voxel, `(B, K, *S)` to `(B, *S)`."""
    return (at_least_fp32(p) - at_least_fp32(q)).square().sum(dim=1)


def soft_dice(p: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """1 - mean over classes of 2 Σ p q / (Σ p² + Σ q²), sums over the batch's masked voxels.

    Args:
        p: `(B, K, *S)` probabilities.
        target: `(B, *S)`, integer classes.
        mask: `(B, *S)`, the voxels that count.
    """
    inside = mask.unsqueeze(1).to(torch.float32)
    p, q = at_least_fp32(p) * inside, one_hot(target, p.shape[1]) * inside
    axes = (0, *range(2, p.ndim))
    sums = over_processes(torch.stack([(p * q).sum(axes), (p.square() + q.square()).sum(axes)]))
    overlap, size = sums[0], sums[1]
    smooth = 1e-5
    return 1 - ((2 * overlap + smooth) / (size + smooth)).mean()


def masked_mean(
    values: Tensor, valid: Tensor, *, region: Tensor | None = None, normalise: Normalise = "image"
) -> Tensor:
    """Mean over images of Σ_z M_z v_z, divided by the image's voxels or by the region's.

    Args:
        values: `(B, *S)`.
        valid: `(B, *S)` bool, the voxels that belong to the image at all.
        region: `(B, *S)` bool, M; everywhere where none is given.
        normalise: `image` divides by the count of valid voxels, so that a small region weighs little;
            `region` by the count of the region's own; `batch` divides one sum over all images by the count of all their
            regions' voxels.
    """
    inside = valid if region is None else region & valid
    if normalise == "batch":
        sums = over_processes(torch.stack([torch.where(inside, values, 0.0).sum(), inside.sum().float()]))
        return sums[0] / sums[1].clamp(min=1)
    each = torch.where(inside, values, 0.0).flatten(1).sum(dim=1)
    count = (valid if normalise == "image" else inside).flatten(1).to(torch.float32)
    return (each / count.sum(dim=1).clamp(min=1)).mean()


def over_processes(sums: Tensor) -> Tensor:
    """Sums over a share of a batch as those over the whole, where several processes train together."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return sums
    return cast(Tensor, _OverProcesses.apply(sums))  # type: ignore[no-untyped-call]


class _OverProcesses(torch.autograd.Function):
    """Σ over processes; each of them has the whole loss, and gets the sum of all their gradients of its part."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor) -> Tensor:
        """Every process has the sum."""
        return _added_up(sums)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Of each part of the sum: what it does to every process's loss."""
        return _added_up(gradient)


def _added_up(x: Tensor) -> Tensor:
    x = x.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(x)
    return x


def one_hot(target: Tensor, classes: int) -> Tensor:
    """`(B, *S)` integer classes to `(B, K, *S)` float."""
    index = torch.arange(classes, device=target.device).view(1, -1, *[1] * (target.ndim - 1))
    return (target.unsqueeze(1) == index).to(torch.float32)
