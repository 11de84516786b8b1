"""Labels that another model gave to unlabelled images, as one more voice that the heads may doubt.

Before the heads know anything the network's main head learns them like labels, so that there is a start where true labels
are few; the heads learn from true labels alone, and stay judges of their own. From then on a pixel that was spoken for is
certain where the heads agree and give it the label it was told, and uncertain elsewhere. Pixels without a word are as ever.
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


def doubted(sample: Sample, label: Tensor, certain: Tensor) -> Tensor:
    """What is certain of pseudo-labels `(B, *S)`, where another model has a word too: `(B, *S)` bool."""
    if VOICE not in sample.maps:
        return certain
    word = sample.maps[VOICE]
    return certain & ((word == SILENT) | (word == label))


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
