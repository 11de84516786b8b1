"""Mutual information of soft assignments (IIC: Ji, Henriques & Vedaldi, ICCV 2019), to be made large.

Two views of an image assign each voxel to K clusters, p and q. Over all voxels z of a batch, for a displacement t,

    P_t = Σ_z p(z) q(z + t)ᵀ, made symmetric and to sum to one
    I(P) = Σ_ij P_ij log(P_ij / (P_i P_j)),  P_i and P_j its margins

I is large where the views agree, clusters are sure, and all of them are used. Its mean over displacements of a few voxels
asks neighbours to agree as well. The released code takes the smallest entry of P off all others first, which is then no
longer a distribution; here it is one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor
from torch.nn.grad import conv2d_weight, conv3d_weight

from coranet.ops.entropy import log
from coranet.ops.losses import at_least_fp32
from coranet.ops.tiling import starts

CORRELATE: dict[int, Callable[..., Tensor]] = {2: conv2d_weight, 3: conv3d_weight}
"""Sums over voxels of products of two maps under small displacements: what a convolution's weights get as gradient."""


def joint_distribution(p: Tensor, q: Tensor, valid: Tensor, padding: int = 0) -> Tensor:
    """P of every displacement of up to `padding` voxels along each axis, T = (2 padding + 1)^D of them.

    Args:
        p: `(B, K, *S)`, summing to one over K.
        q: the other view's, in the same place.
        valid: `(B, *S)` bool; all other voxels, and pairs that reach beyond the image, do not count.
        padding: the largest displacement.

    Returns:
        `(T, K, K)`, each summing to one; to zero where no voxel counts.
    """
    inside = valid.unsqueeze(1).to(torch.float32)
    p, q = at_least_fp32(p) * inside, at_least_fp32(q) * inside
    dims, clusters = p.ndim - 2, p.shape[1]
    size = (clusters, clusters, *[2 * padding + 1] * dims)
    sums = CORRELATE[dims](p, size, q, padding=padding).flatten(2).permute(2, 0, 1)
    return _normalised(sums)


def mutual_information(joint: Tensor) -> Tensor:
    """I(P) in nats, `(..., K, K)` to `(...)`."""
    rows, columns = joint.sum(dim=-1, keepdim=True), joint.sum(dim=-2, keepdim=True)
    return (joint * (log(joint) - log(rows) - log(columns))).sum(dim=(-2, -1))


def local_information(p: Tensor, q: Tensor, valid: Tensor, *, padding: int = 1, patch: int = 1024) -> Tensor:
    """Mean of I(P) over displacements, and over patches that overlap by half (Peng et al., 2021).

    Args:
        p: `(B, K, *S)`.
        q: `(B, K, *S)`.
        valid: `(B, *S)` bool.
        padding: the largest displacement.
        patch: voxels along each side; an image that is smaller is one patch.
    """
    corners = product(*(starts(n, patch, max(patch // 2, 1)) for n in valid.shape[1:]))
    found = []
    for corner in corners:
        place = tuple(slice(start, start + patch) for start in corner)
        maps, region = (slice(None), slice(None), *place), (slice(None), *place)
        joint = joint_distribution(p[maps], q[maps], valid[region], padding)
        found.append(mutual_information(joint).mean())
    return torch.stack(found).mean()


def global_information(p: Tensor, q: Tensor) -> Tensor:
    """I(P) of one assignment an image, two `(B, K)`."""
    # Not a product of matrices, which autocast would sum in half precision.
    sums = (at_least_fp32(p).unsqueeze(2) * at_least_fp32(q).unsqueeze(1)).sum(dim=0)
    return mutual_information(_normalised(sums))


def _normalised(sums: Tensor) -> Tensor:
    both = sums + sums.transpose(-2, -1)
    total = both.sum(dim=(-2, -1), keepdim=True)
    return both / torch.where(total > 0, total, 1.0)
