"""A step of SSL4MIS's mean teacher on slices (HiLab-git/SSL4MIS).

    L = (CE + Dice)/2 on labelled slices + 0.1 w(t) · mean over slices, classes and pixels of (p - p')² on unlabelled ones

The teacher sees the unlabelled slices with noise of 0.1, cut off at 0.2, the student as they are; one pass of the student
holds both halves. The teacher averages parameters alone, and stays in training mode. SGD at 0.01, momentum 0.9, weight
decay 1e-4.

Ours (`coranet.methods.mean_teacher`) differs: CE + Dice are added; Σ over classes, so K times this mean; both networks see
noise; running statistics are averaged too; w(t) is exp(-5 (1 - t/T)²) in both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor, nn

Answer = Callable[[Tensor], Tensor]
"""From images to logits."""


def loss_terms(student: Answer, teacher: Answer, images: Tensor, label: Tensor, noise: Tensor) -> dict[str, Tensor]:
    """Unweighted: `images` are labelled ones first, as many as `label` has."""
    known = len(label)
    logits = student(images)
    with torch.no_grad():
        target = torch.softmax(teacher(images[known:] + noise), dim=1)
    p = torch.softmax(logits, dim=1)
    return {
        "ce": nn.functional.cross_entropy(logits[:known], label),
        "dice": _dice(p[:known], label),
        "consistency": ((p[known:] - target) ** 2).mean(),
    }


def total(terms: dict[str, Tensor], ramp: float) -> Tensor:
    """L."""
    return 0.5 * (terms["ce"] + terms["dice"]) + 0.1 * ramp * terms["consistency"]


def _dice(p: Tensor, label: Tensor) -> Tensor:
    """Mean over classes of 1 - 2 Σ p q / (Σ p² + Σ q²), sums over the batch."""
    q = nn.functional.one_hot(label, p.shape[1]).movedim(-1, 1).float()
    axes = (0, *range(2, p.ndim))
    return 1 - ((2 * (p * q).sum(axes) + 1e-5) / ((p * p).sum(axes) + (q * q).sum(axes) + 1e-5)).mean()


def follow(teacher: nn.Module, student: nn.Module, beta: float = 0.99) -> None:
    """One parameter after the other, as its authors write it."""
    with torch.no_grad():
        for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
            old.mul_(beta).add_(new, alpha=1 - beta)


class HostSlices(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Slices that are turned, mirrored and stretched to a size on the host, one at a time; never ending."""

    def __init__(self, slices: NDArray[np.float32], labels: NDArray[np.uint8], size: int) -> None:
        self.slices, self.labels, self.size = slices, labels, size

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """The next one."""
        random = np.random.default_rng(index)
        image, label = self.slices[index % len(self.slices)], self.labels[index % len(self.slices)]
        if random.random() > 0.5:
            turns, axis = int(random.integers(4)), int(random.integers(2))
            image, label = (np.flip(np.rot90(one, turns), axis) for one in (image, label))
        elif random.random() > 0.5:
            angle = float(random.integers(-20, 20))
            image, label = (ndimage.rotate(one, angle, order=0, reshape=False) for one in (image, label))
        image, label = (ndimage.zoom(one, self.size / np.array(one.shape), order=0) for one in (image, label))
        return torch.from_numpy(image[None].astype(np.float32)), torch.from_numpy(label.astype(np.int64))
