"""A network that is trained against another: from maps of an image to whether they are of one kind or the other."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from coranet.nets.layers import CONVOLUTION


class Critic(nn.Module):
    """Convolutions of width 4 and stride 2 with leaky ReLU, then the mean of their last features to a logit.

    As the adversarial methods of segmentation have it (Zhang et al., 2017; Vu et al., 2019): four of them, channels
    doubling from `width`, no norm.
    """

    def __init__(self, dims: int, channels: int, *, width: int = 64, layers: int = 4) -> None:
        super().__init__()
        widths = [channels, *(width * 2**layer for layer in range(layers))]
        self.layers = nn.ModuleList(
            nn.Sequential(CONVOLUTION[dims](inputs, outputs, 4, stride=2, padding=1), nn.LeakyReLU(0.2))
            for inputs, outputs in pairwise(widths)
        )
        self.classify = nn.Linear(widths[-1], 1)

    def forward(self, maps: Tensor) -> Tensor:
        """Logits `(B,)` of maps `(B, C, *S)`."""
        for layer in self.layers:
            maps = layer(maps)
        logits: Tensor = self.classify(maps.flatten(2).mean(dim=2))
        return logits.squeeze(1)
