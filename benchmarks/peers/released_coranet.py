"""A self-training step of CoraNet's released code on volumes (koncle/CoraNet, b9d454c; it has no licence: facts alone).

    L   = L_s + 0.5 (L_c + 0.1 w L_u)
    L_s = (CE + Dice + CE_con + CE_rad)/4 on labels, `con` at costs (1, 5) and `rad` at (5, 1)
    L_c = the same on pseudo-labels over certain voxels, costs exchanged, weighted terms divided by the count of voxels
    L_u = mean over three heads of Σ_k (p_k - p'_k)², averaged over uncertain voxels

Student and teacher see the same windows. The teacher averages parameters alone and stays in training mode. Adam at 1e-3.
`coranet:released` is the same formula (`tests/test_peers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

Heads = Callable[[Tensor], Mapping[str, Tensor]]
COSTS = {"con": (1.0, 5.0), "rad": (5.0, 1.0)}
"""Of background and object, on labels; on pseudo-labels each head has the other's."""


def loss_terms(
    student: Heads, teacher: Heads, images: Tensor, label: Tensor, pseudo: Tensor, certain: Tensor
) -> dict[str, Tensor]:
    """Unweighted: `images` are labelled windows first; `pseudo` and `certain` belong to the others."""
    known = len(label)
    labelled, unlabelled = student(images[:known]), student(images[known:])
    with torch.no_grad():
        taught = teacher(images[known:])
    crossed = {"con": COSTS["rad"], "rad": COSTS["con"]}
    return {
        "supervised": _four(labelled, label, torch.ones_like(label, dtype=torch.bool), COSTS, by_count=False),
        "certain": _four(unlabelled, pseudo, certain, crossed, by_count=True),
        "consistency": _apart(unlabelled, taught, ~certain),
    }


def total(terms: dict[str, Tensor], ramp: float) -> Tensor:
    """L."""
    return terms["supervised"] + 0.5 * (terms["certain"] + 0.1 * ramp * terms["consistency"])


def _four(
    logits: Mapping[str, Tensor],
    label: Tensor,
    inside: Tensor,
    costs: Mapping[str, tuple[float, float]],
    *,
    by_count: bool,
) -> Tensor:
    count = inside.sum().clamp(min=1)
    plain = (nn.functional.cross_entropy(logits["main"], label, reduction="none") * inside).sum() / count
    weighted = []
    for head, cost in costs.items():
        weight = torch.tensor(cost, device=label.device, dtype=logits[head].dtype)
        losses = nn.functional.cross_entropy(logits[head], label, weight, reduction="none") * inside
        weighted.append(losses.sum() / (count if by_count else (weight[label] * inside).sum()))
    return (plain + _dice(torch.softmax(logits["main"], dim=1), label, inside) + sum(weighted)) / 4


def _dice(p: Tensor, label: Tensor, inside: Tensor) -> Tensor:
    """1 - the mean over both classes, sums over the batch's voxels inside."""
    q = nn.functional.one_hot(label, p.shape[1]).movedim(-1, 1) * inside[:, None]
    p, axes = p * inside[:, None], (0, *range(2, p.ndim))
    return 1 - ((2 * (p * q).sum(axes) + 1e-5) / ((p * p).sum(axes) + (q * q).sum(axes) + 1e-5)).mean()


def _apart(student: Mapping[str, Tensor], teacher: Mapping[str, Tensor], inside: Tensor) -> Tensor:
    count = inside.sum().clamp(min=1)
    gaps = [
        ((torch.softmax(student[head], dim=1) - torch.softmax(teacher[head], dim=1)) ** 2).sum(dim=1) * inside
        for head in ("main", *COSTS)
    ]
    return torch.stack([gap.sum() / count for gap in gaps]).mean()
