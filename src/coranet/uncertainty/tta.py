"""Test-time augmentation (Wang et al., Neurocomputing 2019), with the views of the paper's section IV-D.

    p = 1/T Σ_t v_t⁻¹(f(v_t(x))),   certain where max_k p_k > threshold

In 2D a view mirrors left and right, one time in two, and magnifies by 0.8 to 1.1; in 3D it is a crop at another place, with
the context it finds there. The first of the T passes sees the image as it is, so that every pixel is seen; a pixel that a
view leaves out is averaged over the others. In the paper's released code a crop had the size of its input and so always was
that input: nothing but a softmax threshold was left. Here a crop is shifted by whole voxels, and repeats the border outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.ops.losses import in_full_precision, probabilities
from coranet.ops.space.warp import Warp, inside, sample_image
from coranet.uncertainty.softmax import Softmax


@dataclass(frozen=True, kw_only=True)
class TTA(Softmax):
    """Certain is where the mean over random views, mapped back, is confident."""

    rule: ClassVar[str] = ""

    threshold: float = 0.8
    """Between 0 and 1."""
    passes: int = 20
    """Views of each image, itself among them."""
    scale: tuple[float, float] = (0.8, 1.1)
    """In 2D: smallest and largest magnification."""
    shift: float = 0.125
    """In 3D: how far a crop may lie from the image, as a share of each side; at least a voxel."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < 1 or not 0 < self.scale[0] <= self.scale[1] or not 0 < self.shift < 1:
            raise InputError(
                f"Test augmentation takes one pass or more, a scale above 0 and a shift between 0 and 1: {self}."
            )

    def infer(self, net: nn.Module, image: Tensor) -> dict[str, Tensor]:
        """The mean of probabilities over views, each mapped back."""
        total = probabilities(net(image, ("main",))["main"])
        seen = torch.ones_like(total[:, :1])
        sizes = torch.tensor(image.shape[2:], device=image.device).expand(len(image), -1)
        whole = torch.zeros_like(sizes)
        for _ in range(self.passes - 1):
            with in_full_precision(image):  # half precision is too coarse for places
                there, back = (warp.points() for warp in self.draw(image))
            view = probabilities(net(sample_image(image, there, sizes, whole), ("main",))["main"])
            reached = inside(back, sizes).unsqueeze(1)
            total = total + torch.where(reached, sample_image(view, back, sizes, whole), 0.0)
            seen = seen + reached
        return {"main": total / seen}

    def draw(self, image: Tensor) -> tuple[Warp, Warp]:
        """A view of each image `(B, C, *S)`, drawn on its device, and the way back."""
        count, shape = len(image), tuple(image.shape[2:])
        sides = torch.tensor(shape, device=image.device, dtype=torch.float32)
        one = torch.eye(len(shape), device=image.device).expand(count, -1, -1)
        centre = ((sides - 1) / 2).expand(count, -1)
        if len(shape) == 3:
            most = (self.shift * sides).round().clamp(min=1)
            moved = centre + (most * (2 * torch.rand(count, 3, device=image.device) - 1)).round()
            return Warp(one, centre, moved, shape), Warp(one, moved, centre, shape)
        mirrored, size = torch.rand(2, count, device=image.device)
        low, high = self.scale
        factors = (low + (high - low) * size).unsqueeze(1).repeat(1, 2)
        factors[:, 0] *= torch.where(mirrored < 0.5, -1.0, 1.0)
        back = one * factors.unsqueeze(1)
        return Warp(one / factors.unsqueeze(1), centre, centre, shape), Warp(back, centre, centre, shape)
