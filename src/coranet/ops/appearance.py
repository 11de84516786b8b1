"""Other looks of a scan: contrast, brightness, gamma, bias field, blur, low resolution and noise, of each image its own.

Each change has its own chance: most images keep most of what they are (nnU-Net, Isensee et al., Nature Methods 2021).
Parameters are drawn in one place and applied in another. A change that was not drawn has neutral parameters, so that one
expression serves the whole batch and a device never has to decide:

    v = low + (x - low) exp(f)                                           f smooth, of mean 0: a bias field
    g = ((v - low') / (high' - low'))^γ                                  on the image's own range: values may be negative
    y = mean(v) + c std(v) (g - mean(g)) / std(g) + b unit               gamma keeps mean and spread, c and b do not
    z = A_1 ··· A_D y + σ unit n,   A_d = L_d G_d along axis d           L: fewer voxels and back, G: a Gaussian
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from coranet.errors import InputError
from coranet.ops.losses import at_least_fp32

KNOTS = 4
"""Of a bias field along each axis, linear in between: it changes over no less than a third of the window."""
SHARP = 1e-3
"""A Gaussian of so few voxels leaves an image as it is."""


class Look(NamedTuple):
    """What is done to each image, `(B,)` but for the field; neutral where a change was not drawn."""

    changed: Tensor
    """1 where anything is done at all, else 0."""
    contrast: Tensor
    brightness: Tensor
    """In units of the scans' spread, as noise."""
    gamma: Tensor
    blur: Tensor
    """σ in voxels."""
    resolution: Tensor
    """Voxels kept to one of the image's, along each axis."""
    noise: Tensor
    bias: Tensor
    """`(B, 4, ..)`: the field's logarithm at its knots."""


@dataclass(frozen=True, kw_only=True)
class Appearance:
    """How often each change is made, and how strong it may be. The chances are nnU-Net's."""

    contrast: float = 0.15
    """Chance of another contrast about the image's mean."""
    contrasts: tuple[float, float] = (0.75, 1.25)
    """Smallest and largest factor."""
    brightness: float = 0.15
    """Chance of another brightness."""
    shift: float = 0.25
    """How much brighter or darker at most, in units of the scans' spread."""
    gamma: float = 0.3
    """Chance of another gamma curve."""
    gammas: tuple[float, float] = (0.7, 1.5)
    """Smallest and largest exponent."""
    blur: float = 0.2
    """Chance of a blur."""
    sigmas: tuple[float, float] = (0.5, 1.0)
    """Smallest and largest deviation of the Gaussian, in voxels."""
    resolution: float = 0.25
    """Chance of a lower resolution."""
    resolutions: tuple[float, float] = (0.5, 1.0)
    """Smallest and largest share of voxels kept along each axis."""
    noise: float = 0.1
    """Chance of additive Gaussian noise."""
    grain: float = 0.3
    """The largest deviation of noise, in units of the scans' spread."""
    bias: float = 0.15
    """Chance of a smooth bias field."""
    slope: float = 0.3
    """Deviation of the field's logarithm at its knots."""

    def __post_init__(self) -> None:
        chances = (self.contrast, self.brightness, self.gamma, self.blur, self.resolution, self.noise, self.bias)
        if not all(0 <= chance <= 1 for chance in chances):
            raise InputError(f"Chances of an appearance lie between 0 and 1: {self}.")
        if not all(0 < low <= high for low, high in (self.contrasts, self.gammas, self.sigmas, self.resolutions)):
            raise InputError(f"Ranges of an appearance go from small to large and are positive: {self}.")
        if self.resolutions[1] > 1 or min(self.shift, self.grain, self.slope) < 0:
            raise InputError(f"Resolutions are shares of 1, and shift, grain and slope are not negative: {self}.")

    def draw(self, count: int, dims: int, generator: torch.Generator) -> Look:
        """One look for each of `count` images of that many axes, from a generator on the CPU."""
        # Drawn whether they are used or not, so that one setting does not shift another's.
        chances = torch.rand(7, count, generator=generator)
        shares = torch.rand(6, count, generator=generator)
        field = torch.randn(count, *[KNOTS] * dims, generator=generator)
        wanted = (self.contrast, self.brightness, self.gamma, self.blur, self.resolution, self.noise, self.bias)
        made = [chance < share for chance, share in zip(chances, wanted, strict=True)]
        contrast, brightness, gamma, blur, resolution, noise, bias = made
        field = self.slope * (field - field.flatten(1).mean(dim=1).view(-1, *[1] * dims))
        return Look(
            changed=torch.stack(made).any(dim=0).float(),
            contrast=torch.where(contrast, _evenly(shares[0], self.contrasts), 1.0),
            brightness=torch.where(brightness, self.shift * (2 * shares[1] - 1), 0.0),
            gamma=torch.where(gamma, _evenly(shares[2], self.gammas), 1.0),
            blur=torch.where(blur, _between(shares[3], self.sigmas), SHARP),
            resolution=torch.where(resolution, _between(shares[4], self.resolutions), 1.0),
            noise=torch.where(noise, self.grain * shares[5], 0.0),
            bias=torch.where(bias.view(-1, *[1] * dims), field, 0.0),
        )


def changed_look(image: Tensor, look: Look, generator: torch.Generator, unit: float = 1.0) -> Tensor:
    """Each image `(B, C, *S)` as its look has it; one that nothing was drawn for stays as it is, to the bit.

    Args:
        image: on any device.
        look: on the same.
        generator: of the noise, on the same: there are too many numbers in it to be sent.
        unit: the scans' spread.
    """
    x, ones = at_least_fp32(image), [1] * (image.ndim - 1)
    tones = (look.contrast, look.brightness * unit, look.gamma)
    y = _toned(_shaded(x, look.bias), *(value.view(-1, *ones) for value in tones))
    for axis in range(2, x.ndim):
        spread = _resolving(look.resolution, x.shape[axis]) @ _smoothing(look.blur, x.shape[axis])
        y = along(y, spread, axis)
    grain = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    y = y + look.noise.view(-1, *ones) * unit * grain
    return torch.where(look.changed.view(-1, *ones) > 0, y, x).to(image.dtype)


def _evenly(share: Tensor, limits: tuple[float, float]) -> Tensor:
    """Evenly on a logarithmic scale: as often smaller as larger."""
    low, high = map(math.log, limits)
    return torch.exp(low + (high - low) * share)


def _between(share: Tensor, limits: tuple[float, float]) -> Tensor:
    return limits[0] + (limits[1] - limits[0]) * share


def _shaded(x: Tensor, knots: Tensor) -> Tensor:
    """Under a bias field, which multiplies what lies above the image's darkest value."""
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[x.ndim - 2]
    field = F.interpolate(knots.unsqueeze(1).to(x.dtype), size=x.shape[2:], mode=mode, align_corners=True)
    low = x.flatten(2).amin(dim=2).view(*x.shape[:2], *[1] * (x.ndim - 2))
    return low + (x - low) * field.exp()


def _toned(x: Tensor, contrast: Tensor, shift: Tensor, gamma: Tensor) -> Tensor:
    """Another gamma at the mean and spread it had, then another contrast about that mean, then another brightness."""
    axes = tuple(range(2, x.ndim))
    low, high = x.amin(dim=axes, keepdim=True), x.amax(dim=axes, keepdim=True)
    curve = ((x - low) / (high - low).clamp(min=1e-8)).clamp(0, 1) ** gamma
    (spread, mean), (now, middle) = (torch.std_mean(v, dim=axes, keepdim=True, correction=0) for v in (x, curve))
    return mean + shift + contrast * (spread / now.clamp(min=1e-8)) * (curve - middle)


def _smoothing(sigma: Tensor, length: int) -> Tensor:
    """G: each row a Gaussian about its voxel, cut off at 4 σ and at the border; `(B,)` to `(B, N, N)`."""
    place = torch.arange(length, device=sigma.device)
    far = ((place[:, None] - place) / sigma.view(-1, 1, 1)).square()
    weights = torch.where(far > 16, 0.0, torch.exp(-0.5 * far))
    return weights / weights.sum(dim=2, keepdim=True)


def _resolving(share: Tensor, length: int) -> Tensor:
    """L: the nearest voxel of each coarse one, and linear interpolation back; `(B,)` to `(B, N, N)`."""
    place, share = torch.arange(length, device=share.device), share.view(-1, 1)
    coarse = (place + 0.5) * share - 0.5
    before = coarse.floor()
    part = (coarse - before).unsqueeze(2)

    def nearest(number: Tensor) -> Tensor:
        voxel = ((number + 0.5) / share - 0.5).round().clamp(0, length - 1)
        return (voxel.unsqueeze(2) == place).to(share.dtype)

    return (1 - part) * nearest(before) + part * nearest(before + 1)


def along(x: Tensor, matrices: Tensor, axis: int) -> Tensor:
    """Each image `(B, C, *S)` times its matrix `(B, N, N)` along one axis."""
    moved = x.movedim(axis, -1)
    flat = moved.reshape(len(x), -1, moved.shape[-1])
    return (flat @ matrices.to(x.dtype).transpose(1, 2)).view(moved.shape).movedim(-1, axis)
