"""Boxes of images that are not on the device, read by a thread while the device is busy with the step before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from coranet.feed.pools import Pool
from coranet.feed.residency import send_for
from coranet.ops.space.warp import cut

Key = tuple[str, int]
"""Which images, and of which step."""


def box_of(source: Tensor, low: Sequence[int], shape: tuple[int, ...]) -> Tensor:
    """A box of `(*S)` or `(C, *S)`."""
    flat = source.ndim == len(shape)
    return cut(source.unsqueeze(0), low, shape).squeeze(0) if flat else cut(source, low, shape)


@dataclass(frozen=True)
class Boxes:
    """Boxes of images and labels on the way to a device."""

    kinds: dict[str, list[Tensor]]
    """By kind, one for each image: on the device already, or in memory it can be sent from."""

    @classmethod
    def read(cls, pool: Pool, index: Sequence[int], corners: Sequence[Sequence[int]], shape: tuple[int, ...]) -> Boxes:
        """Those of some images of a pool."""
        return cls.cut(pool.sources, index, corners, shape, pool.device)

    @classmethod
    def cut(
        cls,
        sources: Mapping[str, Sequence[Tensor]],
        index: Sequence[int],
        corners: Sequence[Sequence[int]],
        shape: tuple[int, ...],
        device: torch.device,
    ) -> Boxes:
        """Those of some of the sources of each kind. What is not on the device is copied together."""
        pin = device.type == "cuda"
        kinds: dict[str, list[Tensor]] = {}
        for name, held in sources.items():
            kinds[name] = []
            for number, low in zip(index, corners, strict=True):
                box = box_of(held[number], low, shape)
                send_for(box)
                if box.device.type != device.type:
                    box = torch.empty(box.shape, dtype=box.dtype, pin_memory=pin).copy_(box)
                kinds[name].append(box)
        return cls(kinds)

    def on(self, device: torch.device) -> dict[str, Tensor]:
        """All of them on the device, `(B, ...)` by kind; nothing waits."""
        return {
            name: torch.stack([box.to(device, non_blocking=True) for box in boxes])
            for name, boxes in self.kinds.items()
        }


class ReadAhead:
    """One thread that reads what will be asked for next."""

    def __init__(self) -> None:
        self.coming: dict[Key, Future[Boxes]] = {}
        self.threads: ThreadPoolExecutor | None = None

    def send(self, key: Key, read: Callable[[], Boxes]) -> None:
        """Begin to read."""
        self.threads = self.threads or ThreadPoolExecutor(max_workers=2, thread_name_prefix="scans")
        self.coming = {other: work for other, work in self.coming.items() if other[0] != key[0]}
        self.coming[key] = self.threads.submit(read)

    def take(self, key: Key, read: Callable[[], Boxes]) -> Boxes:
        """What was sent for, or what is read now where nothing was."""
        work = self.coming.pop(key, None)
        return read() if work is None else work.result()
