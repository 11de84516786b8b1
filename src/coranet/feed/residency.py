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
            host_bytes = int(SHARE * _host_memory())
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
        _advise(mapped, "MADV_RANDOM")  # boxes are asked for whole: pages around them would be read in vain
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
        _advise(box, "MADV_WILLNEED")


def _host_memory() -> int:
    """Bytes that are free, or all there are where a system does not say; as much as may be wanted where it says nothing."""
    names = getattr(os, "sysconf_names", {})  # none on Windows
    pages = next((os.sysconf(name) for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES") if name in names), None)
    return 2**40 if pages is None else pages * mmap.PAGESIZE


_LIBC = ctypes.CDLL(None) if hasattr(mmap, "MADV_RANDOM") else None
"""None where there is no such call, as on Windows."""


def _advise(tensor: Tensor, advice: str) -> None:
    """Tell the system how memory will be read, where it listens; of memory that is no file's it is nothing."""
    if _LIBC is None or not tensor.numel():
        return
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    start, stop = tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
    low = start - start % mmap.PAGESIZE
    _LIBC.madvise(ctypes.c_void_p(low), ctypes.c_size_t(stop - low), getattr(mmap, advice))
