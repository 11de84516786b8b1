"""Where a run computes."""

from __future__ import annotations

import os

import torch

from coranet.errors import InputError


def find_device(name: str | None) -> torch.device:
    """The one that was asked for, or the fastest there is."""
    if name in (None, "auto"):
        # Of several processes that `torchrun` starts on a machine, each has a GPU of its own.
        gpu = f"cuda:{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ else "cuda"
        return find_device(gpu) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(str(name))
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda", "mps"):
        raise InputError(f"--device {name}: not a device we know. Use cpu, cuda, cuda:1 or mps.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InputError(f"--device {name}: this machine has no GPU of Apple's that PyTorch can use. Use --device cpu.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"--device {name}: this machine has {torch.cuda.device_count()} usable GPUs. Use --device cpu."
        )
    return device
