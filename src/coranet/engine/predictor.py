"""A trained method applied to images that are on the device already."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from coranet.data.batches import Pool
from coranet.engine.run import Accel
from coranet.methods import Method
from coranet.nets import Body
from coranet.ops.confusion import dice_from_counts, overlap_counts
from coranet.ops.windows import predict_windows
from coranet.types import Prediction


def arithmetic(accel: Accel, device: torch.device) -> AbstractContextManager[object]:
    """The precision a forward pass runs in."""
    return torch.autocast(device.type, torch.bfloat16) if accel.precision == "bf16" else nullcontext()


def in_layout(image: Tensor, accel: Accel) -> Tensor:
    """The image in the memory layout the networks are in."""
    if not accel.channels_last:
        return image
    return image.contiguous(memory_format=torch.channels_last if image.ndim == 4 else torch.channels_last_3d)


@dataclass(frozen=True)
class Predictor:
    """A network in evaluation mode, fed windows in batches."""

    method: Method
    net: Body
    window: tuple[int, ...]
    accel: Accel
    uncertainty: bool = True

    def __call__(self, images: Tensor) -> Prediction:
        """Of images `(B, C, *S)` of any size."""
        return self.method.decide(self.soft(images), uncertainty=self.uncertainty)

    def soft(self, images: Tensor) -> dict[str, Tensor]:
        """Maps that are blended over windows, and not decided yet."""
        training = self.net.training
        self.net.eval()
        try:
            with torch.no_grad(), arithmetic(self.accel, images.device):
                parts = [
                    predict_windows(self._window, part, self.window)
                    for part in torch.split(images, self._batch(images.device))
                ]
        finally:
            self.net.train(training)
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def over(self, pool: Pool) -> Iterator[tuple[Tensor, Prediction]]:
        """Every image of a pool: which ones, and maps that hold each one's prediction at its near corner.

        Images that fit into a window are padded and predicted together, whatever their sizes; larger ones by size.
        """
        device = pool.image.device
        if bool((pool.sizes <= torch.tensor(self.window)).all()):
            for index in torch.split(torch.arange(len(pool)), self._batch(device)):
                yield index, self(pool.padded(index, self.window))
            return
        for size in torch.unique(pool.sizes, dim=0):
            alike = (pool.sizes == size).all(dim=1).nonzero().flatten()
            cut = (slice(None), slice(None), *(slice(int(n)) for n in size))
            for index in torch.split(alike, self._batch(device)):
                yield index, self(pool.image[index.to(device)][cut])

    def dice(self, pool: Pool, classes: Mapping[str, str]) -> dict[str, float]:
        """Mean over cases of the Dice of each object, on the store's grid, and the mean of those."""
        assert pool.label is not None
        counts: dict[str, Tensor] = {}
        for index, prediction in self.over(pool):
            guess = prediction.probabilities.argmax(dim=1)
            for row, image in enumerate(index.tolist()):
                own = tuple(slice(int(n)) for n in pool.sizes[image])
                both = overlap_counts(guess[row][own], pool.label[image][own].long(), len(classes))
                counts[pool.cases[image]] = counts.get(pool.cases[image], 0) + both
        scores = torch.stack([dice_from_counts(count) for count in counts.values()]).nanmean(dim=0)[1:]
        named = dict(zip(list(classes.values())[1:], scores.tolist(), strict=True))
        return {"mean": float(scores.nanmean()), **named}

    def _batch(self, device: torch.device) -> int:
        """Windows that are predicted together: as many as keep a processor's cache, or a GPU, busy."""
        return max((2**22 if device.type == "cuda" else 2**18) // math.prod(self.window), 1)

    def _window(self, image: Tensor) -> dict[str, Tensor]:
        return self.method.infer(self.net, in_layout(image, self.accel), uncertainty=self.uncertainty)
