"""Labels that another model gave to unlabelled images, as one more voice that the heads may doubt.

Before the heads know anything the network's main head learns them like labels, so that there is a start where true labels
are few; the heads learn from true labels alone, and stay judges of their own. From then on a word is believed unless the
heads are certain of something else:

    ŷ = v where v was said, else the network's own label;   w = 0 where v was said, the heads agree, and on another label

Where nobody is believed a pixel is uncertain. Pixels without a word are as ever. To learn only words that the heads confirm
was tried before, and teaches nothing that the network does not know (docs/partial-labels.md).

Words that were tried on labelled images, and are silent where they could not be relied on, nobody has to doubt. The main
head learns them like labels to the end, and w = 1 where one was said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coranet.types import Progress, Sample

VOICE = "voice"
"""The map of an unlabelled image that holds it, `(B, *S)` uint8."""
TRIED = "tried voice"
"""The same where it was tried on labelled images."""
SILENT = 255
"""Its value where nothing was said."""
Voices = Mapping[str, Mapping[str, NDArray[np.uint8]]]
"""By the name of such a map, what was said of each case `(X, Y, Z)` on the store's grid; nothing of the others."""


def heard(sample: Sample, label: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Pseudo-labels `(B, *S)` and their weight, bool or 0 to 1, where another model has a word too."""
    word = _word(sample)
    if word is None:
        return label, weight
    word = word.to(label.dtype)
    spoken = word != SILENT
    believed = torch.ones_like(spoken) if TRIED in sample.maps else (weight <= 0.5) | (word == label)
    return torch.where(spoken, word, label), torch.where(spoken, believed.to(weight.dtype), weight)


def told_terms(
    sample: Sample | None, at: Progress, first: str, learn: Callable[[Sample], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """What the main head learns from another model like labels; nothing where nobody speaks.

    Terms weigh by how much of the images that have words these cover: a word counts as much as a voxel of a labelled image.
    Else a model that is heard on an organ alone would teach that all is organ.

    Args:
        sample: unlabelled images.
        at: where training stands.
        first: the name of the first phase, after which words that were not tried are no labels any more.
        learn: supervised terms of a sample, here of one whose labels are words and which is valid where there are some.
    """
    word = None if sample is None else _word(sample)
    if sample is None or word is None or (at.phase != first and TRIED not in sample.maps):
        return {}
    word = word.long()
    spoken = word != SILENT
    told = replace(sample, label=torch.where(spoken, word, 0), valid=sample.valid & spoken)
    voxels, words = (each.flatten(1).sum(dim=1) for each in (sample.valid, told.valid))
    share = words.sum() / torch.where(words > 0, voxels, 0).sum().clamp(min=1)
    return {f"told_{name}": share * value for name, value in learn(told).items()}


def of_one_object(k: int, maps: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is said of object k against the rest, among maps: 1, 0, or nothing."""
    words = {name: maps[name] for name in (VOICE, TRIED) if name in maps}
    return {name: torch.where(word == SILENT, word, (word == k).to(word.dtype)) for name, word in words.items()}


def _word(sample: Sample) -> Tensor | None:
    return sample.maps.get(VOICE, sample.maps.get(TRIED))
