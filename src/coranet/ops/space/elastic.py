"""Smooth deformation of a window by a cubic B-spline over a coarse grid of knots (Rueckert et al., IEEE TMI 1999).

    o' = o + u(o),   u(o) = Σ_i Π_d B(x_d - i_d) k_i,   x = o in units of the distance between knots

B is the cubic B-spline, so that u has continuous second derivatives, and no point moves farther than the farthest knot.
Nothing folds while knots move by less than 0.4 of the distance between them (Choi & Lee, Graphical Models 2000).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

KNOTS = 7
"""Along each axis, the first and the last one outside the window."""
MOST = 0.4
"""Of the distance between knots: no knot may move farther."""


def knot_distance(length: int) -> float:
    """Voxels from one knot to the next, along an axis of a window."""
    return (length - 1) / (KNOTS - 3)


def displacement(knots: Tensor, shape: tuple[int, ...]) -> Tensor:
    """How far each voxel of a window moves: knots `(B, D, 7, ..)`, in voxels, to `(B, D, *S)`."""
    for axis, length in enumerate(shape, start=2):
        knots = (knots.movedim(axis, -1) @ _basis(length, knots.device)).movedim(-1, axis)
    return knots


def settled(points: Tensor, moved: Tensor, rounds: int = 12) -> Tensor:
    """The points o of a window with o + u(o) = p: `(B, *S, D)` and u as `(B, D, *N)` to `(B, *S, D)`.

    By o ← p - u(o), which comes nearer in each round where nothing folds. Outside the window u is as at its border.
    """
    found = points
    for _ in range(rounds):
        places = [(2 * found[..., d] + 1) / n - 1 for d, n in enumerate(moved.shape[2:])]
        there = torch.stack(places[::-1], dim=-1)
        found = points - F.grid_sample(moved, there, padding_mode="border", align_corners=False).movedim(1, -1)
    return found


def _basis(length: int, device: torch.device) -> Tensor:
    """B at every voxel for every knot, `(7, N)`; each voxel's sum to 1."""
    place = torch.arange(length, device=device) / max(knot_distance(length), 1e-6) + 1
    far = (place - torch.arange(KNOTS, device=device).unsqueeze(1)).abs()
    near = 2 / 3 - far.square() + far**3 / 2
    return torch.where(far < 1, near, (2 - far).clamp(min=0) ** 3 / 6)
