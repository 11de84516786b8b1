"""Where scans, and maps kept of them, are while they are trained on: on the device, then in host memory, then on disk."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import tempfile
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SHARE = 0.5
"""Of the memory that is free, where no bound is given: networks and their activations need the rest."""


@dataclass
class Room:
    """What is left of two bounds, in bytes. Scans and maps go to the first place that has room for all of one."""

    device: torch.device
    on_device: int
    on_host: int

    @classmethod
    def of(cls, device: torch.device, device_bytes: int | None, host_bytes: int | None) -> Room:
        """By bounds that are given, or by what is free now."""
        if device_bytes is None:
            device_bytes = int(SHARE * torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 0
        if host_bytes is None:
            host_bytes = int(SHARE * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        return cls(device, device_bytes, host_bytes)

    def place(self, images: NDArray[Any]) -> tuple[Tensor, ...]:
        """Images `(N, ...)`, mapped from a store, where there is room for them."""
        size = images.nbytes
        if self.device.type != "cpu" and size <= self.on_device:
            self.on_device -= size
            return _shared(np.ascontiguousarray(images)).to(self.device).unbind()
        if size <= self.on_host:
            self.on_host -= size
            if self.device.type == "cuda":
                return _shared(np.ascontiguousarray(images)).pin_memory().unbind()
            return torch.from_numpy(np.array(images, order="C")).unbind()  # a copy: what is mapped is on disk
        mapped = _shared(images)
        _advise(mapped, mmap.MADV_RANDOM)  # boxes are asked for whole: pages around them would be read in vain
        return mapped.unbind()

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Something to write to, where there is room for it; on disk it is a file that goes when it is no longer used."""
        size = math.prod(shape) * dtype.itemsize
        if self.device.type != "cpu" and size <= self.on_device:
            self.on_device -= size
            return torch.zeros(shape, dtype=dtype, device=self.device)
        if size <= self.on_host:
            self.on_host -= size
            return torch.zeros(shape, dtype=dtype, pin_memory=self.device.type == "cuda")
        with tempfile.TemporaryFile() as file:
            mapped = np.memmap(file, np.uint8, "w+", shape=(max(size, 1),))
        return torch.from_numpy(mapped)[:size].view(dtype).view(shape)


def _shared(images: NDArray[Any]) -> Tensor:
    """Mapped images as a tensor that is not written to: of those that lie together, nothing is copied before its time."""
    with warnings.catch_warnings():  # that PyTorch knows no read-only tensors
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(images)


def send_for(box: Tensor) -> None:
    """Have all of a box that may lie on disk read at once, and not page by page as it is come upon."""
    if box.device.type == "cpu":
        _advise(box, mmap.MADV_WILLNEED)


_LIBC = ctypes.CDLL(None)


def _advise(tensor: Tensor, advice: int) -> None:
    """Tell the system how memory will be read; of memory that is no file's it is nothing."""
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    start, stop = tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
    low = start - start % mmap.PAGESIZE
    _LIBC.madvise(ctypes.c_void_p(low), ctypes.c_size_t(stop - low), advice)
