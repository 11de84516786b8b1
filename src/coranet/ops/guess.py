"""A look at what a network says of an image, which leaves the network as it was."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coranet.ops.losses import probabilities


@torch.no_grad()
def guess(net: nn.Module, image: Tensor) -> Tensor:
    """Probabilities `(B, K, *S)` of the head `main`: no gradient, no dropout, and running statistics stay where they are."""
    training = net.training
    net.eval()
    p = probabilities(net(image, ("main",))["main"])
    net.train(training)
    return p
