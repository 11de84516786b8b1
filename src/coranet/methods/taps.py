"""Small heads on features inside a network, beside the body's own heads, which sit at full size."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from coranet.nets import Body, MakeNet
from coranet.nets.layers import CONVOLUTION


class PointHeads(nn.Module):
    """A convolution of width 1 for each feature."""

    def __init__(self, dims: int, widths: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(CONVOLUTION[dims](width, outputs, 1) for width in widths)

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        """`(B, F, *s)` to `(B, outputs, *s)`, for each of them."""
        return [head(feature) for head, feature in zip(self.heads, features, strict=True)]


def features_inside(body: Body, image: Tensor) -> list[Tensor]:
    """The coarsest level and the main decoder's features, coarsest first; the last is at full size."""
    levels = body.encode(image)
    return [levels[-1], *body.decode(levels)]


def widths_inside(body: Body, make_net: MakeNet) -> list[int]:
    """Channels of each of them."""
    shape = (1, make_net.channels, *[2 * body.multiple] * make_net.dims)
    # On a device without memory: shapes are worked out, nothing is computed.
    with torch.no_grad():
        found = features_inside(copy.deepcopy(body).to("meta").eval(), torch.zeros(shape, device="meta"))
    return [feature.shape[1] for feature in found]
