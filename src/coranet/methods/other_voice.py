"""Labels that another model gave to unlabelled images, as one more voice that the heads may doubt.

Before the heads know anything the network's main head learns them like labels, so that there is a start where true labels
are few; the heads learn from true labels alone, and stay judges of their own. From then on a word is believed unless the
heads are certain of something else:

    ŷ = v where v was said, else the network's own label;   w = 0 where v was said, the heads agree, and on another label

Where nobody is believed a pixel is uncertain. Pixels without a word are as ever. To learn only words that the heads confirm
was tried before, and teaches nothing that the network does not know (docs/partial-labels.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from coranet.types import Progress, Sample

VOICE = "voice"
"""The map of an unlabelled image that holds it, `(B, *S)` uint8."""
SILENT = 255
"""Its value where nothing was said."""


def heard(sample: Sample, label: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Pseudo-labels `(B, *S)` and their weight, bool or 0 to 1, where another model has a word too."""
    if VOICE not in sample.maps:
        return label, weight
    word = sample.maps[VOICE].to(label.dtype)
    spoken, doubted = word != SILENT, (weight > 0.5) & (word != label)
    return torch.where(spoken, word, label), torch.where(spoken, (~doubted).to(weight.dtype), weight)


def told_terms(
    sample: Sample | None, at: Progress, first: str, learn: Callable[[Sample], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """What the main head learns from another model, in the first phase alone; nothing where nobody speaks.

    Args:
        sample: unlabelled images.
        at: where training stands.
        first: the name of the first phase.
        learn: supervised terms of a sample, here of one whose labels are words and which is valid where there are some.
    """
    if sample is None or VOICE not in sample.maps or at.phase != first:
        return {}
    word = sample.maps[VOICE].long()
    spoken = word != SILENT
    told = replace(sample, label=torch.where(spoken, word, 0), valid=sample.valid & spoken)
    return {f"told_{name}": value for name, value in learn(told).items()}


def of_one_object(k: int, word: Tensor) -> Tensor:
    """What is said of object k against the rest: 1, 0, or nothing."""
    return torch.where(word == SILENT, word, (word == k).to(word.dtype))
